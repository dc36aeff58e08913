#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "dist/data_parallel.h"
#include "optim/clip.h"
#include "optim/loss_scaler.h"
#include "optim/registry.h"
#include "tests/dist/trainer.h"

namespace ringtape::test {

/// How the tests of ZeRO train.
struct ZeroOptions {
  int stage = 0;
  std::string optimizer = "sgd";
  DType dtype = DType::f32;
  BucketSizes bucket_sizes = {512, 1024};  // slices begin and end within parameters
  double clip_norm = 0;                    // 0: no clipping
  double clip_norm_type = 2;
  std::vector<std::int64_t> hidden = {16, 16};
};

inline std::unique_ptr<Optimizer> make_optimizer(const std::string& name, ParameterArena& arena) {
  // Decay and rates differ between parameters.
  const std::vector<ParameterGroup> groups = {
      no_decay_below_two_dimensions(),
      {.name = "first",
       .contains = [](const ArenaEntry& e) { return e.name.starts_with("0."); },
       .lr_scale = 2}};
  const OptimizerKind& kind = optimizer_named(name);
  OptimizerSettings settings = kind.defaults;
  settings.weight_decay = 0.1;
  return kind.make(arena, settings, groups);
}

/// One rank of a training run.
class ZeroTrainer {
 public:
  ZeroTrainer(std::shared_ptr<Communicator> communicator, const ZeroOptions& how)
      : options(how),
        comm(std::move(communicator)),
        model((manual_seed(1), make_mlp(sizes()))),
        arena(*model, comm->device(), how.dtype,
              {.zero_stage = how.stage,
               .rank = comm->rank(),
               .world_size = comm->size(),
               .bucket_sizes = how.bucket_sizes}),
        optimizer(make_optimizer(how.optimizer, arena)),
        parallel(*model, arena, comm,
                 {.bucket_sizes = how.bucket_sizes, .overlap = true, .allow_unused = false, .hook = nullptr}),
        window(comm->size(), sum_over(comm)) {
    if (how.dtype == DType::f16) scaler.emplace(arena);
  }

  void backward(const Data& data, const MicroBatch& piece) {
    const TapeScope scope;
    const auto x = data.x.begin() + piece.first * kInputs;
    const auto y = data.targets.begin() + piece.first;
    const Tensor features =
        tensor_of({x, x + piece.size * kInputs}, {piece.size, kInputs}, options.dtype, arena.device());
    const Tensor targets =
        copy_to(from_vector(std::vector<std::int64_t>(y, y + piece.size), {piece.size}), arena.device());
    const Tensor loss = cross_entropy((*model)(features), targets,
                                      {.reduction = Reduction::sum, .divisor = window.divisor()});
    scaler ? scaler->backward(loss) : loss.backward();
  }

  /// Computes the mean over the ranks of the gradients of these pieces of this rank's samples.
  void accumulate(const Data& data, const std::vector<MicroBatch>& pieces, bool no_sync) {
    std::int64_t own = 0;
    for (const MicroBatch& piece : pieces) own += data.counting(piece);
    window.begin(own);
    optimizer->zero_grad();
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const auto scope = parallel.no_sync(no_sync && i + 1 < pieces.size());
      backward(data, pieces[i]);
    }
    parallel.finish();
  }

  /// Returns the gradient norm, or 0 where it was not measured.
  double step() {
    double norm = 0;
    if (options.clip_norm > 0 || scaler) {
      norm = clip_grad_norm(arena, options.clip_norm > 0 ? options.clip_norm : INFINITY,
                            {.norm_type = options.clip_norm_type})
                 .item();
    }
    optimizer->step();
    if (scaler) scaler->update();
    return norm;
  }

  /// The values of all parameters, current on all ranks.
  std::vector<std::vector<double>> values() {
    arena.gather_values();
    const Tensor flat = arena.has_all_values() ? arena.values() : values_of_all_shards();
    std::vector<std::vector<double>> all;
    for (const ArenaEntry& entry : arena.entries()) {
      all.push_back(flat.alias(entry.tensor->shape(), entry.offset).to_doubles());
    }
    return all;
  }

  ZeroOptions options;
  std::shared_ptr<Communicator> comm;
  std::shared_ptr<Sequential> model;
  ParameterArena arena;
  std::unique_ptr<Optimizer> optimizer;
  DataParallel parallel;
  AccumulationWindow window;
  std::optional<LossScaler> scaler;

 private:
  Tensor values_of_all_shards() const {
    const Tensor flat = empty({arena.size()}, DType::f32, arena.device());
    for (std::size_t b = 0; b < arena.buckets().size(); ++b) {
      const GradientBucket& bucket = arena.buckets()[b];
      const ShardSlice& slice = arena.slices()[b];
      comm->all_gather(arena.values().alias({slice.elements}, slice.in_shard),
                       flat.alias({bucket.elements}, bucket.offset))
          .wait();
    }
    return flat;
  }
  std::vector<std::int64_t> sizes() const {
    std::vector<std::int64_t> all = {kInputs};
    all.insert(all.end(), options.hidden.begin(), options.hidden.end());
    all.push_back(kClasses);
    return all;
  }
};

/// This rank's shard of an arena in buckets of `bucket_bytes`.
inline ArenaSharding sharding_of(const Communicator& comm, int stage, std::int64_t bucket_bytes) {
  return {.zero_stage = stage,
          .rank = comm.rank(),
          .world_size = comm.size(),
          .bucket_sizes = {bucket_bytes, bucket_bytes}};
}

}  // namespace ringtape::test
