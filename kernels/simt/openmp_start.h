#pragma once

/// What OpenMP's library, libgomp, finds in the environment when it starts, in programs that launch kernels:
///
/// - GOMP_SPINCOUNT=2000, where neither it nor OMP_WAIT_POLICY is set: threads that wait for one another spin
///   for some 20 microseconds and then sleep, those of oneDNN's parallel regions included. libgomp's own
///   choice is 150 times as long: where other programs want the cores, a thread then spins for milliseconds,
///   on a core that the thread it waits for could have used. docs/simt.md has figures.
/// - OMP_NUM_THREADS no larger than kMostThreadsOfCore for each core that the process may use. Instead of
///   more it finds one for each core, and a line on standard error says so.
///
/// Neither happens in a shared object, and the first not in a program that is started without any variable.
namespace ringtape::simt {

extern const int kMostThreadsOfCore;

}  // namespace ringtape::simt
