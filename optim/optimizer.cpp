#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "autograd/creation.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/stream.h"
#include "kernels/elementwise.h"
#include "optim/clip.h"
#include "optim/setting.h"
#include "trace/spans.h"

namespace ringtape {

Optimizer::Optimizer(ParameterArena& arena, double learning_rate, double weight_decay,
                     const std::vector<ParameterGroup>& groups)
    : arena_(arena) {
  check_setting("optimizer", "weight decay", weight_decay);
  learning_rate_on_device_ = empty({}, DType::f32, arena.device());
  set_learning_rate(learning_rate);
  skipped_updates_ = zeros({}, DType::i64, arena.device());
  const std::vector<ParameterOptions> options = options_of_entries(arena, weight_decay, groups);
  options_ = empty({static_cast<std::int64_t>(options.size() * sizeof(ParameterOptions))}, DType::u8,
                   arena.device());
  copy_bytes(options_.raw(), arena.device(), options.data(), Device{}, options_.bytes());
}

void Optimizer::set_learning_rate(double value) {
  check_setting("optimizer", "learning rate", value);
  if (value == learning_rate_) return;
  learning_rate_ = value;
  fill(Stream::current(arena_.device()), DType::f32, learning_rate_on_device_.raw(), std::int64_t{1}, value);
}

Tensor Optimizer::make_state() const {
  const MemoryScope scope(MemoryCategory::optimizer_state);
  return zeros({arena_.shard_size()}, DType::f32, arena_.device());
}

void Optimizer::step() {
  // For a sharded arena without a connection to the other ranks, this throws before any change.
  const ShardExchange* exchange = arena_.is_sharded() ? &arena_.shard_exchange() : nullptr;
  arena_.check_gradients();
  const bool is_scaled = arena_.loss_scale() != nullptr;
  if (is_scaled && arena_.clip_factor() == nullptr) clip_grad_norm(arena_, INFINITY);  // finds an overflow
  ArenaView view{};
  view.values = arena_.values().data<float>();
  if (arena_.low_precision().defined()) {
    view.low_precision = arena_.low_precision().raw();
    view.low_precision_dtype = arena_.compute_dtype();
  }
  view.gradients = arena_.gradients().data<float>();
  view.tiles = arena_.tiles();
  view.tile_count = arena_.tile_count();
  view.parameter_count = parameter_count();
  view.options = static_cast<const ParameterOptions*>(options_.raw());
  view.has_grad = arena_.has_grad();
  view.learning_rate = learning_rate_on_device_.data<float>();
  view.loss_scale = arena_.loss_scale();
  view.clip_factor = arena_.clip_factor();
  view.skip = arena_.skip();
  view.skipped_updates = skipped_updates_.data<std::int64_t>();
  if (exchange != nullptr) arena_.refresh_low_precision();
  launch_step(view);
  arena_.set_clip_factor(nullptr);
  arena_.set_skip(nullptr);
  arena_.bump_versions_with_low_precision();
  if (exchange == nullptr || !arena_.has_all_values()) return;
  const bool has_copy = arena_.low_precision().defined();
  exchange->start_all_gather(has_copy ? arena_.low_precision() : arena_.values());
}

void Optimizer::add_step_work(const ArenaView& view, std::int64_t flops, std::int64_t bytes) const {
  if (view.loss_scale != nullptr) flops += 1;
  if (view.clip_factor != nullptr) flops += 1;
  if (view.low_precision != nullptr) bytes += static_cast<std::int64_t>(size_of(view.low_precision_dtype));
  add_work({.flops = flops * arena_.shard_size(), .bytes = bytes * arena_.shard_size()});
}

void Optimizer::sum_over_ranks(const Tensor& x) const {
  if (parameter_count() == 0) return;
  const std::int64_t columns = x.elements() / parameter_count();
  const auto row_of = [&](std::int64_t entry) { return x.alias({columns}, entry * columns); };
  // As f32, since a GPU has no operations on f64; the bits of 0 are the same.
  const auto clear = [&](const Tensor& row) {
    fill(Stream::current(x.device()), DType::f32, row.raw(), row.bytes() / 4, 0.0);
  };
  if (arena_.is_sharded()) arena_.shard_exchange().sum(x);
  if (arena_.division()) {
    for (std::int64_t i = 0; i < parameter_count(); ++i) {
      if (!arena_.counts(static_cast<std::size_t>(i))) clear(row_of(i));
    }
    arena_.division()->sum(x);
  }
  if (!arena_.stages()) return;
  // Both stages that have a parameter must continue with the same bits: the order in which a communicator
  // adds depends on the rank.
  for (const ModelStages::TiedParameter& copy : arena_.stages()->copies) {
    const auto& entries = arena_.entries();
    const auto entry = std::find_if(entries.begin(), entries.end(),
                                    [&](const ArenaEntry& each) { return each.name == copy.name; });
    const Tensor row = row_of(entry - entries.begin());
    if (!copy.is_counted) clear(row);
    copy.sum(row);
  }
}

}  // namespace ringtape
