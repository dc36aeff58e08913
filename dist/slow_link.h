#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>

#include "dist/communicator.h"

namespace ringtape {

/// Bytes that a collective sends over the busiest link, with `world_size` ranks that use the best algorithm:
/// for a call of S bytes 2 (n - 1) / n S of an all_reduce, (n - 1) / n S of an all_gather, reduce_scatter,
/// gather or scatter, S of a broadcast or reduce, 0 of a barrier. (busbw of nccl-tests counts the same
/// bytes.) An exchange counts with the bytes that the rank sends, as in its Call.
double bytes_on_link(const Call& call, int world_size);

/// A link as slow as one likes, for ranks on one machine: there memory is the link, so fast that little is
/// left to be hidden behind computation, and communication that is hidden takes a core from the computation.
/// Here an operation's bytes arrive as fast as they do, and the operation is then held back until
///
///   latency + bytes_on_link / bytes_per_second
///
/// have passed since its data began to move. The time in between is slept. (Hockney's model: "The
/// communication challenge for MPP", 1994.)
struct SlowLink {
  Seconds latency{0};
  double bytes_per_second = std::numeric_limits<double>::infinity();

  Seconds transfer_time(double bytes) const { return Seconds(bytes / bytes_per_second); }
  /// From when the data begins to move to when the last of it has arrived.
  Seconds time_of(const Call& call, int world_size) const {
    return latency + transfer_time(bytes_on_link(call, world_size));
  }
};

/// "LATENCY_US,MBYTES_PER_S", such as "100,250": 100 microseconds and 250 MB (10^6 bytes) a second. Throws
/// Error for anything else, a negative latency, and a bandwidth that is not above 0.
SlowLink parse_slow_link(const std::string& text);

/// One link and the operations that go over it: their bytes one after the other, their latencies together.
class LinkSchedule {
 public:
  using Clock = std::chrono::steady_clock;
  /// Puts an operation on the link at `now`; returns when it has arrived.
  Clock::time_point send(Clock::time_point now, Seconds latency, Seconds transfer);

 private:
  Clock::time_point free_at_ = Clock::time_point::min();
};

}  // namespace ringtape
