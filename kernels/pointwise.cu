#include "kernels/pointwise_kernel.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

using enum Operand;

/// The gradient of the input is dy itself: no kernel.
constexpr PointwiseKernel kPassedOn{};

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
  __device__ static auto of(auto y, auto alpha, auto x) { return y + alpha * x; }
};

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

void scale(const Stream& stream, DType dtype, const void* x, void* y, std::int64_t n, double factor) {
  launch_pointwise<Multiply, a, alpha>(stream, dtype, {.a = x, .alpha = factor, .result = y}, n);
}

void add(const Stream& stream, DType dtype, const void* left, const void* right, void* y, std::int64_t n) {
  launch_pointwise<Add, a, b>(stream, dtype, {.a = left, .b = right, .result = y}, n);
}

void axpy(const Stream& stream, DType dtype, double factor, const void* x, void* y, std::int64_t n) {
  launch_pointwise<Axpy, a, alpha, b>(stream, dtype, {.a = y, .b = x, .alpha = factor, .result = y}, n);
}

}  // namespace ringtape::RINGTAPE_TARGET
