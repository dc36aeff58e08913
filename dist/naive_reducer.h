#pragma once

#include <memory>
#include <vector>

#include "dist/comm_hook.h"
#include "dist/communicator.h"
#include "dist/gradient_reducer.h"
#include "dist/used_parameters.h"

namespace ringtape {

/// All-reduce after backward: first a rank computes all gradients, then all are averaged. The network is idle
/// during the first phase, the processor during the second.
class NaiveReducer : public GradientReducer {
 public:
  /// `hook` averages a bucket. The arena and `used` must outlive the reducer. Throws Error for bucket sizes
  /// below 1.
  NaiveReducer(const ParameterArena& arena, std::shared_ptr<Communicator> comm, const BucketSizes& sizes,
               std::shared_ptr<CommHook> hook, UsedParameters& used);

  const std::vector<GradientBucket>& buckets() const override { return buckets_; }
  void begin_round(int chunk) override { chunk_ = chunk; }
  void end_round() override;

 private:
  const ParameterArena& arena_;
  std::shared_ptr<Communicator> comm_;
  std::vector<GradientBucket> buckets_;
  std::shared_ptr<CommHook> hook_;
  UsedParameters& used_;
  int chunk_ = 0;  // of the current round
};

}  // namespace ringtape
