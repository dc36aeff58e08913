#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace ringtape {

/// The CRC-32 of gzip and PNG, continued: `before` is the checksum of the preceding bytes, 0 at the start.
std::uint32_t crc32(std::uint32_t before, const void* bytes, std::size_t count);

/// The CRC-32 of a whole file, which is read in pieces. Throws Error when it cannot be read.
std::uint32_t crc32_of_file(const std::filesystem::path& path);

}  // namespace ringtape
