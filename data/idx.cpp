#include "data/idx.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "core/error.h"
#include "core/memory.h"
#include "data/gzip.h"
#include "io/file.h"

namespace ringtape {
namespace {

/// The bytes of a file in order, decompressed if it is gzipped.
class ByteSource {
 public:
  ByteSource(std::span<const std::uint8_t> file, const std::string& name) : left_(file) {
    most_ = file.size();
    if (is_gzip(file)) {
      gzip_.emplace(file, name);
      most_ *= GzipReader::kMaxExpansion;
    }
  }

  // An upper bound of the total bytes of all reads.
  std::uint64_t most() const { return most_; }

  std::size_t read(void* to, std::size_t bytes) {
    if (gzip_) return gzip_->read(to, bytes);
    const std::size_t count = std::min(bytes, left_.size());
    if (count > 0) std::memcpy(to, left_.data(), count);
    left_ = left_.subspan(count);
    return count;
  }

 private:
  std::span<const std::uint8_t> left_;
  std::optional<GzipReader> gzip_;
  std::uint64_t most_;
};

std::uint32_t read_big_endian(ByteSource& source, const std::string& name, const char* what) {
  std::array<std::uint8_t, 4> bytes;
  check(source.read(bytes.data(), 4) == 4, "{}: ends inside {}, expected an IDX file", name, what);
  return static_cast<std::uint32_t>(bytes[0]) << 24 | static_cast<std::uint32_t>(bytes[1]) << 16 |
         static_cast<std::uint32_t>(bytes[2]) << 8 | bytes[3];
}

}  // namespace

Tensor parse_idx(std::span<const std::uint8_t> file, int dims, const std::string& name) {
  check(dims >= 1 && dims <= Shape::kMaxDims, "read_idx: {} dimensions requested, expected 1 to {}", dims,
        Shape::kMaxDims);
  ByteSource source(file, name);
  const std::uint32_t expected_magic = 0x0800u + static_cast<std::uint32_t>(dims);
  const std::uint32_t magic = read_big_endian(source, name, "the magic number");
  check(magic == expected_magic,
        "{}: has the magic number 0x{:08X}, expected 0x{:08X} (unsigned bytes, {} dimension{})", name, magic,
        expected_magic, dims, dims == 1 ? "" : "s");

  std::array<std::int64_t, Shape::kMaxDims> sizes;
  const std::uint64_t header_bytes = 4 + 4 * static_cast<std::uint64_t>(dims);
  std::uint64_t bytes = 1;
  for (int dim = 0; dim < dims; ++dim) {
    const std::uint32_t size = read_big_endian(source, name, "the sizes of its dimensions");
    check(size > 0, "{}: dimension {} has the size 0, expected at least 1", name, dim);
    sizes[dim] = size;
    // Divided, not multiplied, so that four sizes of 2^32 - 1 cannot wrap around.
    check(bytes <= source.most() / size, "{}: is too short for what it claims: dimension {} has the size {}",
          name, dim, size);
    bytes *= size;
  }
  const Shape shape(sizes.data(), sizes.data() + dims);
  check(is_gzip(file) || file.size() == header_bytes + bytes,
        "{}: is {} bytes long, expected {} for shape {}", name, file.size(), header_bytes + bytes,
        to_string(shape));

  const MemoryScope scope(MemoryCategory::data);
  Tensor values = empty(shape, DType::u8);
  const std::size_t found = source.read(values.raw(), bytes);
  check(found == bytes, "{}: holds {} bytes of data, expected {} for shape {}", name, found, bytes,
        to_string(shape));
  std::uint8_t extra;
  check(source.read(&extra, 1) == 0, "{}: has bytes after the {} of shape {}, expected none", name, bytes,
        to_string(shape));
  return values;
}

Tensor read_idx(const std::filesystem::path& path, int dims) {
  return parse_idx(read_file(path), dims, path.string());
}

}  // namespace ringtape
