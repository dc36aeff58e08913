#include "benchmarks/kernels/case.h"
#include "benchmarks/kernels/loops.h"
#include "kernels/bias.h"
#include "kernels/reduce.h"

namespace ringtape::kernel_cases {
namespace {

constexpr DType kF32 = DType::f32;
constexpr std::int64_t kColumns = 256;  // of the matrices in `lens`

/// A sum over dimension 1 of [outer, mid, inner].
struct Extents {
  std::int64_t outer, mid, inner;
};

Case sum_case(const std::string& name, const std::string& does, const std::string& row, Measured measured,
              Extents (*extents_of)(const Size& size)) {
  return {.name = name,
          .does = does,
          .bytes = 4,
          .flops = 1,
          .prepare =
              [=](Setup& s, const Size& size) {
                const auto [outer, mid, inner] = extents_of(size);
                const float* x = s.floats("x", size.elements());
                float* y = s.output("y", outer * inner);
                s.launch = [=, o = outer, m = mid, i = inner](const Stream& stream) {
                  sum_dim(stream, kF32, x, o, m, i, 1.0, kF32, y, false);
                };
                if (outer * inner == 1) s.loop = [=, n = size.elements()] { loop_sum(x, n, y); };
              },
          .measured = measured,
          .row = row,
          .columns = kColumns};
}

/// y = x, broadcast along the rows or along the columns.
Case broadcast_case(const std::string& name, const std::string& does, Measured measured, bool along_rows) {
  return {.name = name,
          .does = does,
          .bytes = 4,
          .flops = 1,
          .prepare =
              [=](Setup& s, const Size& size) {
                const std::int64_t outer = along_rows ? size.rows : 1;
                const std::int64_t inner = along_rows ? 1 : size.columns;
                s.launch = [=, mid = size.elements() / outer / inner, x = s.floats("x", outer * inner),
                            y = s.output("y", size.elements())](const Stream& stream) {
                  broadcast_dim(stream, kF32, x, outer, mid, inner, 1.0, y, false);
                };
              },
          .measured = measured,
          .columns = kColumns};
}

}  // namespace

std::vector<Case> reduction_cases() {
  return {
      sum_case("sum", "the sum of all elements", "sum_dim, everything", Measured::elements,
               [](const Size& size) {
                 return Extents{1, size.elements(), 1};
               }),
      sum_case("sum_rows", "the sum of each row of 256", "sum_dim, rows", Measured::matrix,
               [](const Size& size) {
                 return Extents{size.rows, size.columns, 1};
               }),
      sum_case("sum_columns", "the sum of each of 256 columns", "sum_dim, columns", Measured::matrix,
               [](const Size& size) {
                 return Extents{1, size.rows, size.columns};
               }),
      broadcast_case("broadcast_dim, along rows", "", Measured::matrix, true),
      broadcast_case("broadcast", "every row of y = x [256]", Measured::no, false),
      {.name = "bias_add",
       .does = "y [., 256] += bias",
       .bytes = 8,
       .flops = 1,
       .prepare =
           [](Setup& s, const Size& size) {
             s.launch = [=, bias = s.floats("bias", size.columns),
                         y = s.floats("y", size.elements())](const Stream& stream) {
               bias_add(stream, kF32, bias, y, size.rows, size.columns, size.columns);
             };
           },
       .measured = Measured::biases,
       .columns = kColumns},
      {.name = "bias_gradient",
       .does = "sums of the columns of dy [., 256]",
       .bytes = 4,
       .flops = 1,
       .prepare =
           [](Setup& s, const Size& size) {
             s.launch = [=, dy = s.floats("dy", size.elements()),
                         sums = s.output("sums", size.columns)](const Stream& stream) {
               sum_dim(stream, kF32, dy, std::int64_t{1}, size.rows, size.columns, 1.0, kF32, sums, false);
             };
           },
       .measured = Measured::biases,
       .columns = kColumns},
  };
}

}  // namespace ringtape::kernel_cases
