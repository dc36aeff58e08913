#pragma once

/// Environment variables set for libgomp (OpenMP's library) at the start of programs that launch kernels:
///
/// - GOMP_SPINCOUNT=2000, where neither it nor OMP_WAIT_POLICY is set: threads that wait for one another spin
///   for some 20 microseconds and then sleep, those of oneDNN's parallel regions included. libgomp's default
/// is 150 times as long: on a busy machine a thread then spins for milliseconds on a core that the thread it
/// waits for could use. docs/simt.md has figures.
/// - OMP_NUM_THREADS no larger than kMostThreadsOfCore for each core that the process may use. A larger
/// number is replaced by one for each core, with a line on standard error.
///
/// Neither happens in a shared object, and the first not in a program started with an empty environment.
namespace ringtape::simt {

extern const int kMostThreadsOfCore;

}  // namespace ringtape::simt
