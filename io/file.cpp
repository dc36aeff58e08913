#include "io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "io/checksum.h"

namespace ringtape {
namespace {

// The target of `path` if it is a symbolic link, existing or not, so that saving through a link keeps the
// link.
std::filesystem::path follow_links(std::filesystem::path path) {
  const std::string given = path.string();
  constexpr int kMaxLinks = 40;  // as in Linux
  std::error_code error;
  for (int link = 0; std::filesystem::is_symlink(path, error); ++link) {
    check(link < kMaxLinks, "{}: cannot follow the link: the links form a cycle", given);
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    check(!error, "{}: cannot follow the link: {}", given, error.message());
    path = path.parent_path() / target;  // which is `target` where that is absolute
  }
  return path;
}

constexpr std::string_view kTemporary = ".tmp-";

class OpenFolder {
 public:
  explicit OpenFolder(const std::filesystem::path& path)
      : name_(path.string()), descriptor_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    check(descriptor_ >= 0, "{}: cannot open the folder: {}", name_, std::strerror(errno));
  }
  ~OpenFolder() { ::close(descriptor_); }
  OpenFolder(const OpenFolder&) = delete;
  OpenFolder& operator=(const OpenFolder&) = delete;

  void flush() const {
    // Some file systems have no fsync for folders and answer EINVAL.
    check(::fsync(descriptor_) == 0 || errno == EINVAL, "{}: cannot flush the folder: {}", name_,
          std::strerror(errno));
  }

 private:
  std::string name_;
  int descriptor_;
};

}  // namespace

InputFile::InputFile(const std::filesystem::path& path) : name_(path.string()) {
  // O_NONBLOCK keeps open() from waiting for the other end of a named pipe; it has no effect on regular
  // files.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  check(descriptor_ >= 0, "{}: cannot open: {}", name_, std::strerror(errno));
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    fail("{}: is not a regular file", name_);
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() {
  ::close(descriptor_);
}

void InputFile::read_at(std::uint64_t offset, void* to, std::size_t bytes) const {
  char* next = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t count = ::pread(descriptor_, next, bytes, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    check(count >= 0, "{}: cannot read: {}", name_, std::strerror(errno));
    check(count > 0, "{}: ends at byte {}, expected {} bytes more", name_, offset, bytes);
    next += count;
    offset += static_cast<std::uint64_t>(count);
    bytes -= static_cast<std::size_t>(count);
  }
}

bool are_same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code error_a, error_b, missing;
  // weakly_canonical() keeps the name of a link to a file that does not exist yet.
  const std::filesystem::path first =
      std::filesystem::weakly_canonical(follow_links(std::filesystem::absolute(a)), error_a);
  const std::filesystem::path second =
      std::filesystem::weakly_canonical(follow_links(std::filesystem::absolute(b)), error_b);
  return a == b || (!error_a && !error_b && first == second) || std::filesystem::equivalent(a, b, missing);
}

std::vector<std::uint8_t> read_file(const std::filesystem::path& path) {
  const InputFile file(path);
  std::vector<std::uint8_t> bytes(file.size());
  file.read_at(0, bytes.data(), bytes.size());
  return bytes;
}

std::vector<std::uint8_t> read_file_or_standard_input(const std::filesystem::path& path) {
  std::error_code ignored;
  check(!std::filesystem::is_other(path, ignored),
        "{}: is not a regular file, expected one, or - for standard input", path.string());
  if (path != "-") return read_file(path);
  std::vector<std::uint8_t> bytes;
  std::array<std::uint8_t, 1 << 16> piece;
  while (const std::size_t count = std::fread(piece.data(), 1, piece.size(), stdin)) {
    bytes.insert(bytes.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(count));
  }
  check(std::ferror(stdin) == 0, "standard input cannot be read");
  return bytes;
}

std::string input_name(const std::filesystem::path& path) {
  return path == "-" ? "standard input" : path.string();
}

void flush_folder(const std::filesystem::path& folder) {
  OpenFolder(folder).flush();
}

AtomicFile::AtomicFile(const std::filesystem::path& path) : path_(follow_links(path)) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path_, error);
  check(!std::filesystem::exists(status) || std::filesystem::is_regular_file(status),
        "{}: is not a regular file, so it cannot be written", path_.string());
  for (int attempt = 0; attempt < 100 && descriptor_ < 0; ++attempt) {
    temporary_ = path_;
    temporary_ += fmt::format("{}{}-{}", kTemporary, ::getpid(), attempt);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) break;
  }
  check(descriptor_ >= 0, "{}: cannot write: {}", path_.string(), std::strerror(errno));
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* from, std::size_t bytes) {
  const char* next = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t count = ::write(descriptor_, next, bytes);
    if (count < 0 && errno == EINTR) continue;
    check(count >= 0, "{}: cannot write: {}", path_.string(), std::strerror(errno));
    checksum_ = crc32(checksum_, next, static_cast<std::size_t>(count));
    next += count;
    bytes -= static_cast<std::size_t>(count);
  }
}

void AtomicFile::finish() {
  check(::fsync(descriptor_) == 0, "{}: cannot flush: {}", path_.string(), std::strerror(errno));
  const int closed = ::close(std::exchange(descriptor_, -1));
  check(closed == 0, "{}: cannot close: {}", path_.string(), std::strerror(errno));
}

void AtomicFile::commit() {
  if (descriptor_ >= 0) finish();
  const OpenFolder folder(path_.has_parent_path() ? path_.parent_path() : ".");
  check(::rename(temporary_.c_str(), path_.c_str()) == 0, "{}: cannot rename {}: {}", path_.string(),
        temporary_.string(), std::strerror(errno));
  temporary_.clear();
  folder.flush();  // makes the rename durable
}

bool AtomicFile::is_temporary_name(std::string_view name, std::string_view file) {
  if (!name.starts_with(file) || !name.substr(file.size()).starts_with(kTemporary)) return false;
  const std::string_view numbers = name.substr(file.size() + kTemporary.size());  // "PID-ATTEMPT"
  const std::size_t dash = numbers.find('-');
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return dash != std::string_view::npos && is_number(numbers.substr(0, dash)) &&
         is_number(numbers.substr(dash + 1));
}

NewFolder::NewFolder(const std::filesystem::path& path) {
  std::filesystem::path missing = path.has_filename() ? path : path.parent_path();
  std::error_code error;
  while (!missing.empty() && !std::filesystem::exists(missing, error)) {
    made_ = missing;
    missing = missing.parent_path();
  }
  std::filesystem::create_directories(path, error);
  if (!error) return;
  std::error_code ignored;
  if (!made_.empty()) std::filesystem::remove_all(made_, ignored);  // the parents that could be made
  fail("{}: cannot make the folder: {}", path.string(), error.message());
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!made_.empty()) std::filesystem::remove_all(made_, ignored);
}

void save_text(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

}  // namespace ringtape
