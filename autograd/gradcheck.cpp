#include "autograd/gradcheck.h"

#include <cmath>
#include <limits>

#include "autograd/tape.h"
#include "core/error.h"

namespace ringtape {
namespace {

void check_f64(const char* what, const Tensor& x) {
  check(x.defined() && x.dtype() == DType::f64, "gradcheck: {} must be f64 on the CPU, found {}", what,
        describe(x));
}

/// Neighbours have different weights, so that a gradient in the wrong place is found.
double weight_of(std::size_t index) {
  return 1.0 + 0.25 * static_cast<double>(index % 7);
}

Tensor weights_for(const Tensor& output) {
  std::vector<double> weights(static_cast<std::size_t>(output.elements()));
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = weight_of(i);
  return from_vector(weights, output.shape());
}

/// Sum of weight * (a - b). Subtracting first has a smaller rounding error than the difference of two sums.
double weighted_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += weight_of(i) * (a[i] - b[i]);
  return sum;
}

/// Error of the analytic value over the allowed error.
double relative_error(double analytic, double numeric, const GradcheckOptions& options) {
  const double allowed = options.absolute_tolerance + options.relative_tolerance * std::abs(numeric);
  const double error = std::abs(analytic - numeric) / allowed;
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

}  // namespace

std::string to_string(const GradcheckResult& result) {
  return fmt::format(
      "gradient check of {} elements {}; worst: input {}, index {}: analytic {:.10g}, numeric {:.10g}, "
      "{:.3g} times the tolerance",
      result.elements, result.passed() ? "passed" : "failed", result.input, result.index, result.analytic,
      result.numeric, result.error);
}

GradcheckResult gradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& function,
                          const std::vector<Tensor>& inputs, const GradcheckOptions& options) {
  check(options.eps > 0 && options.every > 0, "gradcheck: eps and every must be above 0, found {} and {}",
        options.eps, options.every);
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) {
    check_f64("an input", input);
    leaves.push_back(from_vector(input.to_vector<double>(), input.shape()).set_requires_grad(true));
  }
  const Tensor output = function(leaves);
  check_f64("the output", output);
  Tape::current().backward(output, weights_for(output));

  const NoGrad no_grad;
  GradcheckResult result;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const Tensor grad = leaves[i].grad();
    double* const elements = leaves[i].data<double>();
    for (std::int64_t k = 0; k < leaves[i].elements(); k += options.every) {
      const double original = elements[k];
      elements[k] = original + options.eps;
      const std::vector<double> above = function(leaves).to_vector<double>();
      elements[k] = original - options.eps;
      const std::vector<double> below = function(leaves).to_vector<double>();
      elements[k] = original;
      // No gradient at all: the output does not depend on this input.
      const double analytic = grad.defined() ? grad.data<double>()[k] : 0;
      const double numeric = weighted_difference(above, below) / (2 * options.eps);
      const double error = relative_error(analytic, numeric, options);
      if (result.elements++ > 0 && error <= result.error) continue;
      result.input = i;
      result.index = k;
      result.analytic = analytic;
      result.numeric = numeric;
      result.error = error;
    }
  }
  return result;
}

}  // namespace ringtape
