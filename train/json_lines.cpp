#include "train/json_lines.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/error.h"
#include "train/console.h"

namespace ringtape {

JsonLines::JsonLines(std::string flag, const std::string& path, bool continues)
    : flag_(std::move(flag)), path_(path), has_own_lines_(continues) {
  if (path.empty()) return;
  is_new_ = !std::filesystem::exists(path);
  file_ = std::fopen(path.c_str(), "a");
  check(file_ != nullptr, "{}: {} cannot be written: {}", flag_, path, std::strerror(errno));
}

JsonLines::~JsonLines() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  std::error_code ignored;
  if (!has_own_lines_ && is_new_ && std::filesystem::is_regular_file(path_, ignored)) {
    std::remove(path_.c_str());
  }
}

void JsonLines::write(const Json& object) {
  if (file_ == nullptr || is_full_) return;
  const std::string line = object.dump() + "\n";
  if (!has_own_lines_) {
    std::error_code ignored;  // a device has no size
    std::filesystem::resize_file(path_, 0, ignored);
    has_own_lines_ = true;
  }
  if (std::fwrite(line.data(), 1, line.size(), file_) == line.size() && std::fflush(file_) == 0) {
    return;
  }
  is_full_ = true;
  warn("{}: {} cannot be written: {}; training continues without it", flag_, path_, std::strerror(errno));
}

}  // namespace ringtape
