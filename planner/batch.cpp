#include "planner/batch.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/ceil_div.h"
#include "core/error.h"
#include "planner/exact_batches.h"
#include "planner/numbers.h"

namespace ringtape::planner {
namespace {

constexpr BatchPart kMicroBatch{"micro-batch", &BatchShape::micro_batch};
constexpr BatchPart kAccumulation{"accumulation", &BatchShape::accumulation};
constexpr BatchPart kRanks{"ranks", &BatchShape::ranks};

void check_request(const BatchRequest& request) {
  const auto size = [](const char* name, const std::optional<std::int64_t>& value) {
    if (value) check_size(name, *value);
  };
  size("the global batch", request.global_batch);
  size("the global batch in tokens", request.global_tokens);
  size("the sequence length", request.sequence);
  size("the micro-batch", request.micro_batch);
  size("accumulation steps", request.accumulation);
  size("ranks", request.ranks);
  size("the number of samples in the data", request.dataset);
  size("the cap on accumulation steps", request.max_accumulation);
  check(!request.data_percent || (*request.data_percent >= 0.1 && *request.data_percent <= 1),
        "a batch by the size of the data is 0.1 to 1 percent of it, found {}",
        request.data_percent.value_or(0));
  check(!request.data_percent || (!request.global_batch && !request.global_tokens),
        "the global batch is given both as a number and as a share of the data: expected one of them");
  check(!request.data_percent || request.dataset.has_value(),
        "a batch by the size of the data needs the number of samples in it");
  check(!request.accumulation || !request.max_accumulation ||
            *request.accumulation <= *request.max_accumulation,
        "{} accumulation steps are more than the cap of {}", request.accumulation.value_or(0),
        request.max_accumulation.value_or(0));
}

/// Computes one plan.
class Solver {
 public:
  explicit Solver(const BatchRequest& request) : request_(request) {
    plan_.sequence = request.sequence;
    give(kMicroBatch, request.micro_batch);
    give(kAccumulation, request.accumulation);
    give(kRanks, request.ranks);
  }

  BatchPlan solve() {
    const std::optional<std::int64_t> target = find_target();
    if (!target) {
      take_product();
    } else {
      plan_.target = *target;
      check(plan_.shape.micro_batch <= *target,
            "the micro-batch of {} is larger than the global batch of {}: expected at most that",
            plan_.shape.micro_batch, *target);
      given_.size() == 3 ? check_product() : find_missing();
    }
    if (request_.dataset) cut_epoch(*request_.dataset);
    return std::move(plan_);
  }

 private:
  void give(const BatchPart& part, const std::optional<std::int64_t>& value) {
    if (!value) return;
    plan_.shape.*part.value = *value;
    given_.push_back(part);
  }

  bool is_given(const BatchPart& part) const {
    return std::any_of(given_.begin(), given_.end(),
                       [&](const BatchPart& other) { return other.value == part.value; });
  }

  template <class... Args>
  void show(fmt::format_string<Args...> text, Args&&... args) {
    plan_.arithmetic.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  template <class... Args>
  void note(fmt::format_string<Args...> text, Args&&... args) {
    plan_.notes.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  std::optional<std::int64_t> find_target() {
    if (request_.global_tokens) return samples_of(*request_.global_tokens);
    if (request_.data_percent) return share_of_data(*request_.data_percent);
    return request_.global_batch;
  }

  std::int64_t samples_of(std::int64_t tokens) {
    const std::optional<std::int64_t>& batch = request_.global_batch;
    check(request_.sequence || batch, "a batch of {} needs the sequence length", counted(tokens, "token"));
    if (!request_.sequence) {
      check(tokens % *batch == 0, "{}: expected a whole number for each of {}", counted(tokens, "token"),
            counted(*batch, "sample"));
      plan_.sequence = tokens / *batch;
      show("sequence = {} / {} = {}", grouped(tokens, "token"), grouped(*batch, "sample"),
           grouped(*plan_.sequence));
      return *batch;
    }
    const std::int64_t samples = ceil_div(tokens, *request_.sequence);
    const bool whole = tokens % *request_.sequence == 0;
    show("global batch = {} / {} = {}{}", grouped(tokens, "token"), grouped(*request_.sequence),
         whole ? "" : fmt::format("{:.6g}, rounded up to ", ratio(tokens, *request_.sequence)),
         grouped(samples, "sample"));
    check(!batch || *batch == samples, "the global batch is {}, but {} of {} each are {}",
          counted(batch.value_or(0), "sample"), counted(tokens, "token"), *request_.sequence, samples);
    return samples;
  }

  std::int64_t share_of_data(double percent) {
    const auto share = [&](double of) {
      return std::max<std::int64_t>(1, std::llround(static_cast<double>(*request_.dataset) * of / 100));
    };
    show("global batch = {:g}% of {} = {} (0.1% to 1%: {} to {})", percent,
         grouped(*request_.dataset, "sample"), grouped(share(percent)), grouped(share(0.1)),
         grouped(share(1)));
    return share(percent);
  }

  static double ratio(std::int64_t a, std::int64_t b) {
    return static_cast<double>(a) / static_cast<double>(b);
  }

  void show_global_batch() {
    show("global batch = {} x {} x {} = {}", grouped(plan_.shape.micro_batch),
         grouped(plan_.shape.accumulation), grouped(plan_.shape.ranks),
         grouped(plan_.shape.global_batch(), "sample"));
  }

  void take_product() {
    check(is_given(kMicroBatch),
          "too little to go by: expected a global batch, or a micro-batch with accumulation steps or ranks");
    plan_.target = plan_.shape.global_batch();
    show_global_batch();
  }

  void check_product() {
    const std::int64_t batch = plan_.shape.global_batch();
    check(batch == plan_.target,
          "a contradiction: micro-batch {} x accumulation {} x ranks {} = {}, but the global batch is {}",
          plan_.shape.micro_batch, plan_.shape.accumulation, plan_.shape.ranks, batch, plan_.target);
    show_global_batch();
  }

  void find_missing() {
    check(is_given(kMicroBatch) || is_given(kRanks),
          "too little to go by: a global batch of {} needs a micro-batch or a number of ranks with it",
          plan_.target);
    const BatchPart missing = !is_given(kMicroBatch) ? kMicroBatch
                              : !is_given(kRanks)    ? kRanks
                                                     : kAccumulation;
    const std::int64_t known = plan_.shape.global_batch();
    std::int64_t& found = plan_.shape.*missing.value;
    found = ceil_div(plan_.target, known);
    const bool whole = plan_.target % known == 0;
    show("{} = {} / ({} x {}) = {}{}", missing.name, grouped(plan_.target), first_known(missing),
         second_known(missing),
         whole ? "" : fmt::format("{:.6g}, rounded up to ", ratio(plan_.target, known)), grouped(found));
    if (is_given(kRanks) && known > plan_.target) leave_ranks_idle(missing);
    const std::int64_t cap = request_.max_accumulation.value_or(kMaxSize);
    if (plan_.shape.accumulation > cap) cap_accumulation(cap);
    show_global_batch();
    compare_with_target();
    if (!plan_.is_exact() || plan_.idle_ranks > 0) {
      BatchShape asked = plan_.shape;
      asked.ranks += plan_.idle_ranks;
      plan_.exact = exact_batches(plan_.target, asked, given_, missing, cap);
      std::erase(plan_.exact, plan_.shape);
    }
  }

  /// The known factors in the order micro-batch, accumulation, ranks.
  std::string first_known(const BatchPart& missing) const {
    return grouped(missing.value == kMicroBatch.value ? plan_.shape.accumulation : plan_.shape.micro_batch);
  }
  std::string second_known(const BatchPart& missing) const {
    return grouped(missing.value == kRanks.value ? plan_.shape.accumulation : plan_.shape.ranks);
  }

  void leave_ranks_idle(const BatchPart& missing) {
    const std::int64_t each = product(plan_.shape.micro_batch, plan_.shape.accumulation);
    const std::int64_t all = plan_.shape.ranks, used = ceil_div(plan_.target, each);
    plan_.shape.ranks = used;
    plan_.idle_ranks = all - used;
    note("{} are more than the batch can use: {} have work, {} would be idle", grouped(all, "GPU"),
         grouped(used), grouped(plan_.idle_ranks));
    note("option: rent {} and no more", grouped(used, "GPU"));
    if (missing.value == kAccumulation.value && all <= plan_.target) {
      note("option: a micro-batch of {}, so that each of the {} has work", grouped(plan_.target / all),
           grouped(all, "GPU"));
    }
    if (is_given(kAccumulation) && plan_.shape.accumulation > 1) {
      note("option: fewer accumulation steps than {}", grouped(plan_.shape.accumulation));
    }
    note("option: a global batch of {}, with a learning rate that suits it (plan lr)",
         grouped(product(each, all), "sample"));
    if (all / used > 1) {
      note("option: split the model over {} each (tensor or pipeline parallelism), {}",
           grouped(all / used, "GPU"), grouped(used, "data-parallel rank"));
    }
  }

  void cap_accumulation(std::int64_t cap) {
    const std::int64_t steps = std::exchange(plan_.shape.accumulation, cap);
    const std::int64_t per_rank = product(plan_.shape.micro_batch, cap);
    note("{} accumulation steps were capped at {}; {} would meet the target, or a micro-batch of {}",
         grouped(steps), grouped(cap), grouped(ceil_div(plan_.target, per_rank), "rank"),
         grouped(ceil_div(plan_.target, product(plan_.shape.ranks, cap))));
  }

  void compare_with_target() {
    const std::int64_t difference = plan_.shape.global_batch() - plan_.target;
    if (difference == 0) return;
    note("the effective batch is {}, {} {} than the {} requested",
         grouped(plan_.shape.global_batch(), "sample"), grouped(std::abs(difference)),
         difference > 0 ? "more" : "less", grouped(plan_.target));
  }

  void cut_epoch(std::int64_t samples) {
    const std::int64_t batch = plan_.shape.global_batch();
    check(batch <= samples, "the global batch of {} is larger than the data of {}", batch,
          counted(samples, "sample"));
    EpochPlan epoch;
    epoch.updates = ceil_div(samples, batch);
    epoch.last_samples = samples - (epoch.updates - 1) * batch;
    epoch.last_accumulation =
        ceil_div(epoch.last_samples, product(plan_.shape.micro_batch, plan_.shape.ranks));
    show("epoch = {} / {} = {}{}", grouped(samples, "sample"), grouped(batch),
         grouped(epoch.updates, "update"),
         epoch.last_samples == batch
             ? ""
             : fmt::format(", the last of {} in {}", grouped(epoch.last_samples, "sample"),
                           grouped(epoch.last_accumulation, "accumulation step")));
    plan_.epoch = epoch;
  }

  const BatchRequest& request_;
  BatchPlan plan_;
  std::vector<BatchPart> given_;
};

}  // namespace

std::int64_t BatchShape::global_batch() const {
  return product(product(micro_batch, accumulation), ranks);
}

BatchPlan plan_batch(const BatchRequest& request) {
  check_request(request);
  return Solver(request).solve();
}

}  // namespace ringtape::planner
