#pragma once

#include <memory>
#include <vector>

#include "dist/comm_hook.h"
#include "dist/communicator.h"
#include "dist/gradient_buckets.h"
#include "dist/gradient_reducer.h"
#include "dist/used_parameters.h"

namespace ringtape {

/// All-reduce during backward (Li et al., "PyTorch Distributed: Experiences on accelerating data parallel
/// training", 2020): a bucket of gradients is reduced while backward computes the next one. GradientBuckets
/// decides when each bucket is launched.
class BucketReducer : public GradientReducer {
 public:
  /// `hook` averages a bucket. The arena and `used` must outlive the reducer. Throws Error for bucket sizes
  /// below 1.
  BucketReducer(const ParameterArena& arena, std::shared_ptr<Communicator> comm, const BucketSizes& sizes,
                std::shared_ptr<CommHook> hook, UsedParameters& used);

  const std::vector<GradientBucket>& buckets() const override { return buckets_.buckets(); }
  void begin_round(int chunk) override { buckets_.begin_round(chunk); }
  void after_gradient(std::size_t entry) override { buckets_.complete(entry); }
  void end_round() override;

 private:
  void launch(const GradientBucket& bucket);

  const ParameterArena& arena_;
  std::shared_ptr<Communicator> comm_;
  GradientBuckets buckets_;
  std::shared_ptr<CommHook> hook_;
  UsedParameters& used_;
};

}  // namespace ringtape
