#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ringtape::planner {

/// One way to make up a global batch.
struct BatchShape {
  std::int64_t micro_batch = 1;   ///< samples that go through the model of one rank at a time
  std::int64_t accumulation = 1;  ///< micro-batches of one rank in an update
  std::int64_t ranks = 1;         ///< data-parallel GPUs

  /// micro_batch x accumulation x ranks
  std::int64_t global_batch() const;
  bool operator==(const BatchShape&) const = default;
};

/// What is known of a batch. Every number that is given must be at least 1.
struct BatchRequest {
  std::optional<std::int64_t> global_batch = {};   ///< samples in an update
  std::optional<std::int64_t> global_tokens = {};  ///< the same in tokens
  std::optional<std::int64_t> sequence = {};       ///< tokens in a sample
  std::optional<std::int64_t> micro_batch = {}, accumulation = {}, ranks = {};
  std::optional<std::int64_t> dataset = {};           ///< samples in an epoch
  std::optional<double> data_percent = {};            ///< global batch as a share of the data: 0.1 to 1
  std::optional<std::int64_t> max_accumulation = {};  ///< cap on the steps that are worked out
};

/// How an epoch is cut into updates.
struct EpochPlan {
  std::int64_t updates = 0;
  std::int64_t last_samples = 0;       ///< in the last update, which may be short
  std::int64_t last_accumulation = 0;  ///< micro-batches of a rank in it
};

struct BatchPlan {
  BatchShape shape;
  std::int64_t target = 0;  ///< samples asked for
  std::optional<std::int64_t> sequence;
  std::int64_t idle_ranks = 0;          ///< given, but more than the batch can use
  std::vector<std::string> arithmetic;  ///< how the numbers came about, a line each
  std::vector<std::string> notes;       ///< what was rounded or capped, and what can be done about it
  std::vector<BatchShape> exact;   ///< near alternatives without rounding; none where nothing was rounded
  std::optional<EpochPlan> epoch;  ///< where the size of the data is known

  bool is_exact() const { return shape.global_batch() == target; }
};

/// Works out what is missing in global batch = micro-batch x accumulation steps x ranks.
///
/// The number that is missing is rounded up, so that the target is met. Of several that are missing, ranks
/// are found first (data parallelism costs no time), and accumulation is 1; without a target both are 1
/// where they are not given. More ranks than the batch has micro-batches for are left idle.
///
/// Throws Error for too little to go by, for numbers that contradict each other, and for sizes out of range.
BatchPlan plan_batch(const BatchRequest& request);

}  // namespace ringtape::planner
