#pragma once

#include <memory>

#include "dist/communicator.h"

namespace ringtape::test {

/// A communicator of CPU ranks that gives each operation's result as late as it may: the output holds NaN
/// until Work::wait(), and for ever if nobody waits. A forgotten wait, which on CPUs is most often hidden by
/// a later operation's, so gives wrong values. Its parts of a split are late too.
std::shared_ptr<Communicator> late_communicator(std::shared_ptr<Communicator> ranks);

}  // namespace ringtape::test
