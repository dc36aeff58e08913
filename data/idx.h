#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "core/tensor.h"

/// The IDX format of MNIST: a big-endian magic number 0x000008DD (08: unsigned bytes, DD: number of
/// dimensions), one big-endian 32-bit size for each dimension, then the bytes, row-major.
namespace ringtape {

/// Reads an IDX file of unsigned bytes, plain or gzipped (recognised by the first bytes), as a u8 tensor on
/// the CPU. `dims` is the number of dimensions it must have, 1 to 4. The file must hold exactly what its
/// header says: for a wrong magic number, a size that is 0 or too large for the file, missing or trailing
/// bytes and damaged gzip data it throws Error that names the file, what was found and what was expected. The
/// header is checked against the file's size before memory for the data is allocated.
Tensor read_idx(const std::filesystem::path& path, int dims);

/// The same for a file already in memory; `name` stands for the file in error texts.
Tensor parse_idx(std::span<const std::uint8_t> file, int dims, const std::string& name);

}  // namespace ringtape
