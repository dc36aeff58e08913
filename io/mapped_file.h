#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace ringtape {

/// A regular file whose bytes are read as memory; the system loads the pages that are touched. The file must
/// not be cut while it is mapped; processes that have it mapped keep it when AtomicFile replaces it.
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
