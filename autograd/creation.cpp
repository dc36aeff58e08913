#include "autograd/creation.h"

#include <cmath>
#include <limits>

#include "core/capture.h"
#include "core/ceil_div.h"
#include "core/error.h"
#include "core/numbers.h"
#include "core/stream.h"
#include "kernels/elementwise.h"
#include "kernels/random.h"

namespace ringtape {
namespace {

std::uint64_t take_counters(Generator& generator, std::int64_t elements) {
  forbid_in_capture("random numbers are drawn, whose counters come from the host");
  return generator.take(static_cast<std::uint64_t>(ceil_div(elements, 4)));
}

}  // namespace

/// Throws Error unless elements of an integer dtype can hold the value; those of a floating one can hold any.
static void check_holds(const char* operation, DType dtype, double value) {
  if (is_floating(dtype)) return;
  const double limit = std::ldexp(1.0, dtype == DType::u8 ? 8 : dtype == DType::i32 ? 31 : 63);
  const double least = dtype == DType::u8 ? 0 : -limit;
  check(value >= least && value < limit, "{}: expected at least {} and below {} for {}, found {}", operation,
        least, limit, name_of(dtype), value);
}

Tensor full(Shape shape, double value, DType dtype, Device device) {
  check_holds("full", dtype, value);
  Tensor x = empty(shape, dtype, device);
  fill(Stream::current(device), dtype, x.raw(), x.elements(), value);
  return x;
}

Tensor zeros(Shape shape, DType dtype, Device device) {
  return full(shape, 0, dtype, device);
}
Tensor ones(Shape shape, DType dtype, Device device) {
  return full(shape, 1, dtype, device);
}

Tensor arange(double start, double end, double step, DType dtype, Device device) {
  const double count = std::ceil((end - start) / step);
  check((end - start) / step >= 0 && count < 9e18, "arange: steps of {} do not lead from {} to {}", step,
        start, end);
  check_holds("arange", dtype, start);
  if (count > 0) check_holds("arange", dtype, start + (count - 1) * step);
  Tensor x = empty({static_cast<std::int64_t>(count)}, dtype, device);
  arange(Stream::current(device), dtype, x.raw(), x.elements(), start, step);
  return x;
}

Tensor rand(Shape shape, DType dtype, Device device, double low, double high, Generator& generator) {
  check(is_floating(dtype), "rand: expected a floating dtype, found {}", name_of(dtype));
  check(low <= high && high - low <= std::numeric_limits<float>::max(),
        "rand: expected low <= high and a difference within f32, found {} and {}", low, high);
  Tensor x = empty(shape, dtype, device);
  uniform(Stream::current(device), dtype, x.raw(), x.elements(), static_cast<float>(low),
          static_cast<float>(high), generator.seed, take_counters(generator, x.elements()));
  return x;
}

Tensor randn(Shape shape, DType dtype, Device device, double mean, double std, Generator& generator) {
  check(is_floating(dtype), "randn: expected a floating dtype, found {}", name_of(dtype));
  check(std >= 0, "randn: expected a standard deviation of at least 0, found {}", without_nan_sign(std));
  Tensor x = empty(shape, dtype, device);
  normal(Stream::current(device), dtype, x.raw(), x.elements(), static_cast<float>(mean),
         static_cast<float>(std), generator.seed, take_counters(generator, x.elements()));
  return x;
}

}  // namespace ringtape
