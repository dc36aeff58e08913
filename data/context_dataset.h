#pragma once

#include <memory>

#include "data/dataset.h"
#include "nn/context_part.h"

namespace ringtape {

/// Throws Error unless each sample is a sequence with a target for each token; `flag` needs that.
void check_sequences(const char* flag, const Dataset& samples);

/// For context parallelism: one rank's tokens of each sequence of another dataset, features and targets.
class ContextDataset : public Dataset {
 public:
  /// Throws Error for samples that are not sequences with a target for each token, and for a length that
  /// cannot be cut into 2 * part.ranks equal chunks; the error names the nearest length that can.
  ContextDataset(std::shared_ptr<const Dataset> whole, const ContextPart& part);

  std::int64_t size() const override { return whole_->size(); }
  SampleLayout features() const override;
  SampleLayout target() const override;
  void read(std::span<const std::int64_t> indices, void* features, void* targets) const override;
  /// The number for the whole sequence, as each of its targets counts once over all ranks.
  std::optional<std::int64_t> targets_per_sample() const override { return whole_->targets_per_sample(); }
  std::uint32_t checksum() const override { return whole_->checksum(); }

 private:
  std::shared_ptr<const Dataset> whole_;
  std::vector<TokenRun> runs_;
};

}  // namespace ringtape
