#pragma once

#include <memory>
#include <vector>

#include "dist/bucket_buffers.h"
#include "dist/communicator.h"
#include "dist/gradient_buckets.h"
#include "dist/gradient_reducer.h"
#include "dist/used_parameters.h"

namespace ringtape {

/// ZeRO stage 2 (Rajbhandari et al., 2020): a rank keeps only the gradients of its shard. While backward
/// computes the others, they are in buffers for a few buckets (BucketBuffers); a complete bucket is
/// reduce-scattered, the rank's own slice of the mean is added to the shard, and the buffer is freed.
///
/// As other gradients cannot be kept, every backward is a round. Ranks may run different numbers of
/// backwards: a rank in finish() takes part in the others' rounds with zeros. For that, each round is
/// announced to the other ranks, unless all ranks promise to run the same number
/// (DataParallel::promise_equal_ranks). With several chunks all ranks must run the same backwards.
class Zero2Reducer : public GradientReducer {
 public:
  /// For an arena of stage 2 or 3. The arena and `used` must outlive the reducer.
  Zero2Reducer(const ParameterArena& arena, std::shared_ptr<Communicator> comm, UsedParameters& used);

  const std::vector<GradientBucket>& buckets() const override { return buckets_.buckets(); }
  bool reduces_every_backward() const override { return true; }
  void promise_equal_rounds(bool equal) override { equal_rounds_ = equal; }
  void before_gradient(std::size_t entry) override { buffers_.open(entry); }
  void begin_round(int chunk) override;
  void after_gradient(std::size_t entry) override;
  void end_round() override;
  void finish(int chunk, bool is_reduced) override;
  std::size_t max_bucket_buffers() const override { return buffers_.most(); }

 protected:
  virtual void launch(std::size_t bucket);

 private:
  bool announce_round(bool runs_backward);

  std::shared_ptr<Communicator> comm_;
  GradientBuckets buckets_;
  BucketBuffers buffers_;
  UsedParameters& used_;
  bool equal_rounds_ = false;
};

}  // namespace ringtape
