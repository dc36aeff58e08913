#include "data/loader.h"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/ceil_div.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/stream.h"
#include "trace/spans.h"

namespace ringtape {

/// Memory for one batch: features, then targets from a multiple of 256 bytes on.
class BatchBuffer {
 public:
  BatchBuffer(std::size_t feature_bytes, std::size_t target_bytes, Device device)
      : targets_at_(round_up(feature_bytes, 256)),
        memory_(allocate_pinned(targets_at_ + target_bytes, device)) {}

  /// The memory is freed here, while copies that were queued may still read it.
  ~BatchBuffer() {
    try {
      wait_until_unused();
    } catch (const Error&) {  // the GPU has failed, and will tell the next caller
    }
  }
  BatchBuffer(const BatchBuffer&) = delete;
  BatchBuffer& operator=(const BatchBuffer&) = delete;

  void* features() const { return memory_.get(); }
  void* targets() const { return static_cast<char*>(memory_.get()) + targets_at_; }

  /// Notes that work queued on `stream` so far reads this memory.
  void in_use_by(const Stream& stream) {
    reads_.try_emplace(stream.device().index, stream.device()).first->second.record(stream);
  }

  /// Waits until no queued work reads this memory.
  void wait_until_unused() const {
    for (const auto& [device, read] : reads_) read.synchronize();
  }

 private:
  std::size_t targets_at_;
  std::shared_ptr<void> memory_;
  std::map<int, Event> reads_;  // the last one queued on each GPU
};

/// Buffers of one size, which are reused. They are allocated at the start, because pinning memory is slow and
/// makes the GPU wait; more are allocated only if more batches than planned are held at the same time.
class BatchBufferPool : public std::enable_shared_from_this<BatchBufferPool> {
 public:
  BatchBufferPool(std::size_t feature_bytes, std::size_t target_bytes, Device device, std::int64_t planned)
      : feature_bytes_(feature_bytes), target_bytes_(target_bytes), device_(device) {
    for (std::int64_t i = 0; i < planned; ++i) free_.push_back(make());
  }

  std::shared_ptr<BatchBuffer> take() {
    std::unique_ptr<BatchBuffer> buffer = take_free();
    if (!buffer) buffer = make();
    buffer->wait_until_unused();
    return {buffer.release(),
            [pool = shared_from_this()](BatchBuffer* returned) { pool->give_back(returned); }};
  }

 private:
  std::unique_ptr<BatchBuffer> make() const {
    return std::make_unique<BatchBuffer>(feature_bytes_, target_bytes_, device_);
  }

  std::unique_ptr<BatchBuffer> take_free() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return nullptr;
    // The one that has been free for longest: a copy from it has most likely finished.
    std::unique_ptr<BatchBuffer> buffer = std::move(free_.front());
    free_.pop_front();
    return buffer;
  }

  void give_back(BatchBuffer* buffer) {
    const std::lock_guard lock(mutex_);
    free_.emplace_back(buffer);
  }

  std::size_t feature_bytes_;
  std::size_t target_bytes_;
  Device device_;
  std::mutex mutex_;
  std::deque<std::unique_ptr<BatchBuffer>> free_;
};

namespace {

// A CPU tensor over a part of a batch's memory; the memory is not reused while the tensor lives.
Tensor tensor_over(const std::shared_ptr<BatchBuffer>& buffer, void* address, const SampleLayout& layout,
                   std::int64_t rows) {
  auto storage = std::make_shared<Storage>();
  storage->data = std::shared_ptr<void>(buffer, address);
  storage->bytes = layout.bytes() * static_cast<std::size_t>(rows);
  return Tensor(std::move(storage), layout.shape.inserted(0, rows), layout.dtype);
}

}  // namespace

namespace {

void copy_rows_async(const Tensor& to, const Tensor& from) {
  check(to.shape() == from.shape() && to.dtype() == from.dtype(), "Batch: cannot copy {} into {}",
        describe(from), describe(to));
  copy_bytes_async(to.raw(), to.device(), from.raw(), from.device(), from.bytes());
  to.bump_version();
}

}  // namespace

Batch::Batch(std::shared_ptr<BatchBuffer> buffer, Tensor features, Tensor targets, std::int64_t first)
    : buffer_(std::move(buffer)),
      features_(std::move(features)),
      targets_(std::move(targets)),
      first_(first) {}

Batch Batch::slice(std::int64_t first, std::int64_t count) const {
  check(first >= 0 && count >= 0 && first + count <= size(),
        "Batch: slice of {} samples at {}, expected one in {}", count, first, size());
  const auto rows = [=](const Tensor& all) {
    const Shape shape = all.shape().with(0, count);
    return all.alias(shape, all.size(0) == 0 ? 0 : first * (all.elements() / all.size(0)));
  };
  return {buffer_, rows(features_), rows(targets_), first_ + first};
}

void Batch::copy_to(Tensor features, Tensor targets) const {
  add_work({.bytes = 2 * static_cast<std::int64_t>(features.bytes() + targets.bytes())});
  copy_rows_async(features, features_);
  copy_rows_async(targets, targets_);
  for (Device device : {features.device(), targets.device()}) {
    if (device.is_cuda()) buffer_->in_use_by(Stream::current(device));
  }
}

std::pair<Tensor, Tensor> Batch::to(Device device) const {
  if (device.is_cpu()) return {features_, targets_};
  const MemoryScope scope(MemoryCategory::data);
  const Tensor features = empty(features_.shape(), features_.dtype(), device);
  const Tensor targets = empty(targets_.shape(), targets_.dtype(), device);
  copy_to(features, targets);
  return {features, targets};
}

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, std::shared_ptr<const Sampler> sampler,
                       const DataLoaderOptions& options)
    : dataset_(std::move(dataset)), sampler_(std::move(sampler)), options_(options) {
  check(dataset_ != nullptr && sampler_ != nullptr, "DataLoader: the {} is null",
        dataset_ == nullptr ? "dataset" : "sampler");
  check(options_.batch_size > 0, "DataLoader: batch size {}, expected at least 1", options_.batch_size);
  check(options_.prefetch_threads >= 0, "DataLoader: {} prefetch threads, expected 0 or more",
        options_.prefetch_threads);
  check(options_.prefetch_batches > 0, "DataLoader: {} batches to prefetch, expected at least 1",
        options_.prefetch_batches);
  check(batches_per_epoch() > 0, "DataLoader: {} samples make no batch of {}", sampler_->size(),
        options_.batch_size);
  const auto rows = static_cast<std::size_t>(std::min(options_.batch_size, sampler_->size()));
  options_.prefetch_batches = std::min(options_.prefetch_batches, batches_per_epoch());
  // The batches that wait or are being read, and two held by the user.
  const std::int64_t planned = (options_.prefetch_threads > 0 ? options_.prefetch_batches : 0) + 2;
  buffers_ = std::make_shared<BatchBufferPool>(dataset_->features().bytes() * rows,
                                               dataset_->target().bytes() * rows, options_.device, planned);
}

DataLoader::~DataLoader() = default;

std::int64_t DataLoader::batches_for(std::int64_t samples) const {
  const bool has_short_batch = !options_.drop_last && samples % options_.batch_size != 0;
  return samples / options_.batch_size + (has_short_batch ? 1 : 0);
}

std::int64_t DataLoader::batches_per_epoch() const {
  return batches_for(sampler_->size());
}

std::int64_t DataLoader::samples_per_epoch() const {
  return options_.drop_last ? batches_per_epoch() * options_.batch_size : sampler_->size();
}

void DataLoader::start_epoch(std::int64_t epoch, std::int64_t samples_consumed) {
  const std::int64_t end = samples_per_epoch();
  check(epoch >= 0 && samples_consumed >= 0 && samples_consumed <= end,
        "DataLoader: start at epoch {}, sample {}: expected epoch 0 or later, sample 0 to {}", epoch,
        samples_consumed, end);
  std::vector<std::int64_t> order = sampler_->order(epoch);
  check(static_cast<std::int64_t>(order.size()) == sampler_->size(),
        "DataLoader: the sampler gave {} samples, expected {}", order.size(), sampler_->size());
  prefetcher_.reset();
  epoch_ = epoch;
  auto make = [this, order = std::move(order), samples_consumed](std::int64_t batch) {
    return read_batch(order, samples_consumed + batch * options_.batch_size);
  };
  prefetcher_ =
      std::make_unique<Prefetcher<Batch>>(batches_for(end - samples_consumed), options_.prefetch_threads,
                                          options_.prefetch_batches, std::move(make));
}

void DataLoader::seek(std::int64_t samples_consumed) {
  check(samples_consumed >= 0, "DataLoader: seek to sample {}, expected 0 or more", samples_consumed);
  start_epoch(samples_consumed / samples_per_epoch(), samples_consumed % samples_per_epoch());
}

std::optional<Batch> DataLoader::next() {
  check(prefetcher_ != nullptr, "DataLoader: next() before start_epoch()");
  return prefetcher_->next();
}

Batch DataLoader::read_batch(std::span<const std::int64_t> order, std::int64_t first) const {
  const std::int64_t rows = std::min(options_.batch_size, sampler_->size() - first);
  std::shared_ptr<BatchBuffer> buffer = buffers_->take();
  dataset_->read(order.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(rows)),
                 buffer->features(), buffer->targets());
  Tensor features = tensor_over(buffer, buffer->features(), dataset_->features(), rows);
  Tensor targets = tensor_over(buffer, buffer->targets(), dataset_->target(), rows);
  // Counts for the span in which next() reads the batch itself; a prefetch thread has no span.
  add_work({.bytes = 2 * static_cast<std::int64_t>(features.bytes() + targets.bytes())});
  return {std::move(buffer), std::move(features), std::move(targets), first};
}

}  // namespace ringtape
