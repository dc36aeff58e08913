#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace ringtape {

/// True when `bytes` begin as a gzip file does.
bool is_gzip(std::span<const std::uint8_t> bytes);

/// Unpacks a gzip file held in memory, piece by piece (RFC 1952; zlib does the work and checks the CRC).
/// Damaged data and bytes after the end are Errors that begin with `name`.
class GzipReader {
 public:
  GzipReader(std::span<const std::uint8_t> compressed, std::string name);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  /// Unpacks up to `bytes` bytes and returns their number, which is smaller only at the end.
  std::size_t read(void* to, std::size_t bytes);

  /// No gzip file unpacks to more than this many times its size: deflate's shortest code stands for 258 bytes
  /// in 2 bits.
  static constexpr std::uint64_t kMostExpansion = 1032;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringtape
