#include "kernels/common/math.h"
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

/// 1 / (1 + e^-x), and 0 shortly before e^-x overflows.
template <class A>
__device__ A sigmoid(A x) {
  const A most = sizeof(A) == 8 ? 700 : 88;
  const A result = 1 / (1 + softmax_exp(minimum(-x, most)));
  return -x > most ? A{0} : result;
}

struct Silu {
  __device__ static auto of(auto x) { return x * sigmoid(x); }
};

/// dy times the derivative of x sigmoid(x).
struct SiluGradient {
  __device__ static auto of(auto dy, auto x) {
    const auto s = sigmoid(x);
    return dy * (s + x * s * (1 - s));
  }
};

struct Swiglu {
  __device__ static auto of(auto gate, auto up) { return Silu::of(gate) * up; }
};

struct SwigluGateGradient {
  __device__ static auto of(auto dy, auto gate, auto up) { return SiluGradient::of(dy * up, gate); }
};

struct SwigluUpGradient {
  __device__ static auto of(auto dy, auto gate) { return dy * Silu::of(gate); }
};

/// x times the normal distribution's Phi(x), by erfc: 1 + erf(x / sqrt(2)) would cancel for a negative x.
struct Gelu {
  __device__ static auto of(auto x) {
    using A = decltype(x);
    return A(0.5) * x * ::erfc(A(-0.70710678118654752) * x);
  }
};

struct GeluGradient {
  __device__ static auto of(auto dy, auto x) {
    using A = decltype(x);
    const A density = A(0.39894228040143268) * ::exp(A(-0.5) * x * x);
    return dy * (A(0.5) * ::erfc(A(-0.70710678118654752) * x) + x * density);
  }
};

/// The argument of the sigmoid in gelu_tanh: 2 sqrt(2 / pi) (x + 0.044715 x^3), as (1 + tanh(u)) / 2 is the
/// sigmoid of 2 u.
template <class A>
__device__ A gelu_argument(A x) {
  return A(1.5957691216057308) * x * (1 + A(0.044715) * x * x);
}

struct GeluTanh {
  __device__ static auto of(auto x) { return x * sigmoid(gelu_argument(x)); }
};

struct GeluTanhGradient {
  __device__ static auto of(auto dy, auto x) {
    using A = decltype(x);
    const A s = sigmoid(gelu_argument(x));
    const A slope = A(1.5957691216057308) * (1 + A(3 * 0.044715) * x * x);
    const A curvature = s * (1 - s);
    return dy * (curvature == 0 ? s : s + x * curvature * slope);  // the slope may be infinite
  }
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
    {"gelu", "y = a Phi(a)", kernel<Gelu, a>(4), {kernel<GeluGradient, dy, a>(10)}},
    {"gelu_tanh",
     "y = a (1 + tanh(sqrt(2 / pi) (a + 0.044715 a^3))) / 2",
     kernel<GeluTanh, a>(10),
     {kernel<GeluTanhGradient, dy, a>(18)}},
    {"silu", "y = a / (1 + exp(-a))", kernel<Silu, a>(5), {kernel<SiluGradient, dy, a>(9)}},
    {"swiglu",
     "y = silu(a) b",
     kernel<Swiglu, a, b>(6),
     {kernel<SwigluGateGradient, dy, a, b>(10), kernel<SwigluUpGradient, dy, a>(6)}},
    {"scale", "y = alpha a", kernel<Multiply, a, alpha>(1), {kernel<Multiply, dy, alpha>(1)}},
};

}  // namespace

PointwiseTable pointwise_table() {
  return {kTable, sizeof(kTable) / sizeof(kTable[0])};
}

}  // namespace ringtape::RINGTAPE_TARGET
