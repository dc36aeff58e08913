#include "planner/batch_config.h"

#include <set>

#include "core/error.h"
#include "core/quote.h"
#include "planner/numbers.h"

namespace ringtape::planner {
namespace {

constexpr const char* kBatch = "train_batch_size";
constexpr const char* kMicroBatch = "train_micro_batch_size_per_gpu";
constexpr const char* kAccumulation = "gradient_accumulation_steps";

/// The parser's own words are "[its id] where and what; last read: ...": between, where and what.
std::string where_and_what(const std::string& message) {
  const std::size_t id = message.find("] ");
  const std::size_t begin = id == std::string::npos ? 0 : id + 2;
  return message.substr(begin, message.find("; last read") - begin);
}

nlohmann::ordered_json parse_object(const std::string& text, const std::string& name) {
  using Event = nlohmann::ordered_json::parse_event_t;
  constexpr int kDeepest = 100;
  std::set<std::string> keys;
  const auto look = [&](int depth, Event event, nlohmann::ordered_json& value) {
    check(depth <= kDeepest, "{}: expected JSON that is nested at most {} deep", name, kDeepest);
    if (event == Event::key && depth == 1) {
      const auto key = value.get<std::string>();
      check(keys.insert(key).second, "{}: {} is there twice", name, quote(key));
    }
    return true;
  };
  nlohmann::ordered_json json;
  try {
    json = nlohmann::ordered_json::parse(text, look);
  } catch (const nlohmann::ordered_json::exception& error) {
    fail("{}: expected a JSON object: {}", name, where_and_what(error.what()));
  }
  check(json.is_object(), "{}: expected a JSON object, found {} {}", name, json.is_array() ? "an" : "a",
        json.type_name());
  return json;
}

}  // namespace

BatchConfig::BatchConfig(const std::string& text, std::string name) : name_(std::move(name)) {
  json_ = parse_object(text, name_);
  for (const char* key : {kBatch, kMicroBatch, kAccumulation}) number(key);
}

std::optional<std::int64_t> BatchConfig::number(const char* key) const {
  const auto found = json_.find(key);
  if (found == json_.end() || *found == "auto") return std::nullopt;
  const auto text = [&] {
    return quote(found->dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace));
  };
  const bool whole = found->is_number_unsigned() && found->get<std::uint64_t>() >= 1 &&
                     found->get<std::uint64_t>() <= static_cast<std::uint64_t>(kLargestSize);
  check(whole, "{}: {} must be a whole number from 1 to {}, found {}", name_, key, kLargestSize, text());
  return found->get<std::int64_t>();
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
        "{}: a contradiction: no whole numbers make {} of {} with {} ranks; exact are, as micro-batch x "
        "accumulation x ranks{}",
        name_, kBatch, plan.target, plan.shape.ranks + plan.idle_ranks, alternatives);
  nlohmann::ordered_json completed = json_;
  completed[kBatch] = plan.shape.global_batch();
  completed[kMicroBatch] = plan.shape.micro_batch;
  completed[kAccumulation] = plan.shape.accumulation;
  return completed.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace ringtape::planner
