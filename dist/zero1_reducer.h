#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dist/communicator.h"
#include "dist/gradient_buckets.h"
#include "dist/gradient_reducer.h"
#include "dist/used_parameters.h"

namespace ringtape {

/// ZeRO stage 1 (Rajbhandari et al., "ZeRO: Memory optimizations toward training trillion parameter models",
/// 2020): the optimizer step of a rank updates only its own slice of each bucket, so the rank needs only the
/// mean gradients of these slices. A bucket is reduce-scattered in place, with half the traffic of an
/// all-reduce; an all-gather of the new values after the step is the other half (shard_exchange.h). The
/// gradients in the other ranks' slices are undefined afterwards.
class Zero1Reducer : public GradientReducer {
 public:
  /// For an arena of stage 1. The arena and `used` must outlive the reducer. Without `overlap` buckets are
  /// reduced after backward.
  Zero1Reducer(const ParameterArena& arena, std::shared_ptr<Communicator> comm, bool overlap,
               UsedParameters& used);

  const std::vector<GradientBucket>& buckets() const override { return buckets_.buckets(); }
  void before_gradient(std::size_t entry) override { reopen_if_reduced(buckets_.bucket_of(entry)); }
  void begin_round(int chunk) override { buckets_.begin_round(chunk); }
  void after_gradient(std::size_t entry) override;
  void end_round() override;

 private:
  void launch(std::size_t bucket);
  void reopen_if_reduced(std::size_t bucket);

  const ParameterArena& arena_;
  std::shared_ptr<Communicator> comm_;
  GradientBuckets buckets_;
  bool overlap_;
  UsedParameters& used_;
  std::vector<Work> works_;
  std::vector<std::uint64_t> reduced_;  // of each bucket: the arena's zero_grad_count() at its last reduction
};

}  // namespace ringtape
