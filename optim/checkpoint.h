#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/random.h"
#include "core/tensor.h"
#include "io/safetensors.h"

/// A checkpoint: the state from which a training run that was stopped at any moment continues with the same
/// bits as a run that was not stopped.
///
/// It is a pair of files. `NAME.safetensors`, with the tensors, is written first; `NAME.json`, with all else
/// and the other file's length and CRC-32, last. Each is written under a temporary name, flushed to the disk
/// and renamed, so a process killed at any moment leaves either a complete pair or a file to which no JSON
/// refers. The JSON's first line holds the CRC-32 of the lines after it.
namespace ringtape {

/// The settings that, together with the data, determine the result of a training run, by name, as text: batch
/// size, seed, ...
using TrainingSettings = std::map<std::string, std::string>;

/// The position of a training run.
struct TrainingPosition {
  std::int64_t step = 0;     ///< completed updates
  std::int64_t epoch = 0;    ///< the current epoch, counted from 0
  std::int64_t samples = 0;  ///< samples of that epoch used by updates, without prefetched samples
};

/// The contents of a checkpoint. A schedule is a function of the step, and the order of the data a function
/// of (seed, epoch), so for both the position is enough.
struct CheckpointContents {
  TrainingPosition position;
  Generator random{0};
  TrainingSettings settings;
  /// Weights, optimizer state, loss scale: the tensors that exist from the start of a run.
  std::vector<NamedTensor> tensors;
  /// Tensors that grow with the run, such as the losses so far.
  std::vector<NamedTensor> history;
};

/// Writes `json` and the .safetensors file next to it. Throws Error if a write fails, such as on a full disk.
void save_checkpoint(const std::filesystem::path& json, const CheckpointContents& state);

/// One complete checkpoint, open for reading.
class Checkpoint {
 public:
  /// Reads `json` and verifies the file next to it. Throws Error if either is missing or damaged, and for
  /// numbers that are impossible for a training run.
  explicit Checkpoint(const std::filesystem::path& json);

  const TrainingPosition& position() const { return position_; }
  const Generator& random() const { return random_; }
  const TrainingSettings& settings() const { return settings_; }

  /// Throws Error that names the differences, at most eight of them, unless the checkpoint was made with
  /// these settings. A setting with an empty value counts as not set.
  void expect_settings(const TrainingSettings& expected) const;
  /// Overwrites the targets with the tensors of the same names. Apart from the history, the checkpoint must
  /// hold exactly these names, with the same dtypes and shapes; otherwise Error names the differences, and
  /// nothing is changed.
  void load_into(const std::vector<NamedTensor>& targets) const;
  /// A tensor of the history, on the CPU. Throws Error if there is none of that name, or its dtype or shape
  /// differs.
  Tensor history(const std::string& name, DType dtype, const Shape& shape) const;

 private:
  std::string name_;
  TrainingPosition position_;
  Generator random_{0};
  TrainingSettings settings_;
  std::unique_ptr<SafetensorsFile> tensors_;
};

}  // namespace ringtape
