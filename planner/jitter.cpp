#include "planner/jitter.h"

#include <cmath>
#include <numbers>

#include "core/error.h"

namespace ringtape::planner {

Jitter::Jitter(const JitterRequest& request)
    : request_(request),
      random_(request.seed),
      sigma_(std::sqrt(std::log1p(request.variation * request.variation))) {
  check(request.variation >= 0 && request.variation <= 1, "the jitter must be 0 to 1, found {}",
        request.variation);
}

double Jitter::uniform() {
  return (static_cast<double>(random_() >> 11) + 0.5) * 0x1p-53;  // above 0 and below 1
}

double Jitter::next() {
  if (request_.variation == 0) return 1;
  if (request_.shape == JitterRequest::Shape::exponential) {
    return 1 - request_.variation - request_.variation * std::log(uniform());
  }
  const double radius = std::sqrt(-2 * std::log(uniform()));  // Box and Muller, 1958
  const double normal = radius * std::cos(2 * std::numbers::pi * uniform());
  return std::exp(sigma_ * normal - sigma_ * sigma_ / 2);
}

}  // namespace ringtape::planner
