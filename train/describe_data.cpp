#include "train/describe_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "io/checksum.h"

namespace ringtape {

std::string describe_data(const Dataset& data) {
  constexpr std::int64_t kPiece = 1024;  // samples
  std::vector<std::uint8_t> features(kPiece * data.features().bytes());
  std::vector<std::uint8_t> targets(kPiece * data.target().bytes());
  std::uint32_t checksum = 0;
  for (std::int64_t first = 0; first < data.size(); first += kPiece) {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(std::min(kPiece, data.size() - first)));
    std::iota(indices.begin(), indices.end(), first);
    data.read(indices, features.data(), targets.data());
    checksum = crc32(checksum, features.data(), indices.size() * data.features().bytes());
    checksum = crc32(checksum, targets.data(), indices.size() * data.target().bytes());
  }
  return fmt::format("{} samples with the CRC-32 {:08x}", data.size(), checksum);
}

}  // namespace ringtape
