#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace ringtape {

/// True when `bytes` begin with gzip's magic number.
bool is_gzip(std::span<const std::uint8_t> bytes);

/// Decompresses a gzip file held in memory, piece by piece (RFC 1952; zlib does the work and checks the CRC).
/// It may have several members, as the output of `cat a.gz b.gz`. For damaged data and for bytes after the
/// end it throws Error that begins with `name`.
class GzipReader {
 public:
  GzipReader(std::span<const std::uint8_t> compressed, std::string name);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  /// Decompresses up to `bytes` bytes and returns their number, which is smaller only at the end.
  std::size_t read(void* to, std::size_t bytes);

  /// The largest possible compression ratio: deflate's shortest code, of 2 bits, stands for 258 bytes.
  static constexpr std::uint64_t kMaxExpansion = 1032;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringtape
