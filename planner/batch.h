#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ringtape::planner {

/// One way to compose a global batch.
struct BatchShape {
  std::int64_t micro_batch = 1;   ///< samples that go through the model of one rank at a time
  std::int64_t accumulation = 1;  ///< micro-batches of one rank in an update
  std::int64_t ranks = 1;         ///< data-parallel GPUs

  /// micro_batch x accumulation x ranks
  std::int64_t global_batch() const;
  bool operator==(const BatchShape&) const = default;
};

/// The known numbers of a batch. Every given number must be at least 1.
struct BatchRequest {
  std::optional<std::int64_t> global_batch = {};   ///< samples in an update
  std::optional<std::int64_t> global_tokens = {};  ///< the same in tokens
  std::optional<std::int64_t> sequence = {};       ///< tokens in a sample
  std::optional<std::int64_t> micro_batch = {}, accumulation = {}, ranks = {};
  std::optional<std::int64_t> dataset = {};           ///< samples in an epoch
  std::optional<double> data_percent = {};            ///< global batch in percent of the data: 0.1 to 1
  std::optional<std::int64_t> max_accumulation = {};  ///< upper limit for the computed accumulation steps
};

/// How an epoch is divided into updates.
struct EpochPlan {
  std::int64_t updates = 0;
  std::int64_t last_samples = 0;       ///< in the last update, which may be short
  std::int64_t last_accumulation = 0;  ///< micro-batches of a rank in it
};

/// A batch, and how it was computed.
struct BatchPlan {
  BatchShape shape;
  std::int64_t target = 0;  ///< requested samples
  std::optional<std::int64_t> sequence;
  std::int64_t idle_ranks = 0;          ///< ranks of the request that the batch cannot use
  std::vector<std::string> arithmetic;  ///< how each number was computed, one line each
  std::vector<std::string> notes;       ///< which numbers were rounded or capped, and options
  std::vector<BatchShape> exact;   ///< near alternatives; empty if nothing was rounded and no rank is idle
  std::optional<EpochPlan> epoch;  ///< where the size of the data set is known

  bool is_exact() const { return shape.global_batch() == target; }
};

/// Computes the missing numbers of global batch = micro-batch x accumulation steps x ranks.
///
/// The missing number is rounded up, so that the target is met. If several are missing, the ranks are
/// computed (data parallelism costs no time), and accumulation is 1; without a target, ranks and accumulation
/// are 1 unless given. Ranks beyond the number of micro-batches in the batch are left idle.
///
/// Throws Error for too few numbers, for numbers that contradict each other, and for sizes out of range.
BatchPlan plan_batch(const BatchRequest& request);

}  // namespace ringtape::planner
