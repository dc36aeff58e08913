#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>

#include "dist/communicator.h"

namespace ringtape {

/// bytes_on_link() of dist/traffic.h for a call. An exchange counts the bytes that the rank sends, as in its
/// Call.
double bytes_on_link(const Call& call, int world_size);

/// A simulated slow link, for ranks on one machine: there the link is memory, which is so fast that there is
/// little communication to overlap with computation, and overlapped communication takes a core from the
/// computation. Here an operation's bytes are transferred at full speed, and its completion is then delayed
/// until
///
///   latency + bytes_on_link / bytes_per_second
///
/// have passed since the transfer began. The communication thread sleeps during the delay. (Hockney's model:
/// "The communication challenge for MPP", 1994.)
struct SlowLink {
  Seconds latency{0};
  double bytes_per_second = std::numeric_limits<double>::infinity();

  /// The time on the link, without the latency.
  Seconds transfer_time(double bytes) const { return Seconds(bytes / bytes_per_second); }
};

/// "LATENCY_US,MBYTES_PER_S", such as "100,250": 100 microseconds and 250 MB (10^6 bytes) a second. Throws
/// Error for any other text, a negative latency, and a bandwidth that is not above 0.
SlowLink parse_slow_link(const std::string& text);

/// One link and its operations: their bytes are transferred one after the other, their latencies overlap.
class LinkSchedule {
 public:
  using Clock = std::chrono::steady_clock;
  /// Sends an operation's data at `now`; returns the time of its arrival.
  Clock::time_point send(Clock::time_point now, Seconds latency, Seconds transfer);

 private:
  Clock::time_point free_at_ = Clock::time_point::min();
};

}  // namespace ringtape
