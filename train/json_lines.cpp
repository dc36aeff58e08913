#include "train/json_lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/quote.h"
#include "io/parse.h"
#include "train/console.h"

namespace ringtape {

namespace {

/// Whether `text` can be an incomplete line of a killed run.
bool begins_record(std::string_view text) {
  for (std::string_view start : {std::string_view("{\"step\":"), std::string_view("{\"event\":")}) {
    if (text.substr(0, start.size()) == start.substr(0, text.size())) return true;
  }
  return false;
}

/// The step of a record; nothing for any other line.
std::optional<std::int64_t> step_of(const std::string& line) {
  try {
    const Json record = Json::parse(line);
    const Json* const step = record.find("step");
    return step == nullptr ? std::nullopt : std::optional(step->as_int64());
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The length in bytes of the records of the steps up to `step`, to which the file will be truncated: it ends
/// before the first record of a later step, an incomplete line, or the last line of a finished run. Throws
/// Error for any other line, as no run has written it.
std::uintmax_t bytes_up_to(const std::string& flag, const std::string& path, std::int64_t step) {
  std::ifstream file(path, std::ios::binary);
  std::uintmax_t bytes = 0;
  bool is_before_cut = true;
  std::int64_t number = 1;
  for (std::string line; std::getline(file, line); ++number) {
    const bool is_complete = !file.eof();
    const std::optional<std::int64_t> step_of_line = step_of(line);
    const bool is_step = step_of_line.has_value();
    const bool is_event = line.starts_with("{\"event\":");
    check(is_complete ? is_step || is_event : begins_record(line),
          "{}: {} cannot be continued: its line {} is {}, expected the record of a step", flag, path, number,
          quote(line));
    is_before_cut = is_before_cut && is_complete && is_step && *step_of_line <= step;
    if (is_before_cut) bytes += line.size() + 1;
  }
  return bytes;
}

/// A file descriptor of this process that is open for writing to the file, such as 1 for /dev/stdout; -1 for
/// none.
int descriptor_of(const std::string& path) {
  struct stat wanted {};
  if (path.empty() || ::stat(path.c_str(), &wanted) != 0) return -1;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const auto descriptor = static_cast<int>(parse_int64(entry.path().filename().string()).value_or(-1));
    struct stat found {};
    const bool is_file =
        ::fstat(descriptor, &found) == 0 && found.st_dev == wanted.st_dev && found.st_ino == wanted.st_ino;
    if (is_file && (::fcntl(descriptor, F_GETFL) & O_ACCMODE) != O_RDONLY) return descriptor;
  }
  return -1;
}

}  // namespace

JsonLines::JsonLines(std::string flag, const std::string& path, std::int64_t resumed_step)
    : flag_(std::move(flag)), path_(path) {
  if (path.empty()) return;
  if (const int descriptor = descriptor_of(path); descriptor >= 0) {
    // The lines are appended to what else is written there.
    file_ = ::fdopen(::dup(descriptor), "w");
    has_own_lines_ = true;
  } else {
    if (resumed_step > 0 && std::filesystem::is_regular_file(path)) {
      kept_bytes_ = bytes_up_to(flag_, path, resumed_step);
    }
    is_new_ = !std::filesystem::exists(path);
    file_ = std::fopen(path.c_str(), "a");
  }
  check(file_ != nullptr, "{}: {} cannot be written: {}", flag_, path, std::strerror(errno));
  std::setvbuf(file_, nullptr, _IONBF, 0);  // so that nothing of a failed line is written later
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
    std::error_code ignored;  // a device file cannot be resized
    std::filesystem::resize_file(path_, kept_bytes_, ignored);
    has_own_lines_ = true;
  }
  struct stat before {};
  const bool is_file = ::fstat(::fileno(file_), &before) == 0 && S_ISREG(before.st_mode);
  if (std::fwrite(line.data(), 1, line.size(), file_) == line.size()) return;
  is_full_ = true;
  const int reason = errno;
  const bool is_cut = is_file && ::ftruncate(::fileno(file_), before.st_size) == 0;
  warn("{}: {} cannot be written: {}; training continues without it{}", flag_, path_, std::strerror(reason),
       is_cut ? "" : ", and its last line may be incomplete");
}

}  // namespace ringtape
