#pragma once

#include <memory>

#include "dist/communicator.h"

namespace ringtape::test {

/// A communicator of CPU ranks that gives each operation's result as late as it may: the output holds NaN
/// until Work::wait(), and for ever if nobody waits. A forgotten wait, which on CPUs is most often hidden by
/// a later operation's, so gives wrong values. Where nobody waits for an operation other than an all-reduce
/// and an all-gather, such as for what a rank sends, the program ends with an error. The parts of a split are
/// late too.
std::shared_ptr<Communicator> late_communicator(std::shared_ptr<Communicator> ranks);

/// All-gathers of late communicators so far that nobody has waited for.
int gathers_nobody_waited_for();

}  // namespace ringtape::test
