#include "train/json_lines.h"

#include <sys/resource.h>

#include <csignal>
#include <cstdint>
#include <filesystem>

#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace ringtape::test {
namespace {

/// While it lives, no file of this process can become larger, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);  // the write fails instead
};

TEST_CASE("JSON lines: a line that does not fit on the disk is cut off", "[train]") {
  constexpr std::uintmax_t kLimit = std::uintmax_t{1} << 40;  // no other open file is as large
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  JsonLines lines("--metrics", path);
  lines.write({{"step", 1}});
  CHECK(std::filesystem::file_size(path) == 11);
  std::filesystem::resize_file(path, kLimit - 5);  // sparse
  {
    const FileSizeLimit limit(kLimit);
    lines.write({{"step", 2}});
  }
  lines.write({{"step", 3}});
  CHECK(std::filesystem::file_size(path) == kLimit - 5);
}

TEST_CASE("JSON lines: a continued file changes with the first line, not before", "[train]") {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  const std::string first = "{\"step\":1}\n", rest = "{\"step\":2}\n{\"event\":\"done\"}\n";
  write_text(path, first + rest);
  { const JsonLines lines("--metrics", path, 1); }
  CHECK(read_text(path) == first + rest);
  JsonLines lines("--metrics", path, 1);
  lines.write({{"step", 5}});
  CHECK(read_text(path) == first + "{\"step\":5}\n");
}

}  // namespace
}  // namespace ringtape::test
