#pragma once

namespace ringtape {

/// Requests the shortest time slice from Linux for this thread (sched_setattr(2)). From Linux 6.12 on such a
/// thread gets a core as soon as it wakes. Otherwise it waits for the end of the slice of the thread that
/// computes there, which takes milliseconds. Earlier kernels ignore the request. The thread keeps its nice
/// value; under another scheduling policy (chrt(1)) nothing changes.
void ask_for_short_slices();

}  // namespace ringtape
