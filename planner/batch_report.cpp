#include "planner/batch_report.h"

#include <fmt/format.h>

#include "planner/numbers.h"

namespace ringtape::planner {
namespace {

std::string shape_row(const BatchShape& shape) {
  return fmt::format("  {:>11}  {:>12}  {:>9}  {:>12}\n", grouped(shape.micro_batch),
                     grouped(shape.accumulation), grouped(shape.ranks), grouped(shape.global_batch()));
}

Json shape_json(const BatchShape& shape) {
  return {{"micro_batch", shape.micro_batch},
          {"accumulation", shape.accumulation},
          {"ranks", shape.ranks},
          {"global_batch", shape.global_batch()}};
}

}  // namespace

std::string batch_text(const BatchPlan& plan, const std::optional<RunCost>& cost) {
  std::string text;
  for (const std::string& line : plan.arithmetic) text += line + "\n";
  const std::string header = fmt::format("  {:>11}  {:>12}  {:>9}  {:>12}\n", "micro-batch", "accumulation",
                                         "ranks", "global batch");
  text += "\nplan\n" + header + shape_row(plan.shape);
  if (plan.sequence) {
    text += "  " + grouped(product(plan.shape.global_batch(), *plan.sequence), "token") + " an update\n";
  }
  if (!plan.notes.empty()) text += "\n";
  for (const std::string& line : plan.notes) text += "note: " + line + "\n";
  if (!plan.exact.empty()) {
    text += "\nexact alternatives\n" + header;
    for (const BatchShape& shape : plan.exact) text += shape_row(shape);
  }
  if (cost) {
    text += fmt::format("\nrun\n  {}, {}: {:.6g} hours on {}, {:.6g} GPU hours, cost {:.2f}\n",
                        grouped(cost->updates, "update"), grouped(cost->samples, "sample"), cost->hours,
                        grouped(plan.shape.ranks, "GPU"), cost->gpu_hours, cost->cost);
  }
  return text;
}

Json batch_json(const BatchPlan& plan, const std::optional<RunCost>& cost) {
  Json json = shape_json(plan.shape);
  json["target"] = plan.target;
  json["exact"] = plan.is_exact();
  json["idle_ranks"] = plan.idle_ranks;
  if (plan.sequence) {
    json["sequence"] = *plan.sequence;
    json["global_tokens"] = product(plan.shape.global_batch(), *plan.sequence);
  }
  if (plan.epoch) {
    json["epoch"] = {{"updates", plan.epoch->updates},
                     {"last_samples", plan.epoch->last_samples},
                     {"last_accumulation", plan.epoch->last_accumulation}};
  }
  if (cost) {
    json["run"] = {{"updates", cost->updates},
                   {"samples", cost->samples},
                   {"hours", cost->hours},
                   {"gpu_hours", cost->gpu_hours},
                   {"cost", cost->cost}};
  }
  json["arithmetic"] = Json::Array(plan.arithmetic.begin(), plan.arithmetic.end());
  json["notes"] = Json::Array(plan.notes.begin(), plan.notes.end());
  json["alternatives"] = Json::Array{};
  for (const BatchShape& shape : plan.exact) json["alternatives"].push_back(shape_json(shape));
  return json;
}

}  // namespace ringtape::planner
