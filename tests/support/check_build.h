#pragma once

namespace ringtape::test {

/// A check build (RINGTAPE_CHECK) runs kernels about a hundred times slower. Where size or accuracy is the
/// point of a test, and not memory or order, it does less there.
#if defined(RINGTAPE_CHECK)
constexpr bool kCheckBuild = true;
#else
constexpr bool kCheckBuild = false;
#endif

}  // namespace ringtape::test
