// The kernels for large products, called directly: on a CPU they run only here and where it has a GPU's
// geometry.
#include <limits>
#include <vector>

#include "core/ceil_div.h"
#include "kernels/gemm_tiled.h"
#include "tests/support/kernel_test.h"

namespace ringtape::test {
namespace {

struct Shape {
  std::int64_t m, n, k;
  std::int64_t padding = 0;  // elements from the end of a row to the next
};
struct Scales {
  double alpha = 1, beta = 0;
  bool with_bias = false;
};

/// A stored matrix with NaN between its rows and, for 16-bit types, up to a multiple of eight elements in a
/// row: whatever a kernel reads from there spoils its result.
template <class T>
struct Matrix {
  Matrix(std::int64_t rows, std::int64_t columns, std::int64_t padding, std::uint64_t seed)
      : ld(columns + padding) {
    if (sizeof(T) == 2) ld = round_up(ld, 8);
    values = random_values<T>(rows * ld, seed);
    for (std::int64_t i = 0; i < rows * ld; ++i) {
      if (i % ld >= columns) values[i] = from_double<T>(std::numeric_limits<double>::quiet_NaN());
    }
  }
  double at(std::int64_t row, std::int64_t column) const { return to_double(values[row * ld + column]); }
  std::int64_t ld;
  std::vector<T> values;
};

/// The largest error of alpha op(A) op(B) + beta C + bias, as a multiple of the bound for sums of k products
/// in any order, (k + 4) u of the sum of the magnitudes, and one rounding of the result. u is 2^-24; tensor
/// cores cut digits off where others round (Fasi and others 2021, "Numerical behavior of NVIDIA tensor
/// cores"), so it is twice that for them.
template <class T, class Out>
double error_of(const Stream& stream, const Shape& shape, bool transpose_a, bool transpose_b,
                const Scales& scales) {
  const auto [m, n, k, padding] = shape;
  const Matrix<T> a(transpose_a ? k : m, transpose_a ? m : k, padding, 1);
  const Matrix<T> b(transpose_b ? n : k, transpose_b ? k : n, padding, 2);
  const Matrix<Out> before(m, n, padding, 3);
  const auto bias = random_values<Out>(n, 4);
  const Device device = stream.device();
  const DeviceArray<T> a_array(device, a.values), b_array(device, b.values);
  const DeviceArray<Out> c_array(device, before.values), bias_array(device, bias);
  GemmArgs args;
  args.m = m;
  args.n = n;
  args.k = k;
  args.a = a_array.data();
  args.b = b_array.data();
  args.c = c_array.data();
  args.lda = a.ld;
  args.ldb = b.ld;
  args.ldc = before.ld;
  args.transpose_a = transpose_a;
  args.transpose_b = transpose_b;
  args.alpha = scales.alpha;
  args.beta = scales.beta;
  args.bias = scales.with_bias ? bias_array.data() : nullptr;
  args.dtype = dtype_of<T>;
  args.out_dtype = dtype_of<Out>;
  sizeof(T) == 4 ? gemm_large_f32(stream, args) : gemm_large_half(stream, args);

  const std::vector<double> result = c_array.doubles();
  const double u = sizeof(T) == 4 ? 0x1p-24 : 0x1p-23;
  double worst = 0;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < before.ld; ++j) {
      const double got = result[i * before.ld + j];
      if (j >= n) {  // stays as it was
        if (!std::isnan(got)) return INFINITY;
        continue;
      }
      double sum = 0, magnitude = 0;
      for (std::int64_t p = 0; p < k; ++p) {
        const double product =
            (transpose_a ? a.at(p, i) : a.at(i, p)) * (transpose_b ? b.at(j, p) : b.at(p, j));
        sum += product;
        magnitude += std::abs(product);
      }
      const double old = scales.beta == 0 ? 0 : scales.beta * before.at(i, j);
      const double added = scales.with_bias ? to_double(bias[j]) : 0;
      const double expected = scales.alpha * sum + old + added;
      const double bound = static_cast<double>(k + 4) * u *
                           (std::abs(scales.alpha) * magnitude + std::abs(old) + std::abs(added));
      const double error =
          std::abs(got - expected) / (bound + rounding<Out>() * (std::abs(expected) + bound));
      if (!(error <= worst)) worst = std::isnan(error) ? INFINITY : error;
    }
  }
  return worst;
}

template <class T, class Out>
void check_layouts(const Stream& stream, const Shape& shape, const Scales& scales = {}) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      INFO("m " << shape.m << " n " << shape.n << " k " << shape.k << " padding " << shape.padding << " ta "
                << transpose_a << " tb " << transpose_b << " alpha " << scales.alpha << " beta "
                << scales.beta << " bias " << scales.with_bias << " " << name_of(dtype_of<T>) << " to "
                << name_of(dtype_of<Out>));
      CHECK(error_of<T, Out>(stream, shape, transpose_a, transpose_b, scales) <= 1);
    }
  }
}

template <class Body>
void on_cpu_and_gpu(const Body& body) {
  body(Stream::current({}));
  if (cuda_device_count() > 0) body(Stream::current({DeviceType::cuda, 0}));
}

}  // namespace

TEST_CASE("gemm: the kernels for large products at the edges of their tiles and steps", "[gemm]") {
  const Shape shapes[] = {{1, 1, 1},       {127, 129, 7},      {128, 128, 8},   {128, 128, 32},
                          {129, 127, 33},  {256, 128, 64},     {128, 256, 100}, {130, 1, 95, 8},
                          {3, 140, 41, 3}, {128, 128, 129, 24}};
  on_cpu_and_gpu([&](const Stream& stream) {
    for (const Shape& shape : shapes) {
      check_layouts<float, float>(stream, shape);
      check_layouts<bfloat16, bfloat16>(stream, shape);
      check_layouts<float16, float>(stream, shape);
    }
  });
}

TEST_CASE("gemm: the kernels for large products with alpha, beta and bias", "[gemm]") {
  on_cpu_and_gpu([&](const Stream& stream) {
    for (const Shape& shape : {Shape{128, 128, 16}, Shape{70, 150, 24, 5}}) {
      for (const Scales& scales : {Scales{-0.5, 0, false}, Scales{1, 1, false}, Scales{2, 0.25, true}}) {
        check_layouts<float, float>(stream, shape, scales);
        check_layouts<bfloat16, float>(stream, shape, scales);
        check_layouts<float16, float16>(stream, shape, scales);
      }
    }
  });
}

TEST_CASE("gemm: the kernels for large products in every order of the threads", "[gemm]") {
  on_every_device([](Device, const Stream& stream) {
    // Ten steps and five: every place for a step's tiles is filled several times.
    check_layouts<float, float>(stream, {129, 128, 80});
    check_layouts<bfloat16, float>(stream, {128, 100, 160});
  });
}

}  // namespace ringtape::test
