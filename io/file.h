#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ringtape {

/// A regular file open for reading. Every function throws Error that names the file and the reason.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// Bytes in the file when it was opened.
  std::uint64_t size() const { return size_; }
  /// The path as given, for error texts.
  const std::string& name() const { return name_; }
  /// Reads exactly `bytes` bytes that start at `offset`.
  void read_at(std::uint64_t offset, void* to, std::size_t bytes) const;
  int descriptor() const { return descriptor_; }

 private:
  std::string name_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// Whether two names refer to the same file, which need not exist: "a.html", "./a.html" and a symbolic or
/// hard link to it do. Throws Error for a cycle of links.
bool are_same_file(const std::filesystem::path& a, const std::filesystem::path& b);

/// All bytes of a regular file.
std::vector<std::uint8_t> read_file(const std::filesystem::path& path);

/// The same; "-" is standard input, to its end.
std::vector<std::uint8_t> read_file_or_standard_input(const std::filesystem::path& path);
/// Its name for messages: "standard input" if it is "-".
std::string input_name(const std::filesystem::path& path);

/// Flushes a folder's entries to the disk: otherwise a file or folder just created there may be missing after
/// a power cut.
void flush_folder(const std::filesystem::path& folder);

/// A folder to write files into. If it does not exist, it is created, with its parents, and removed again
/// with everything in it unless keep() is called.
class NewFolder {
 public:
  /// Throws Error when it cannot be created.
  explicit NewFolder(const std::filesystem::path& path);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  void keep() { made_.clear(); }

 private:
  std::filesystem::path made_;  // the outermost folder that was created; empty for none
};

/// Writes a file atomically: a reader sees the old or the complete new file, even after a crash or with a
/// full disk. The bytes go to a temporary file in the same folder, which commit() flushes to the disk and
/// renames. Without commit() the temporary file is removed and an old file stays unchanged. Every function
/// throws Error that names the file and the reason; then too an old file stays unchanged, unless the folder
/// cannot be flushed after the renaming.
class AtomicFile {
 public:
  /// Follows symbolic links. Throws Error when the temporary file cannot be created, or when `path` exists
  /// and is not a regular file.
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* from, std::size_t bytes);
  /// The CRC-32 of the bytes written so far.
  std::uint32_t checksum() const { return checksum_; }
  /// Flushes the bytes to the disk, so that commit() only has to rename: for a set of files that must all be
  /// complete before the first replaces its old version. No write() may follow.
  void finish();
  void commit();

  /// Whether `name` can be the temporary file of the file `file`.
  static bool is_temporary_name(std::string_view name, std::string_view file);

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  std::uint32_t checksum_ = 0;
};

/// Writes `text` to a file atomically: see AtomicFile.
void save_text(const std::filesystem::path& path, std::string_view text);

}  // namespace ringtape
