#pragma once

#include <vector>

#include "dist/communicator.h"

namespace ringtape {

/// A communication hook, as in PyTorch: how the gradients of a bucket are averaged over the ranks.
class CommHook {
 public:
  CommHook() = default;
  virtual ~CommHook() = default;
  CommHook(const CommHook&) = delete;
  CommHook& operator=(const CommHook&) = delete;

  /// Starts to average an f32 bucket in place. Called for the same buckets in the same order on all ranks,
  /// while backward continues.
  virtual void launch(Communicator& comm, const Tensor& bucket) = 0;
  /// Returns when all launched buckets are done; on CUDA makes the current stream wait for them.
  virtual void wait(Communicator& comm) = 0;
};

/// The default: an all-reduce (mean) in f32.
class AllReduceHook : public CommHook {
 public:
  void launch(Communicator& comm, const Tensor& bucket) override;
  void wait(Communicator& comm) override;

 private:
  std::vector<Work> works_;
};

}  // namespace ringtape
