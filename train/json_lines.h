#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "io/json.h"

namespace ringtape {

/// Writes one JSON object per line to a file; for an empty path does nothing. Throws Error if the file cannot
/// be opened. If a later write fails, as on a full disk, it prints a warning and stops writing. An existing
/// file is replaced at the first line; a run that fails earlier leaves it unchanged, and creates no empty
/// file. Where the process writes to that file already, as to /dev/stdout, the lines go behind what is there.
class JsonLines {
 public:
  /// `flag` names the file in messages. Where a run continues after `resumed_step`, above 0, the lines are
  /// appended to the file's up to that step, each of which begins with "step"; later lines and the run's
  /// last one are cut off. Throws Error for a file with other lines.
  JsonLines(std::string flag, const std::string& path, std::int64_t resumed_step = 0);
  ~JsonLines();
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;

  bool is_open() const { return file_ != nullptr; }
  void write(const Json& object);

 private:
  std::string flag_, path_;
  std::FILE* file_ = nullptr;
  bool is_new_ = false;         // this run has created the file
  bool has_own_lines_ = false;  // its earlier content is removed, or continued
  bool is_full_ = false;
};

}  // namespace ringtape
