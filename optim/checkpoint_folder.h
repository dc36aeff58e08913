#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "optim/checkpoint.h"

namespace ringtape {

/// The new checkpoint is complete, but an older one could not be removed.
class OldCheckpointError : public Error {
 public:
  using Error::Error;
};

/// A folder of checkpoints of one training run: step-000000000120.json, its .safetensors, and so on. A lock
/// (flock on the file `lock`, released when the process ends) excludes other processes.
class CheckpointFolder {
 public:
  /// Whether a file in the folder may be one of its own: `lock`, or a checkpoint's.
  static bool has_own_name(const std::string& name);

  /// Creates the folder if it does not exist (its parent must exist). `keep` is the number of checkpoints to
  /// keep. Throws Error if the folder cannot be written or another process uses it, and for a `keep` below 1.
  CheckpointFolder(const std::filesystem::path& folder, int keep);
  ~CheckpointFolder();
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  /// Writes a checkpoint; then removes all but the `keep` newest checkpoints, checkpoints of later steps
  /// (damaged ones, which a resumed run has skipped), and half-written files of a killed process, which have
  /// temporary names. Files of other names and .safetensors without a .json stay. If writing fails, for
  /// example on a full disk, throws Error, and the older checkpoints stay: an old one is removed only after
  /// the new one is complete, so the disk must have room for one more than `keep`. Throws OldCheckpointError,
  /// after removing all other old ones, if one cannot be removed.
  void save(const CheckpointContents& state) const;

  /// The newest complete checkpoint, skipping damaged ones; nothing for a folder without checkpoints. Throws
  /// Error if all are damaged.
  std::optional<Checkpoint> newest();
  /// The damage of each checkpoint that newest() has skipped, and each .safetensors without a .json,
  /// which a process leaves if it is killed between writing the two.
  const std::vector<std::string>& damaged() const { return damaged_; }

  /// True if the folder has neither checkpoints nor a .safetensors without its .json.
  bool is_empty() const { return steps().empty() && tensors_without_json().empty(); }

 private:
  std::vector<std::int64_t> steps() const;
  std::vector<std::string> tensors_without_json() const;
  void remove_old(std::int64_t newest_step) const;

  std::filesystem::path folder_;
  int keep_;
  int lock_ = -1;
  std::vector<std::string> damaged_;
};

}  // namespace ringtape
