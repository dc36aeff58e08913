#include "planner/batch_config.h"

#include "core/error.h"
#include "core/quote.h"
#include "planner/numbers.h"

namespace ringtape::planner {
namespace {

constexpr const char* kBatch = "train_batch_size";
constexpr const char* kMicroBatch = "train_micro_batch_size_per_gpu";
constexpr const char* kAccumulation = "gradient_accumulation_steps";

}  // namespace

BatchConfig::BatchConfig(const std::string& text, std::string name) : name_(std::move(name)) {
  json_ = Json::parse(text, name_);
  check(json_.is_object(), "{}: expected a JSON object, found {}", name_, json_.kind());
  for (const char* key : {kBatch, kMicroBatch, kAccumulation}) number(key);
}

std::optional<std::int64_t> BatchConfig::number(const char* key) const {
  const Json* const found = json_.find(key);
  if (found == nullptr || (found->is_string() && found->as_string() == "auto")) return std::nullopt;
  std::int64_t value = 0;
  try {
    value = found->as_int64();
  } catch (const JsonError&) {  // reported below
  }
  check(value >= 1 && value <= kMaxSize, "{}: {} must be a whole number from 1 to {}, found {}", name_, key,
        kMaxSize, quote(found->dump()));
  return value;
}

BatchRequest BatchConfig::add_to(BatchRequest request) const {
  const auto merge = [&](std::optional<std::int64_t>& given, const char* key) {
    const std::optional<std::int64_t> value = number(key);
    check(!value || !given || *given == *value, "{}: {} is {}, but the command line says {}", name_, key,
          value.value_or(0), given.value_or(0));
    if (value) given = value;
  };
  merge(request.global_batch, kBatch);
  merge(request.micro_batch, kMicroBatch);
  merge(request.accumulation, kAccumulation);
  if (request.ranks) return request;
  check(request.global_batch && request.micro_batch && request.accumulation,
        "{}: two numbers give the third only where the number of ranks is known: add --ranks", name_);
  check_size("the micro-batch", *request.micro_batch);
  check_size("accumulation steps", *request.accumulation);
  const std::int64_t per_rank = product(*request.micro_batch, *request.accumulation);
  check(*request.global_batch % per_rank == 0,
        "{}: a contradiction: {} {} is not a multiple of {} {} x {} {}", name_, kBatch, *request.global_batch,
        kMicroBatch, *request.micro_batch, kAccumulation, *request.accumulation);
  request.ranks = *request.global_batch / per_rank;
  return request;
}

std::string BatchConfig::complete(const BatchPlan& plan) const {
  std::string alternatives;
  for (const BatchShape& shape : plan.exact) {
    alternatives += fmt::format("{} {} x {} x {} = {}", alternatives.empty() ? ":" : ",", shape.micro_batch,
                                shape.accumulation, shape.ranks, shape.global_batch());
  }
  check(plan.is_exact() && plan.idle_ranks == 0,
        "{}: a contradiction: no whole numbers make {} of {} with {}; exact are, as micro-batch x "
        "accumulation x ranks{}",
        name_, kBatch, plan.target, counted(plan.shape.ranks + plan.idle_ranks, "rank"), alternatives);
  Json completed = json_;
  completed[kBatch] = plan.shape.global_batch();
  completed[kMicroBatch] = plan.shape.micro_batch;
  completed[kAccumulation] = plan.shape.accumulation;
  return completed.dump(2) + "\n";
}

}  // namespace ringtape::planner
