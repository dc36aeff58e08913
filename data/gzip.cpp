#include "data/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/numbers.h"

namespace ringtape {

struct GzipReader::State {
  z_stream stream{};
  std::span<const std::uint8_t> left;  // compressed bytes that zlib has not been given yet
  std::string name;
  std::uint64_t unpacked = 0;
  bool ended = false;
};

namespace {

constexpr std::size_t kMaxPerCall = 1u << 30;  // zlib counts in 32 bits

}  // namespace

bool is_gzip(std::span<const std::uint8_t> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

GzipReader::GzipReader(std::span<const std::uint8_t> compressed, std::string name)
    : state_(std::make_unique<State>()) {
  state_->left = compressed;
  state_->name = std::move(name);
  constexpr int kGzipOnly = 16;  // added to the window size: expect a gzip header, check its CRC
  check(inflateInit2(&state_->stream, MAX_WBITS + kGzipOnly) == Z_OK, "{}: zlib could not start",
        state_->name);
}

GzipReader::~GzipReader() {
  inflateEnd(&state_->stream);
}

std::size_t GzipReader::read(void* to, std::size_t bytes) {
  State& s = *state_;
  auto* const begin = static_cast<std::uint8_t*>(to);
  std::size_t done = 0;
  while (!s.ended && done < bytes) {
    if (s.stream.avail_in == 0) {
      const std::size_t count = std::min(s.left.size(), kMaxPerCall);
      s.stream.next_in = const_cast<std::uint8_t*>(s.left.data());
      s.stream.avail_in = static_cast<uInt>(count);
      s.left = s.left.subspan(count);
    }
    const std::size_t room = std::min(bytes - done, kMaxPerCall);
    s.stream.next_out = begin + done;
    s.stream.avail_out = static_cast<uInt>(room);
    const int result = inflate(&s.stream, Z_NO_FLUSH);
    done += room - s.stream.avail_out;
    s.unpacked += room - s.stream.avail_out;
    if (result == Z_STREAM_END) {
      const std::span<const std::uint8_t> rest(s.stream.next_in, s.stream.avail_in + s.left.size());
      s.ended = rest.empty();
      check(s.ended || is_gzip(rest), "{}: {} bytes follow the end of the gzip data, expected none", s.name,
            rest.size());
      if (!s.ended) inflateReset(&s.stream);  // RFC 1952: a file may have several members
    } else if (result == Z_BUF_ERROR ||
               (result == Z_OK && s.stream.avail_in == 0 && s.left.empty() && done < bytes)) {
      fail("{}: the gzip data is truncated: it ends after unpacking {}", s.name,
           counted(static_cast<std::int64_t>(s.unpacked), "byte"));
    } else if (result != Z_OK) {
      fail("{}: the gzip data is damaged after {} unpacked bytes: {}", s.name, s.unpacked,
           s.stream.msg ? s.stream.msg : "zlib gives no reason");
    }
  }
  return done;
}

}  // namespace ringtape
