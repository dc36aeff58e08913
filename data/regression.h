#pragma once

#include <cstdint>

#include "data/dataset.h"

namespace ringtape {

/// A table to fit by regression: Friedman's first function ("Multivariate adaptive regression splines",
/// Annals of Statistics 19(1), 1991, section 4.3). Features: f32 [samples, 10], uniform in [0, 1), of which
/// the last five have no influence. Targets: f32 [samples, 1],
///
///   y = 10 sin(pi x1 x2) + 20 (x3 - 1/2)^2 + 10 x4 + 5 x5 + noise z,  z standard normal,
///
/// so that no model's mean squared error is below noise^2; a constant prediction of the mean has about 23.8
/// more.
///
/// Row i depends only on (seed, i). Its Philox words come from philox4x32_10(seed, 4 i + k, 2^62), k = 0 to
/// 3: words 0 to 9 give x1 to x10 by uniform_float (core/philox.h); a and b, the words 12 and 13, give z =
/// sqrt(-2 ln((a + 1) / 2^32)) cos(2 pi b / 2^32) (Box and Muller, 1958). Computed in double. Throws Error
/// for fewer than 1 sample, and for a noise that is negative or not finite.
TensorDataset make_friedman1(std::int64_t samples, std::uint64_t seed, double noise = 1.0);

}  // namespace ringtape
