#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/tensor.h"

namespace ringtape {

/// Shape and dtype of one sample's features or target: a batch of n has the shape [n, shape...].
struct SampleLayout {
  DType dtype;
  Shape shape;

  std::size_t bytes() const { return static_cast<std::size_t>(shape.elements()) * size_of(dtype); }
};

/// A numbered collection of samples that a DataLoader reads from.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual SampleLayout features() const = 0;
  virtual SampleLayout target() const = 0;
  /// Copies the samples of these indices, one after another, to host memory. Several prefetch threads may
  /// call it at the same time; the DataLoader::next() that would return the batch rethrows an exception.
  virtual void read(std::span<const std::int64_t> indices, void* features, void* targets) const = 0;
  /// The number of non-ignored targets of a sample, if it is the same for all samples: then ranks need not
  /// count the targets of each batch and add them up. The default, nullopt, makes them do so.
  virtual std::optional<std::int64_t> targets_per_sample() const { return std::nullopt; }
  /// A CRC-32 by which a resumed run recognises the data. The default reads all samples: it is of all their
  /// features and targets.
  virtual std::uint32_t checksum() const;
};

/// Samples held by two tensors in host memory: row i of `features` ([N, ...], any dtype) and of `targets`
/// ([N] or [N, ...], any dtype) are sample i.
class TensorDataset : public Dataset {
 public:
  /// Throws Error unless both are on the CPU and have the same, non-zero number of rows.
  TensorDataset(Tensor features, Tensor targets);

  std::int64_t size() const override { return features_.size(0); }
  SampleLayout features() const override;
  SampleLayout target() const override;
  void read(std::span<const std::int64_t> indices, void* features, void* targets) const override;

  /// All samples at once.
  const Tensor& all_features() const { return features_; }
  const Tensor& all_targets() const { return targets_; }
  /// Samples `first` to `first + count - 1`; they share memory with this dataset.
  TensorDataset slice(std::int64_t first, std::int64_t count) const;

 private:
  Tensor features_;
  Tensor targets_;
};

}  // namespace ringtape
