#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace ringtape {

/// Says which samples an epoch reads, and in which order. A sampler for several ranks gives each its own
/// part.
class Sampler {
 public:
  virtual ~Sampler() = default;
  /// Number of samples in every epoch.
  virtual std::int64_t size() const = 0;
  /// The dataset's indices of epoch `epoch` in order: size() of them, the same at every call.
  virtual std::vector<std::int64_t> order(std::int64_t epoch) const = 0;
};

/// 0, 1, 2, ... in every epoch.
class SequentialSampler : public Sampler {
 public:
  explicit SequentialSampler(std::int64_t samples) : samples_(samples) {}
  std::int64_t size() const override { return samples_; }
  std::vector<std::int64_t> order(std::int64_t epoch) const override;

 private:
  std::int64_t samples_;
};

/// A permutation of 0 to samples - 1 that depends on (samples, seed, epoch) alone: the Fisher-Yates shuffle
/// (Durstenfeld, CACM 7(7), 1964) of 0, 1, 2, ... For i = samples - 1 down to 1 it swaps the elements i and
/// j = floor(r (i + 1) / 2^64), where r = x + 2^32 y are the first two words of philox4x32_10(seed, i,
/// 2^63 + epoch) (core/philox.h). The set upper bit keeps these numbers apart from those of random tensors.
class RandomSampler : public Sampler {
 public:
  RandomSampler(std::int64_t samples, std::uint64_t seed) : samples_(samples), seed_(seed) {}
  std::int64_t size() const override { return samples_; }
  std::vector<std::int64_t> order(std::int64_t epoch) const override;

 private:
  std::int64_t samples_;
  std::uint64_t seed_;
};

/// One rank's part of the samples of `all`: the places rank, rank + n, rank + 2 n, ... of its order, with n =
/// world_size. So the parts are disjoint and make up the whole, whatever the number of samples; their sizes
/// differ by one at most. (PyTorch's DistributedSampler repeats or drops samples instead, to make them
/// equal.)
///
/// Where the ranks divide the global batch, the ranks' batches of global batch / ranks samples make up the
/// same global batches, update by update, as those of one rank with the whole order. In the last of an epoch
/// a rank may have fewer samples than another, or none.
class DistributedSampler : public Sampler {
 public:
  /// Throws Error unless rank is 0 to world_size - 1.
  DistributedSampler(std::shared_ptr<const Sampler> all, int rank, int world_size);
  std::int64_t size() const override { return own_of(all_->size()); }
  std::vector<std::int64_t> order(std::int64_t epoch) const override;

  /// How many of the first `samples` of the whole order are this rank's: where a run that all ranks together
  /// have taken so far goes on, with any number of ranks.
  std::int64_t own_of(std::int64_t samples) const;

 private:
  std::shared_ptr<const Sampler> all_;
  int rank_;
  int world_size_;
};

}  // namespace ringtape
