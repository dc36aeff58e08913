#pragma once

#include <chrono>
#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/tensor.h"
#include "dist/communicator.h"
#include "profile/core_wait.h"

namespace ringtape {

/// From here on only rank 0 prints.
inline void silence_other_ranks(const Communicator& comm) {
  if (comm.rank() != 0 && std::freopen("/dev/null", "w", stdout) == nullptr) fail("cannot open /dev/null");
}

/// The largest of the ranks' values of `own`.
inline double largest_over(Communicator& comm, double own) {
  const Tensor number = from_vector(std::vector{own}, {1});
  comm.all_reduce(number, ReduceOp::max).wait();
  return number.to_doubles()[0];
}

/// The time of the slowest rank in seconds.
inline double slowest(Communicator& comm, std::chrono::steady_clock::duration own) {
  return largest_over(comm, Seconds(own).count());
}

/// check_quiet() for the rank that waited longest; throws Error on all ranks. The share is unknown if it is
/// unknown on any rank.
inline void check_quiet(Communicator& comm, const CoreWait& wait, std::string_view when) {
  const std::optional<double> own = wait.share();
  const bool is_known = largest_over(comm, own ? 0 : 1) <= 0;
  const double largest = largest_over(comm, own.value_or(0));
  check_quiet(is_known ? std::optional(largest) : std::nullopt, when);
}

}  // namespace ringtape
