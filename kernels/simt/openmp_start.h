#pragma once

/// Environment variables set for libgomp (OpenMP's library) at the start of programs that launch kernels:
///
/// - GOMP_SPINCOUNT=2000, where neither it nor OMP_WAIT_POLICY is set: threads that wait for one another spin
///   for about 20 microseconds and then sleep, in oneDNN's parallel regions too. libgomp's default is 150
///   times as long: on a busy machine a thread then spins for milliseconds on a core that the thread it waits
///   for could use. docs/simt.md has figures.
/// - OMP_NUM_THREADS of at most kMaxThreadsOfCore for each core that the process may use. A larger number is
///   replaced by one for each core, with a warning on standard error.
///
/// A shared object sets neither, and a program started with an empty environment does not set the first.
namespace ringtape::simt {

extern const int kMaxThreadsOfCore;

}  // namespace ringtape::simt
