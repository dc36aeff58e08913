#pragma once

#include <cstdio>
#include <string>

#include "io/json.h"

namespace ringtape {

/// Writes one JSON object a line to a file, or nowhere for an empty path. Throws Error when the file cannot
/// be opened. When it cannot be written later, as on a full disk, that is a warning, and nothing more is
/// written to it. An existing file is replaced by the first line; a run that fails before leaves it as it
/// was, and no empty file if there was none.
class JsonLines {
 public:
  /// `flag` names the file in messages. `continues`: the lines are appended to those of the file.
  JsonLines(std::string flag, const std::string& path, bool continues = false);
  ~JsonLines();
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;

  bool is_open() const { return file_ != nullptr; }
  void write(const Json& object);

 private:
  std::string flag_, path_;
  std::FILE* file_ = nullptr;
  bool is_new_ = false;         // this run has made the file
  bool has_own_lines_ = false;  // its former content is gone, or is continued
  bool is_full_ = false;
};

}  // namespace ringtape
