#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace ringtape {

/// A regular file mapped into memory, read-only: the system loads the pages that are accessed. The file must
/// not be truncated while it is mapped. When AtomicFile replaces it, existing mappings keep the old file.
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
