#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dist/communicator.h"

namespace ringtape::lessons {

/// Times of one way to do the work, divided by the median time of the first way.
struct Ratio {
  double median, lowest, highest;
};

/// Times several ways to do the same work. In each of `rounds` rounds every way runs once, so that other work
/// on the machine affects all of them; its time is that of the slowest rank. A collective with the same
/// result on all ranks. Each way first runs once untimed.
std::vector<Ratio> time_in_turns(Communicator& comm, const std::vector<std::function<void()>>& ways,
                                 int rounds);

/// The time of the slowest rank, on all ranks.
double slowest(Communicator& comm, double seconds);

/// "1.52 (1.47 to 1.60)".
std::string text_of(const Ratio& ratio);

}  // namespace ringtape::lessons
