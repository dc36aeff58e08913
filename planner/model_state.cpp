#include "planner/model_state.h"

#include <algorithm>

#include "core/ceil_div.h"
#include "core/error.h"
#include "planner/numbers.h"

namespace ringtape::planner {
namespace {

/// A row of `bytes_each` for each of `elements`, divided by `ranks`; with 1 rank not divided.
MemoryRow row(const std::string& name, std::int64_t bytes_each, std::int64_t elements, std::int64_t ranks,
              std::int64_t block) {
  const std::int64_t bytes = product(bytes_each, elements);
  if (bytes == 0) return {name, 0, "none"};
  std::string how = fmt::format("{} x {}", bytes_each, grouped(elements));
  if (ranks > 1) how += " / " + grouped(ranks);
  return {name, ceil_div(ceil_div(bytes, ranks), block) * block, how};
}

MemoryRow bucket_row(const ModelState& model, const Sharding& sharding) {
  if (sharding.ranks == 1) return {"buckets", 0, "none"};
  const std::int64_t layers = product(2 * model.compute_bytes, model.largest_layer);
  if (model.trained == 0 && sharding.zero_stage == 3) return {"buckets", layers, "2 layers' parameters"};
  if (model.trained == 0) return {"buckets", 0, "none"};
  if (sharding.zero_stage < 2) return {"buckets", 0, "none: gradients are reduced where they are"};
  const std::int64_t all_gradients = product(model.gradient_bytes, model.trained);
  const std::int64_t gradients = product(2, std::min(sharding.bucket_bytes, all_gradients));
  if (sharding.zero_stage == 2) return {"buckets", gradients, "2 of gradients"};
  return {"buckets", gradients + layers, "2 of gradients, 2 layers' parameters"};
}

}  // namespace

std::vector<MemoryRow> state_memory(const ModelState& model, const Sharding& sharding) {
  check_size("the number of parameters", model.parameters);
  check(model.trained >= 0 && model.trained <= model.parameters,
        "{} parameters are trained: expected 0 to {}", model.trained, model.parameters);
  check(sharding.zero_stage >= 0 && sharding.zero_stage <= 3, "the ZeRO stage must be 0 to 3, found {}",
        sharding.zero_stage);
  check_size("ranks", sharding.ranks);
  const std::int64_t trained = model.trained;
  const auto from_stage = [&](int stage) { return sharding.zero_stage >= stage ? sharding.ranks : 1; };
  const bool in_16_bits = model.compute_bytes == 2;
  std::vector<MemoryRow> rows;
  if (in_16_bits) {
    // Only the optimizer's step reads the f32 values of trained parameters, so they are sharded with the
    // optimizer state. f32 values of frozen parameters are not sharded.
    const std::int64_t frozen = model.frozen_in_f32 ? model.parameters - trained : 0;
    MemoryRow values = row("parameters in f32", 4, trained, from_stage(1), model.block);
    if (frozen > 0) {
      values.bytes += product(4, frozen);
      values.how = (trained > 0 ? values.how + " + " : "") + fmt::format("4 x {} frozen", grouped(frozen));
    }
    rows.push_back(values);
    rows.push_back(row("parameters in 16 bits", 2, model.parameters, from_stage(3), model.block));
  } else {
    rows.push_back(row("parameters", 4, model.parameters, from_stage(3), model.block));
  }
  rows.push_back(row("gradients", model.gradient_bytes, trained, from_stage(2), model.block));
  rows.push_back(row("optimizer state", 4 * model.state_per_parameter, trained, from_stage(1), model.block));
  rows.push_back(bucket_row(model, sharding));
  return rows;
}

}  // namespace ringtape::planner
