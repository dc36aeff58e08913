#pragma once

#include "kernels/analysis/cases/case.h"
#include "kernels/arena.h"

namespace ringtape::analysed {

/// A parameter arena of `size` elements for the optimizers' kernels, in three parameters: a half, a quarter
/// and a quarter. Sizes are multiples of kMultiple, so that no padding lies between them.
struct Arena {
  static constexpr std::int64_t kMultiple = 4 * kTileAlignment;
  static constexpr std::int64_t kParameters = 3;

  Arena(Setup& setup, std::int64_t size);
  ArenaView view{};
};

}  // namespace ringtape::analysed
