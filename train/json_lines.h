#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "io/json.h"

namespace ringtape {

/// Writes one JSON object per line to a file; does nothing for an empty path. If a write fails, as on a full
/// disk, it prints a warning, cuts off the incomplete line and stops writing. An existing file is replaced
/// when the first line is written; a run that fails before that leaves it unchanged, and creates no empty
/// file. If the process already has the file open for writing, as with /dev/stdout, the lines are appended to
/// its content.
class JsonLines {
 public:
  /// `flag` names the file in messages. If `resumed_step` is above 0, the run continues the file: its records
  /// of the steps up to that one are kept (each has a "step"); the records of later steps and the last line
  /// of a finished run (an "event") are cut off when the first line is written. Throws Error if the file
  /// has any other line or cannot be opened.
  JsonLines(std::string flag, const std::string& path, std::int64_t resumed_step = 0);
  ~JsonLines();
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;

  bool is_open() const { return file_ != nullptr; }
  void write(const Json& object);

 private:
  std::string flag_, path_;
  std::FILE* file_ = nullptr;
  std::uintmax_t kept_bytes_ = 0;  // of a file that is continued
  bool is_new_ = false;            // this run has created the file
  bool has_own_lines_ = false;     // the rest of its earlier content is removed
  bool is_full_ = false;
};

}  // namespace ringtape
