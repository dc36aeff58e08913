#pragma once

/// How long OpenMP's threads spin for one another before they sleep: kSpinCount rounds in programs that
/// launch kernels, oneDNN's parallel regions included. libgomp's own choice is a hundred times as long: on a
/// machine where other programs want the cores, a thread then spins for milliseconds, on a core that the
/// thread it waits for could have used. With kSpinCount it costs nothing measurable on an idle machine
/// (docs/simt.md has the figures).
///
/// GOMP_SPINCOUNT and OMP_WAIT_POLICY stay as the user has set them. Nothing happens in a shared object, and
/// in a program that is started without any environment variable.
namespace ringtape::simt {

/// About 30 microseconds.
extern const int kSpinCount;

}  // namespace ringtape::simt
