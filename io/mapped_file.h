#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace ringtape {

/// A regular file whose bytes are read as memory; the system loads those that are touched. The file must not
/// be cut while it is mapped; a file that AtomicFile replaces stays as it was for those that have it mapped.
class MappedFile {
 public:
  /// Throws Error that names the file and the reason.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::uint8_t> bytes() const { return bytes_; }

 private:
  std::span<const std::uint8_t> bytes_;
};

}  // namespace ringtape
