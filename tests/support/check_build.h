#pragma once

namespace ringtape::test {

/// A check build (RINGTAPE_CHECK) runs kernels about a hundred times slower. A test of size or accuracy,
/// rather than of memory or order, does less there.
#if defined(RINGTAPE_CHECK)
constexpr bool kCheckBuild = true;
#else
constexpr bool kCheckBuild = false;
#endif

}  // namespace ringtape::test
