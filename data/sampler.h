#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace ringtape {

/// The samples that an epoch reads, in order. A sampler for several ranks gives each rank its own part.
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
  /// Throws Error for a negative number of samples.
  explicit SequentialSampler(std::int64_t samples);
  std::int64_t size() const override { return samples_; }
  std::vector<std::int64_t> order(std::int64_t epoch) const override;

 private:
  std::int64_t samples_;
};

/// A permutation of 0 to samples - 1 that depends only on (samples, seed, epoch): the Fisher-Yates shuffle
/// (Durstenfeld, CACM 7(7), 1964) of 0, 1, 2, ... For i = samples - 1 down to 1 it swaps the elements i and j
/// = floor(r (i + 1) / 2^64), where r = x + 2^32 y are the first two words of philox4x32_10(seed, i, 2^63 +
/// epoch) (core/philox.h). The high bit of that counter keeps them apart from the random numbers of tensors.
class RandomSampler : public Sampler {
 public:
  /// Throws Error for a negative number of samples.
  RandomSampler(std::int64_t samples, std::uint64_t seed);
  std::int64_t size() const override { return samples_; }
  std::vector<std::int64_t> order(std::int64_t epoch) const override;

 private:
  std::int64_t samples_;
  std::uint64_t seed_;
};

/// `draws` independent, uniform draws from 0 to samples - 1 in every epoch: an index may occur twice. For
/// datasets of which no run reads all samples, such as the windows of a text; PyTorch's RandomSampler with
/// replacement. Draw j of an epoch is floor(r samples / 2^64), where r = x + 2^32 y are the first two words
/// of philox4x32_10(seed, j, 2^63 + 2^62 + epoch), so it depends on nothing else.
class ReplacementSampler : public Sampler {
 public:
  /// An epoch's draws are made at once, 8 bytes each.
  static constexpr std::int64_t kMaxDraws = std::int64_t{1} << 27;
  /// Throws Error unless samples and draws are at least 1, and draws at most kMaxDraws.
  ReplacementSampler(std::int64_t samples, std::int64_t draws, std::uint64_t seed);
  std::int64_t size() const override { return draws_; }
  std::vector<std::int64_t> order(std::int64_t epoch) const override;

 private:
  std::int64_t samples_;
  std::int64_t draws_;
  std::uint64_t seed_;
};

/// One rank's part of the samples of `all`: positions rank, rank + n, rank + 2 n, ... of its order, with n =
/// world_size. The parts are disjoint and together hold every sample; their sizes differ by one at most.
/// (PyTorch's DistributedSampler repeats or drops samples instead, to make them equal.)
///
/// If the number of ranks divides the global batch, the ranks' batches of global batch / ranks samples make
/// up the same global batches, update by update, as one rank with the whole order. In the last batch of an
/// epoch a rank may have fewer samples than another, or none.
class DistributedSampler : public Sampler {
 public:
  /// Throws Error for null, and unless rank is 0 to world_size - 1.
  DistributedSampler(std::shared_ptr<const Sampler> all, int rank, int world_size);
  std::int64_t size() const override { return own_of(all_->size()); }
  std::vector<std::int64_t> order(std::int64_t epoch) const override;

  /// The number of this rank's samples among the first `samples` of the whole order: its position when a run
  /// resumes, with any number of ranks.
  std::int64_t own_of(std::int64_t samples) const;

 private:
  std::shared_ptr<const Sampler> all_;
  int rank_;
  int world_size_;
};

}  // namespace ringtape
