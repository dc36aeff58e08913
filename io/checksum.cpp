#include "io/checksum.h"

#include <zlib.h>

#include <algorithm>
#include <vector>

#include "io/file.h"

namespace ringtape {

std::uint32_t crc32(std::uint32_t before, const void* bytes, std::size_t count) {
  return static_cast<std::uint32_t>(::crc32_z(before, static_cast<const Bytef*>(bytes), count));
}

std::uint32_t crc32_of_file(const std::filesystem::path& path) {
  const InputFile file(path);
  std::vector<std::uint8_t> piece(std::size_t{1} << 20);
  std::uint32_t checksum = 0;
  for (std::uint64_t done = 0; done < file.size(); done += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), file.size() - done)));
    file.read_at(done, piece.data(), piece.size());
    checksum = crc32(checksum, piece.data(), piece.size());
  }
  return checksum;
}

}  // namespace ringtape
