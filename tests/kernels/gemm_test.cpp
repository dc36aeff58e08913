#include "kernels/gemm.h"

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/check_build.h"
#include "tests/support/gpu.h"
#include "tests/support/kernel_test.h"
#include "tests/support/tensors.h"
#include "tests/support/thread_orders.h"

namespace ringtape::test {
namespace {

struct Case {
  std::int64_t m, n, k;
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1;
  double beta = 0;
  bool with_bias = false;
  DType dtype = DType::f32;
  DType out_dtype = DType::f32;
  std::int64_t padding = 0;  // elements between the end of a row and the next
  bool with_sums = false;    // of A, over k
};

/// A stored matrix: its values as rounded to the dtype, with the row length including the padding.
struct Matrix {
  std::int64_t rows, columns, ld;
  Tensor tensor;
  std::vector<double> values;
  double at(std::int64_t row, std::int64_t column) const { return values[row * ld + column]; }
};

Matrix random_matrix(std::int64_t rows, std::int64_t columns, std::int64_t padding, DType dtype,
                     Device device, std::mt19937& engine) {
  const std::int64_t ld = columns + padding;
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> values(static_cast<std::size_t>(rows * ld));
  for (double& value : values) value = uniform(engine);
  const Tensor tensor = tensor_of(values, {rows * ld}, dtype, device);
  return {rows, columns, ld, tensor, tensor.to_doubles()};
}

/// Runs the case and compares every element with a double-precision sum. The bound is the textbook one for a
/// sum of k products in any order, (k + 4) u (|alpha| sum |a b| + |beta c| + |bias|), plus one rounding of
/// the result.
void check_gemm(const Case& c, Device device = {}) {
  INFO("m " << c.m << " n " << c.n << " k " << c.k << " ta " << c.transpose_a << " tb " << c.transpose_b
            << " alpha " << c.alpha << " beta " << c.beta << " bias " << c.with_bias << " "
            << name_of(c.dtype) << " to " << name_of(c.out_dtype) << " padding " << c.padding << " on "
            << to_string(device));
  std::mt19937 engine(static_cast<unsigned>(c.m * 73 + c.n * 31 + c.k));
  const Matrix a = c.transpose_a ? random_matrix(c.k, c.m, c.padding, c.dtype, device, engine)
                                 : random_matrix(c.m, c.k, c.padding, c.dtype, device, engine);
  const Matrix b = c.transpose_b ? random_matrix(c.n, c.k, c.padding, c.dtype, device, engine)
                                 : random_matrix(c.k, c.n, c.padding, c.dtype, device, engine);
  const Matrix bias = random_matrix(1, c.n, 0, c.out_dtype, device, engine);
  Matrix out = random_matrix(c.m, c.n, c.padding, c.out_dtype, device, engine);
  if (c.beta == 0) {  // the old C must not matter then
    std::vector<double> with_nan = out.values;
    for (std::int64_t i = 0; i < c.m; ++i) {
      for (std::int64_t j = 0; j < c.n; ++j) {
        with_nan[i * out.ld + j] = std::numeric_limits<double>::quiet_NaN();
      }
    }
    out.tensor = tensor_of(with_nan, out.tensor.shape(), c.out_dtype, device);
  }

  GemmArgs args;
  args.m = c.m;
  args.n = c.n;
  args.k = c.k;
  args.a = a.tensor.raw();
  args.b = b.tensor.raw();
  args.c = out.tensor.raw();
  args.transpose_a = c.transpose_a;
  args.transpose_b = c.transpose_b;
  args.lda = c.padding == 0 ? 0 : a.ld;
  args.ldb = c.padding == 0 ? 0 : b.ld;
  args.ldc = c.padding == 0 ? 0 : out.ld;
  args.dtype = c.dtype;
  args.out_dtype = c.out_dtype;
  args.alpha = c.alpha;
  args.beta = c.beta;
  args.bias = c.with_bias ? bias.tensor.raw() : nullptr;
  const Tensor sums = full({c.m}, std::numeric_limits<double>::quiet_NaN(), c.out_dtype, device);
  if (c.with_sums) args.a_sums = sums.raw();
  gemm(Stream::current(device), args);

  const std::vector<double> result = out.tensor.to_doubles();
  const double u = rounding_of(c.dtype == DType::f64 ? DType::f64 : DType::f32);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < c.m; ++i) {
    for (std::int64_t j = 0; j < out.ld; ++j) {
      const double got = result[i * out.ld + j];
      if (j >= c.n) {  // padding stays as it was
        wrong += got != out.at(i, j);
        continue;
      }
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t p = 0; p < c.k; ++p) {
        const double product =
            (c.transpose_a ? a.at(p, i) : a.at(i, p)) * (c.transpose_b ? b.at(j, p) : b.at(p, j));
        sum += product;
        magnitude += std::abs(product);
      }
      double expected = c.alpha * sum;
      magnitude *= std::abs(c.alpha);
      if (c.beta != 0) {
        expected += c.beta * out.at(i, j);
        magnitude += std::abs(c.beta * out.at(i, j));
      }
      if (c.with_bias) {
        expected += bias.at(0, j);
        magnitude += std::abs(bias.at(0, j));
      }
      const double bound = static_cast<double>(c.k + 4) * u * magnitude;
      const double rounding = rounding_of(c.out_dtype) * (std::abs(expected) + bound);
      const bool right = std::abs(got - expected) <= bound + rounding;  // false for NaN
      if (!right && wrong++ == 0)
        UNSCOPED_INFO("[" << i << ", " << j << "]: " << got << ", expected " << expected);
    }
  }
  REQUIRE(wrong == 0);
  if (!c.with_sums) return;
  const std::vector<double> found = sums.to_doubles();
  for (std::int64_t i = 0; i < c.m; ++i) {
    double sum = 0, magnitude = 0;
    for (std::int64_t p = 0; p < c.k; ++p) {
      sum += c.transpose_a ? a.at(p, i) : a.at(i, p);
      magnitude += std::abs(c.transpose_a ? a.at(p, i) : a.at(i, p));
    }
    const double bound = static_cast<double>(c.k) * u * magnitude;
    REQUIRE(std::abs(found[i] - sum) <= bound + rounding_of(c.out_dtype) * (std::abs(sum) + bound));
  }
}

/// Selects a backend until the end of the scope.
class BackendScope {
 public:
  BackendScope(GemmBackend backend, Device device) : device_(device), previous_(gemm_backend(device)) {
    set_gemm_backend(backend, device);
  }
  ~BackendScope() { set_gemm_backend(previous_, device_); }
  BackendScope(const BackendScope&) = delete;
  BackendScope& operator=(const BackendScope&) = delete;

 private:
  Device device_;
  GemmBackend previous_;
};

/// Calls `body(device)` with each backend of each device.
template <class Body>
void for_each_backend(const Body& body) {
  std::vector<Device> devices{{}};
  if (cuda_device_count() > 0) devices.push_back({DeviceType::cuda, 0});
  for (const Device device : devices) {
    for (const GemmBackend backend : {GemmBackend::own, GemmBackend::vendor}) {
      if (backend == GemmBackend::vendor && vendor_gemm_name(device) == "none") continue;
      INFO((backend == GemmBackend::own ? "own" : vendor_gemm_name(device)));
      const BackendScope scope(backend, device);
      body(device);
    }
  }
}

}  // namespace

TEST_CASE("gemm: every transpose and odd size against double precision", "[gemm]") {
  for_each_backend([](Device device) {
    for (const std::int64_t m : {0, 1, 31, 33, 257}) {
      for (const std::int64_t n : {0, 1, 31, 33, 257}) {
        for (const std::int64_t k : {0, 1, 31, 33, 257}) {
          for (const bool transpose_a : {false, true}) {
            for (const bool transpose_b : {false, true}) {
              check_gemm({.m = m, .n = n, .k = k, .transpose_a = transpose_a, .transpose_b = transpose_b},
                         device);
            }
          }
        }
      }
    }
  });
}

TEST_CASE("gemm: alpha, beta, bias and leading dimensions", "[gemm]") {
  for_each_backend([](Device device) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        for (const double alpha : {1.0, 0.0, -0.5}) {
          for (const double beta : {0.0, 1.0, 0.25}) {
            for (const bool with_bias : {false, true}) {
              for (const std::int64_t padding : {0, 3, 8}) {
                for (const std::int64_t k : {0, 70}) {
                  check_gemm({.m = 33,
                              .n = 65,
                              .k = k,
                              .transpose_a = transpose_a,
                              .transpose_b = transpose_b,
                              .alpha = alpha,
                              .beta = beta,
                              .with_bias = with_bias,
                              .padding = padding},
                             device);
                }
              }
            }
          }
        }
      }
    }
  });
}

TEST_CASE("gemm: the sums of A over k with the product", "[gemm]") {
  for_each_backend([](Device device) {
    for (const bool transpose_a : {false, true}) {
      for (const std::int64_t size : {0, 1, 33, 130}) {
        for (const double beta : {0.0, 1.0}) {
          for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
            check_gemm({.m = size + 2,
                        .n = size + 1,
                        .k = size,
                        .transpose_a = transpose_a,
                        .alpha = beta == 0 ? 1 : -0.5,
                        .beta = beta,
                        .with_bias = size == 33,
                        .dtype = dtype,
                        .with_sums = true},
                       device);
            check_gemm({.m = size,
                        .n = 3,
                        .k = 70,
                        .beta = beta,
                        .dtype = dtype,
                        .out_dtype = dtype,
                        .with_sums = true},
                       device);
          }
        }
      }
    }
  });
}

TEST_CASE("gemm: bf16, f16 and f64", "[gemm]") {
  struct Pair {
    DType dtype, out_dtype;
  };
  for_each_backend([](Device device) {
    for (const Pair pair :
         {Pair{DType::bf16, DType::f32}, Pair{DType::bf16, DType::bf16}, Pair{DType::f16, DType::f32},
          Pair{DType::f16, DType::f16}, Pair{DType::f64, DType::f64}}) {
      if (pair.dtype == DType::f64 && device.is_cuda()) continue;
      for (const bool transpose_a : {false, true}) {
        for (const bool transpose_b : {false, true}) {
          for (const std::int64_t size : {1, 8, 33, 130}) {
            check_gemm({.m = size,
                        .n = size + 1,
                        .k = size + 7,
                        .transpose_a = transpose_a,
                        .transpose_b = transpose_b,
                        .dtype = pair.dtype,
                        .out_dtype = pair.out_dtype},
                       device);
            for (const double alpha : {1.0, -0.5}) {
              check_gemm({.m = size,
                          .n = size + 1,
                          .k = size + 7,
                          .transpose_a = transpose_a,
                          .transpose_b = transpose_b,
                          .alpha = alpha,
                          .beta = 0.75,
                          .with_bias = true,
                          .dtype = pair.dtype,
                          .out_dtype = pair.out_dtype,
                          .padding = 8},
                         device);
            }
          }
        }
      }
    }
  });
}

TEST_CASE("gemm: a 16-bit result with a bias is rounded once", "[gemm]") {
  for_each_backend([](Device device) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      for (const bool transpose_b : {false, true}) {
        for (const auto& [m, n, k] :
             {std::array{16, 8, 8}, std::array{33, 34, 41}, std::array{64, 72, 136}}) {
          for (const double beta : {0.0, 0.75}) {
            check_gemm({.m = m,
                        .n = n,
                        .k = k,
                        .transpose_b = transpose_b,
                        .beta = beta,
                        .with_bias = true,
                        .dtype = dtype,
                        .out_dtype = dtype},
                       device);
          }
        }
      }
    }
  });
}

TEST_CASE("gemm: one row by a transposed matrix", "[gemm][matvec]") {
  for_each_backend([](Device device) {
    for_each_thread_order([&] {
      for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
        if (dtype == DType::f64 && device.is_cuda()) continue;
        for (const DType out_dtype : {dtype, DType::f32}) {
          if (dtype == DType::f64 && out_dtype != dtype) continue;
          // With and without vectors left over, and longer than what a block's threads keep.
          for (const std::int64_t k : {1, 64, 768, 771, 9000}) {
            for (const std::int64_t n : {1, 37}) {
              const Case plain{
                  .m = 1, .n = n, .k = k, .transpose_b = true, .dtype = dtype, .out_dtype = out_dtype};
              Case full = plain;
              full.alpha = -0.5;
              full.beta = 0.75;
              full.with_bias = true;
              full.padding = 3;
              check_gemm(plain, device);
              check_gemm(full, device);
            }
          }
        }
      }
    });
  });
}

TEST_CASE("gemm: more tiles along a side than a grid has blocks in y", "[gemm]") {
  constexpr std::int64_t kMany = 65536 * 32 + 1;  // a tile has at least 32 rows on a GPU, and 32 columns
  for_each_backend([](Device device) {
    if (!kCheckBuild) check_gemm({.m = 1, .n = kMany, .k = 2}, device);
    check_gemm({.m = kMany, .n = 1, .k = 2}, device);
  });
}

TEST_CASE("gemm: the three products of a linear layer", "[gemm]") {
  for_each_backend([](Device device) {
    const std::int64_t rows = 64;
    for (const auto& [in, out] : {std::pair{784, 256}, std::pair{256, 10}}) {
      check_gemm({.m = rows, .n = out, .k = in, .transpose_b = true, .with_bias = true}, device);
      check_gemm({.m = rows, .n = in, .k = out}, device);
      check_gemm({.m = out, .n = in, .k = rows, .transpose_a = true, .beta = 1}, device);
    }
  });
}

TEST_CASE("gemm: NaN stays NaN through ReLU, with and without a bias", "[gemm]") {
  for_each_backend([](Device device) {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Tensor a = tensor_of({kNan, 1, -1, 1, 1, 1}, {3, 2}, dtype, device);
      const Tensor b = tensor_of({1, 0, 0, 1}, {2, 2}, dtype, device);
      const Tensor bias = tensor_of({0, -2}, {2}, dtype, device);
      for (const bool with_bias : {false, true}) {
        const Tensor c = full({3, 2}, 7, dtype, device);
        GemmArgs args;
        args.m = 3;
        args.n = args.k = 2;
        args.a = a.raw();
        args.b = b.raw();
        args.c = c.raw();
        args.dtype = args.out_dtype = dtype;
        args.bias = with_bias ? bias.raw() : nullptr;
        args.relu = true;
        gemm(Stream::current(device), args);
        const std::vector<double> found = c.to_doubles();
        CHECK(std::isnan(found[0]));
        CHECK(std::isnan(found[1]));  // NaN times 0
        const double last = with_bias ? 0 : 1;
        CHECK(std::vector<double>(found.begin() + 2, found.end()) == std::vector<double>{0, last, 1, last});
      }
    }
  });
}

namespace {

/// The own kernel's result for op(A) [m, 200] by op(B) [200, n], the same inputs on every device.
std::vector<double> own_product(std::int64_t m, std::int64_t n, bool transpose_a, bool transpose_b,
                                Device device) {
  const BackendScope scope(GemmBackend::own, device);
  const std::int64_t k = 200;
  std::mt19937 engine(7);
  const Matrix a = random_matrix(m, k, 0, DType::f32, device, engine);
  const Matrix b = random_matrix(k, n, 0, DType::f32, device, engine);
  const Tensor c = empty({m, n}, DType::f32, device);
  GemmArgs args;
  args.m = m;
  args.n = n;
  args.k = k;
  args.a = a.tensor.raw();
  args.b = b.tensor.raw();
  args.c = c.raw();
  args.transpose_a = transpose_a;
  args.transpose_b = transpose_b;
  gemm(Stream::current(device), args);
  return c.to_doubles();
}

struct Product {
  std::int64_t m, n;
  bool transpose_a, transpose_b;
};
// The first two take the small tile, the others the large one.
const std::vector<Product> kProducts{
    {64, 10, false, true}, {10, 256, true, false}, {300, 170, false, true}, {300, 170, true, false}};

}  // namespace

TEST_CASE("gemm: own kernel gives the same bits in every order of the threads", "[gemm]") {
  for (const Product& p : kProducts) {
    const std::vector<double> expected = own_product(p.m, p.n, p.transpose_a, p.transpose_b, {});
    for_each_thread_order(
        [&] { CHECK(own_product(p.m, p.n, p.transpose_a, p.transpose_b, {}) == expected); });
  }
}

GPU_TEST_CASE("gemm: own kernel gives the same bits on the CPU and the GPU", "[gemm]") {
  for (const Product& p : kProducts) {
    CHECK(own_product(p.m, p.n, p.transpose_a, p.transpose_b, {DeviceType::cuda, 0}) ==
          own_product(p.m, p.n, p.transpose_a, p.transpose_b, {}));
  }
}

TEST_CASE("gemm: arguments that are refused", "[gemm]") {
  std::vector<float> memory(64);
  GemmArgs good;
  good.m = 2;
  good.n = 3;
  good.k = 4;
  good.a = memory.data();
  good.b = memory.data();
  good.c = memory.data() + 32;
  const Stream stream = Stream::current({});
  gemm(stream, good);

  GemmArgs args = good;
  args.k = -1;
  CHECK_THROWS_WITH(gemm(stream, args), ContainsSubstring("negative"));
  args = good;
  args.lda = 3;
  CHECK_THROWS_WITH(gemm(stream, args), ContainsSubstring("lda is 3, but a row has 4 elements"));
  args = good;
  args.transpose_b = true;
  args.ldb = 3;
  CHECK_THROWS_WITH(gemm(stream, args), ContainsSubstring("ldb is 3, but a row has 4 elements"));
  args = good;
  args.ldc = 2;
  CHECK_THROWS_WITH(gemm(stream, args), ContainsSubstring("ldc is 2, but a row has 3 elements"));
  args = good;
  args.lda = 5;
  args.a_sums = memory.data() + 60;
  CHECK_THROWS_WITH(gemm(stream, args),
                    ContainsSubstring("sums of A with lda 5, but a row has 4 elements: expected no gaps"));
  args = good;
  args.dtype = DType::i32;
  CHECK_THROWS_WITH(gemm(stream, args), ContainsSubstring("expected f32, bf16, f16"));
  args = good;
  args.out_dtype = DType::bf16;
  CHECK_THROWS_WITH(gemm(stream, args), ContainsSubstring("expected a result of the inputs' dtype"));

  const Device device;
  if (vendor_gemm_name(device) == "none") {
    CHECK(gemm_backend(device) == GemmBackend::own);
    CHECK_THROWS_WITH(set_gemm_backend(GemmBackend::vendor, device),
                      ContainsSubstring("built without oneDNN"));
  } else {
    CHECK(gemm_backend(device) == GemmBackend::vendor);
  }
}

}  // namespace ringtape::test
