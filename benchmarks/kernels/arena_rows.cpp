#include <cmath>
#include <numeric>

#include "autograd/creation.h"
#include "benchmarks/kernels/loops.h"
#include "benchmarks/kernels/rows.h"
#include "core/memory.h"
#include "kernels/adam.h"
#include "kernels/clip.h"
#include "kernels/lamb.h"
#include "kernels/lars.h"
#include "kernels/sgd.h"

namespace ringtape::benchmarks {
namespace {

template <class T>
Tensor upload(const std::vector<T>& values, Device device) {
  Tensor bytes = empty({static_cast<std::int64_t>(values.size() * sizeof(T))}, DType::u8, device);
  copy_bytes(bytes.raw(), device, values.data(), Device{}, bytes.bytes());
  return bytes;
}

/// Parameters of these lengths in one arena, cut into tiles.
std::vector<Tile> tiles_of(const std::vector<std::int64_t>& lengths, std::int64_t& arena_length) {
  std::vector<Tile> tiles;
  arena_length = 0;
  for (std::size_t p = 0; p < lengths.size(); ++p) {
    for (std::int64_t first = 0; first < lengths[p]; first += kTileElements) {
      tiles.push_back({arena_length + first,
                       static_cast<std::int32_t>(std::min<std::int64_t>(kTileElements, lengths[p] - first)),
                       static_cast<std::int32_t>(p)});
    }
    arena_length += (lengths[p] + kTileAlignment - 1) / kTileAlignment * kTileAlignment;
  }
  return tiles;
}

/// An arena with gradients and all that the optimizers keep and need.
class ArenaWork {
 public:
  ArenaWork(const std::vector<std::int64_t>& lengths, Device device)
      : device_(device),
        tile_list_(tiles_of(lengths, length_)),
        tiles_(upload(tile_list_, device)),
        has_grad_(upload(std::vector<std::uint8_t>(lengths.size(), 1), device)),
        options_(upload(std::vector<ParameterOptions>(lengths.size(), {1.0f, 0.01f, 1}), device)),
        steps_(zeros({std::ssize(lengths)}, DType::i64, device)),
        coefficients_(empty({std::ssize(lengths) * 16}, DType::u8, device)),
        tile_norms_(upload(std::vector<SquaredNorms>(tile_list_.size()), device)),
        norms_(upload(std::vector<SquaredNorms>(lengths.size()), device)),
        values_(randn({length_}, DType::f32, device)),
        gradients_(randn({length_}, DType::f32, device)),
        first_(zeros({length_}, DType::f32, device)),
        second_(zeros({length_}, DType::f32, device)),
        copy_(empty({length_}, DType::bf16, device)),
        rate_(full({}, 1e-3, DType::f32, device)),
        norm_(zeros({3}, DType::f32, device)) {
    static_assert(sizeof(AdamCoefficients) == 16 && sizeof(SgdCoefficients) == 16 &&
                  sizeof(LambCoefficients) == 16);
    arena_.values = values_.data<float>();
    arena_.gradients = gradients_.data<float>();
    arena_.tiles = static_cast<const Tile*>(tiles_.raw());
    arena_.tile_count = std::ssize(tile_list_);
    arena_.parameter_count = std::ssize(lengths);
    arena_.options = static_cast<const ParameterOptions*>(options_.raw());
    arena_.has_grad = has_grad_.data<std::uint8_t>();
    arena_.learning_rate = rate_.data<float>();
    arena_.clip_factor = &result()->clip_factor;
  }

  void take_norm(double type, float max_norm = 1) const {
    gradient_norm(stream(), norm(type, max_norm), result());
  }
  float norm_value() const { return norm_.to_vector<float>()[0]; }
  void clip(float max_norm) const {
    clip_gradients(stream(), norm(2, max_norm), result(), gradients_.data<float>());
  }
  void clip_values() const { clip_value(stream(), gradients_.data<float>(), length_, 3.0f, nullptr); }

  void adamw(bool writes_copy) const {
    ArenaView arena = arena_;
    arena.low_precision = writes_copy ? copy_.raw() : nullptr;
    arena.low_precision_dtype = DType::bf16;
    adam_step(stream(),
              AdamStep{arena, first_.data<float>(), second_.data<float>(), steps_.data<std::int64_t>(),
                       static_cast<AdamCoefficients*>(coefficients_.raw()), 0.9, 0.999, 1e-8, true});
  }
  void lamb() const {
    const LambStep step{.arena = arena_,
                        .first_moment = first_.data<float>(),
                        .second_moment = second_.data<float>(),
                        .steps = steps_.data<std::int64_t>(),
                        .coefficients = static_cast<LambCoefficients*>(coefficients_.raw()),
                        .tile_norms = static_cast<SquaredNorms*>(tile_norms_.raw()),
                        .norms = static_cast<SquaredNorms*>(norms_.raw()),
                        .beta1 = 0.9,
                        .beta2 = 0.999,
                        .eps = 1e-6,
                        .debias = LambDebias::in_norm,
                        .min_ratio = 0,
                        .max_ratio = INFINITY};
    lamb_norms(stream(), step);
    lamb_values(stream(), step);
  }
  void sgd() const {
    sgd_step(stream(), SgdStep{arena_, first_.data<float>(), steps_.data<std::int64_t>(),
                               static_cast<SgdCoefficients*>(coefficients_.raw()), 0.9, 0, false});
  }
  void lars() const {
    const LarsStep step{arena_,
                        first_.data<float>(),
                        static_cast<SquaredNorms*>(tile_norms_.raw()),
                        static_cast<SquaredNorms*>(norms_.raw()),
                        0.9,
                        1e-3,
                        1e-8};
    lars_norms(stream(), step);
    lars_values(stream(), step);
  }

  void plain_norm() const { loop_norm(gradients_.data<float>(), length_, norm_.data<float>()); }
  void plain_adamw() const {
    loop_adamw(values_.data<float>(), gradients_.data<float>(), first_.data<float>(), second_.data<float>(),
               length_);
  }

 private:
  Stream stream() const { return Stream::current(device_); }
  GradientNorm* result() const { return static_cast<GradientNorm*>(norm_.raw()); }
  GradientNormProblem norm(double type, float max_norm) const {
    return {arena_.gradients, arena_.tiles, arena_.tile_count, arena_.has_grad, type, max_norm, nullptr};
  }

  Device device_;
  std::int64_t length_ = 0;
  std::vector<Tile> tile_list_;
  Tensor tiles_, has_grad_, options_, steps_, coefficients_, tile_norms_, norms_;
  Tensor values_, gradients_, first_, second_, copy_, rate_, norm_;
  ArenaView arena_{};
};

}  // namespace

void measure_arena(Table& table, const std::string& size, const std::vector<std::int64_t>& lengths) {
  const ArenaWork work(lengths, table.device());
  const auto elements = static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));
  const double bytes = 4 * elements;
  table.measure(
      {"gradient_norm", size, bytes, 2 * elements, [&] { work.take_norm(2); }, [&] { work.plain_norm(); }});
  table.measure({"gradient_norm, largest", size, bytes, 2 * elements, [&] { work.take_norm(INFINITY); }});
  // A factor just below 1, so that thousands of runs leave gradients of an ordinary size.
  work.take_norm(2);
  const float max_norm = work.norm_value() * 0.99999f;
  work.take_norm(2, max_norm);
  table.measure({"clip_gradients", size, 2 * bytes, elements, [&] { work.clip(max_norm); }});
  table.measure({"clip_value", size, 2 * bytes, 2 * elements, [&] { work.clip_values(); }});
  work.take_norm(2);
  table.measure({"adam_step (AdamW, clip)", size, 7 * bytes, 14 * elements, [&] { work.adamw(false); },
                 [&] { work.plain_adamw(); }});
  table.measure(
      {"adam_step (AdamW, bf16 copy)", size, 7.5 * bytes, 15 * elements, [&] { work.adamw(true); }});
  table.measure({"lamb_norms, lamb_values (clip)", size, 10 * bytes, 20 * elements, [&] { work.lamb(); }});
  table.measure({"sgd_step (momentum, clip)", size, 5 * bytes, 7 * elements, [&] { work.sgd(); }});
  table.measure({"lars_norms, lars_values (clip)", size, 7 * bytes, 12 * elements, [&] { work.lars(); }});
}

}  // namespace ringtape::benchmarks
