#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace ringtape {

/// The tolerances of gradcheck(). The error of a central difference is about eps^2 |f'''| / 6 from truncation
/// plus 2^-53 |f| / eps from rounding, so eps near the cube root of 2^-53 is best: for functions and inputs
/// of size 1 both parts stay below 1e-10.
struct GradcheckOptions {
  double eps = 1e-5;                 ///< step to each side
  double absolute_tolerance = 1e-8;  ///< |analytic - numeric| <= absolute + relative * |numeric|
  double relative_tolerance = 1e-6;
  std::int64_t every = 1;  ///< checks elements 0, every, 2 every, ... of each input
};

/// The result, with the element of the largest error.
struct GradcheckResult {
  std::int64_t elements = 0;  ///< number of compared elements
  std::size_t input = 0;      ///< of the worst element: number of its input ...
  std::int64_t index = 0;     ///< ... and its row-major index there
  double analytic = 0;
  double numeric = 0;
  double error = 0;  ///< |analytic - numeric| over the allowed error; infinite where either is NaN

  bool passed() const { return error <= 1; }
};

/// The result in one line.
std::string to_string(const GradcheckResult& result);

/// Compares the gradients that the tape computes with central differences (f(x + eps) - f(x - eps)) / (2
/// eps), for the elements of every input. `function` gets a copy of every input, on the CPU and with a
/// gradient, and may return a tensor of any shape; the check is of the gradient of a fixed weighted sum of
/// the result's elements. Where the function has a kink (ReLU at 0), keep the inputs further away from it
/// than eps. Throws Error unless inputs and output are f64, and eps and every above 0. Clears the tape.
GradcheckResult gradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& function,
                          const std::vector<Tensor>& inputs, const GradcheckOptions& options = {});

}  // namespace ringtape
