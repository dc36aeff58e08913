#pragma once

#include <cstdlib>

namespace ringtape::test {

/// A check build (RINGTAPE_CHECK) runs kernels about a hundred times slower. A test of size or accuracy,
/// rather than of memory or order, does less there.
#if defined(RINGTAPE_CHECK)
constexpr bool kCheckBuild = true;
#else
constexpr bool kCheckBuild = false;
#endif

/// The GPU model's kernels are slow too, though less so: they have a GPU's geometry as well.
#if defined(RINGTAPE_CHECK) || defined(RINGTAPE_TESTS_ON_MODEL)
constexpr bool kSlowKernels = true;
#else
constexpr bool kSlowKernels = false;
#endif

/// Whether RINGTAPE_LONG_TESTS is set, as it is by scripts/long_checks.sh.
inline bool is_long_run() {
  return std::getenv("RINGTAPE_LONG_TESTS") != nullptr;
}

/// How often a test repeats something: `times` in a long run, otherwise a quarter of that; twice where
/// kernels are slow.
inline int repetitions(int times) {
  if (kSlowKernels) return 2;
  return is_long_run() ? times : (times + 3) / 4;
}

/// Whether a test that does something in many ways does it in some of them only: where kernels are slow, but
/// not in a long run.
inline bool in_few_ways() {
  return kSlowKernels && !is_long_run();
}

}  // namespace ringtape::test
