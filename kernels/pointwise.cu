#include "kernels/pointwise_kernel.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

// The arithmetic of an element.

struct Add {
  __device__ static auto of(auto a, auto b) { return a + b; }
};

struct Multiply {
  __device__ static auto of(auto a, auto b) { return a * b; }
};

struct Exp {
  __device__ static auto of(auto x) { return ::exp(x); }
};

struct Axpy {
  __device__ static auto of(auto alpha, auto x, auto y) { return alpha * x + y; }
};

}  // namespace

void scale(const Stream& stream, DType dtype, const void* x, void* y, std::int64_t n, double alpha) {
  launch_pointwise<Multiply, Operand::a, Operand::alpha>(stream, dtype, {.a = x, .alpha = alpha, .result = y},
                                                         n);
}

void add(const Stream& stream, DType dtype, const void* a, const void* b, void* y, std::int64_t n) {
  launch_pointwise<Add, Operand::a, Operand::b>(stream, dtype, {.a = a, .b = b, .result = y}, n);
}

void axpy(const Stream& stream, DType dtype, double alpha, const void* x, void* y, std::int64_t n) {
  launch_pointwise<Axpy, Operand::alpha, Operand::a, Operand::b>(
      stream, dtype, {.a = x, .b = y, .alpha = alpha, .result = y}, n);
}

namespace {

using enum Operand;

/// The gradient of the input is dy itself: no kernel.
constexpr PointwiseKernel kPassedOn{};

/// A row: name, formula, forward, and the gradient of each input. A kernel is its arithmetic, its operands
/// (in the order of the parameters) and its FLOPs for an element: kernel<Multiply, dy, b>(1).
constexpr PointwiseOperation kTable[] = {
    {"add", "y = a + b", kernel<Add, a, b>(1), {kPassedOn, kPassedOn}},
    {"multiply",
     "y = a b",
     kernel<Multiply, a, b>(1),
     {kernel<Multiply, dy, b>(1), kernel<Multiply, dy, a>(1)}},
    {"exp", "y = exp(a)", kernel<Exp, a>(1), {kernel<Multiply, dy, y>(1)}},
    {"scale", "y = alpha a", kernel<Multiply, a, alpha>(1), {kernel<Multiply, dy, alpha>(1)}},
};

}  // namespace

PointwiseTable pointwise_table() {
  return {kTable, sizeof(kTable) / sizeof(kTable[0])};
}

}  // namespace ringtape::RINGTAPE_TARGET
