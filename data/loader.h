#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "core/tensor.h"
#include "data/dataset.h"
#include "data/prefetcher.h"
#include "data/sampler.h"

namespace ringtape {

class BatchBuffer;
class BatchBufferPool;

/// A batch of samples in host memory, pinned for a GPU (DataLoaderOptions::device). The memory goes back to
/// the loader when the batch and all tensors made from it are gone.
class Batch {
 public:
  Batch(std::shared_ptr<BatchBuffer> buffer, Tensor features, Tensor targets, std::int64_t first);

  /// [size, ...], on the CPU.
  const Tensor& features() const { return features_; }
  const Tensor& targets() const { return targets_; }
  std::int64_t size() const { return features_.size(0); }
  /// The number of the epoch's samples before this batch.
  std::int64_t first() const { return first_; }

  /// Samples `first` to `first + count - 1` of this batch; shares its memory.
  Batch slice(std::int64_t first, std::int64_t count) const;

  /// Copies features and targets to tensors of the same shapes on any device, in the order of its current
  /// stream. From pinned memory this does not wait for the copy; the loader waits before it reuses the
  /// memory.
  void copy_to(Tensor features, Tensor targets) const;
  /// Features and targets on `device`: new tensors there, or the batch's own on the CPU.
  std::pair<Tensor, Tensor> to(Device device) const;

 private:
  std::shared_ptr<BatchBuffer> buffer_;
  Tensor features_;
  Tensor targets_;
  std::int64_t first_;
};

/// How a DataLoader cuts a dataset into batches, and where it puts them.
struct DataLoaderOptions {
  std::int64_t batch_size = 64;
  bool drop_last = false;              ///< leaves out the last batch of an epoch if it is short
  int prefetch_threads = 1;            ///< 0: next() reads the batch itself
  std::int64_t prefetch_batches = 16;  ///< the most batches that are ready ahead of next()
  Device device{};  ///< the destination of the batches: for a GPU they are in pinned memory
};

/// Splits a sampler's order of each epoch into batches and reads them ahead on other threads. The samples of
/// a batch depend only on the sampler and the batch size, not on the number of threads or their speed.
///
///   for (loader.start_epoch(0); std::optional<Batch> batch = loader.next();) { ... }
class DataLoader {
 public:
  /// Throws Error for a null dataset or sampler, a batch size or a number of prefetched batches below 1, a
  /// negative number of threads, and for an epoch without a batch: no samples, or with `drop_last` fewer than
  /// a batch has. Call start_epoch() or seek() before next().
  DataLoader(std::shared_ptr<const Dataset> dataset, std::shared_ptr<const Sampler> sampler,
             const DataLoaderOptions& options);
  /// Stops the prefetch threads; batches handed out before stay valid.
  ~DataLoader();

  std::int64_t batches_per_epoch() const;
  /// Samples in the batches of a whole epoch; with drop_last possibly fewer than the sampler's.
  std::int64_t samples_per_epoch() const;

  /// Begins (or begins again) epoch `epoch` after its first `samples_consumed` samples, 0 to
  /// samples_per_epoch().
  void start_epoch(std::int64_t epoch, std::int64_t samples_consumed = 0);
  /// Continues after the first `samples_consumed` samples since the start of epoch 0.
  void seek(std::int64_t samples_consumed);
  std::int64_t epoch() const { return epoch_; }

  /// The next batch, or nothing at the end of the epoch. Rethrows an exception of the dataset's read().
  std::optional<Batch> next();

 private:
  std::int64_t batches_for(std::int64_t samples) const;
  Batch read_batch(std::span<const std::int64_t> order, std::int64_t first) const;

  std::shared_ptr<const Dataset> dataset_;
  std::shared_ptr<const Sampler> sampler_;
  DataLoaderOptions options_;
  std::shared_ptr<BatchBufferPool> buffers_;
  std::int64_t epoch_ = -1;
  std::unique_ptr<Prefetcher<Batch>> prefetcher_;  // of the epoch that runs
};

}  // namespace ringtape
