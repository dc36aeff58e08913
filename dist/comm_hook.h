#pragma once

#include <vector>

#include "dist/communicator.h"

namespace ringtape {

/// How the gradients of a bucket are averaged over the ranks (PyTorch calls it a communication hook).
class CommHook {
 public:
  CommHook() = default;
  virtual ~CommHook() = default;
  CommHook(const CommHook&) = delete;
  CommHook& operator=(const CommHook&) = delete;

  /// Starts to average an f32 bucket in place. Called for the same buckets in the same order on all ranks,
  /// while backward goes on.
  virtual void launch(Communicator& ranks, const Tensor& bucket) = 0;
  /// Returns when all that was launched is done; on CUDA makes the current stream wait for it.
  virtual void wait(Communicator& ranks) = 0;
  /// A bucket that was averaged is to be averaged once more, together with what this rank will add to it or
  /// has no more to add. By default nothing is to be done: the mean of what is equal on all ranks is that.
  virtual void reopen(Communicator&, const Tensor& /*bucket*/) {}
};

/// The default: an all-reduce (mean) in f32.
class AllReduceHook : public CommHook {
 public:
  void launch(Communicator& ranks, const Tensor& bucket) override;
  void wait(Communicator& ranks) override;

 private:
  std::vector<Work> works_;
};

}  // namespace ringtape
