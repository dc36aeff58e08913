#pragma once

#include <memory>

#include "dist/communicator.h"

namespace ringtape::test {

/// A communicator of CPU ranks that delivers each operation's result as late as it may: the output holds NaN
/// (integers: -1) until Work::wait(), and for ever if nothing waits. Thus a forgotten wait, which on CPUs is
/// usually hidden by a later operation's wait, gives wrong values. If nothing waits for an operation other
/// than an all-reduce or an all-gather, such as a send, the program ends with an error. The communicators
/// that split() returns are late too.
std::shared_ptr<Communicator> late_communicator(std::shared_ptr<Communicator> ranks);

/// The number of all-gathers of late communicators so far that nothing has waited for.
int gathers_nobody_waited_for();

}  // namespace ringtape::test
