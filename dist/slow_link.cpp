#include "dist/slow_link.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "core/error.h"
#include "core/quote.h"
#include "dist/traffic.h"
#include "io/parse.h"

namespace ringtape {
namespace {

/// The number in `text`; NaN if it is not a number.
double number(std::string_view text) {
  return parse_double(text).value_or(std::nan(""));
}

}  // namespace

double bytes_on_link(const Call& call, int world_size) {
  const double bytes = static_cast<double>(call.elements) * static_cast<double>(size_of(call.dtype));
  return bytes_on_link(call.operation, world_size, bytes);
}

SlowLink parse_slow_link(const std::string& text) {
  const std::size_t comma = text.find(',');
  const double latency = number(std::string_view(text).substr(0, comma));
  const double bandwidth = comma == std::string::npos ? 0 : number(std::string_view(text).substr(comma + 1));
  check(latency >= 0 && bandwidth > 0 && std::isfinite(latency) && std::isfinite(bandwidth),
        "expected LATENCY_US,MBYTES_PER_S such as 100,250, a latency of at least 0 microseconds and a "
        "bandwidth above 0 MB/s, found {}",
        quote(text));
  return {.latency = Seconds(latency * 1e-6), .bytes_per_second = bandwidth * 1e6};
}

LinkSchedule::Clock::time_point LinkSchedule::send(Clock::time_point now, Seconds latency, Seconds transfer) {
  free_at_ = std::max(now, free_at_) + std::chrono::duration_cast<Clock::duration>(transfer);
  return free_at_ + std::chrono::duration_cast<Clock::duration>(latency);
}

}  // namespace ringtape
