#include "kernels/analysis/cases/case.h"
#include "kernels/bias.h"
#include "kernels/reduce.h"

namespace ringtape::analysed {
namespace {

constexpr DType kF32 = DType::f32;
constexpr std::int64_t kElements = 65536;
constexpr std::int64_t kColumns = 256;  // of the matrices

/// A sum over dimension 1 of [outer, n / outer / inner, inner].
Case sum_case(const std::string& name, const std::string& does, std::int64_t outer, std::int64_t inner) {
  return {name, does, kElements, kColumns, 4, [=](Setup& s, std::int64_t n) {
            const std::int64_t rows = outer == 0 ? n / kColumns : outer;
            const std::int64_t mid = n / rows / inner;
            s.launch = [=, x = s.floats("x", n), y = s.output("y", rows * inner)](const Stream& stream) {
              sum_dim(stream, kF32, x, rows, mid, inner, 1, kF32, y, false);
            };
          }};
}

}  // namespace

std::vector<Case> reduction_cases() {
  return {
      sum_case("sum", "the sum of all elements", 1, 1),
      sum_case("sum_rows", "the sum of each row of 256", 0, 1),
      sum_case("sum_columns", "the sum of each of 256 columns", 1, kColumns),
      {"broadcast", "every row of y = x [256]", kElements, kColumns, 4,
       [](Setup& s, std::int64_t n) {
         s.launch = [n, x = s.floats("x", kColumns), y = s.output("y", n)](const Stream& stream) {
           broadcast_dim(stream, kF32, x, 1, n / kColumns, kColumns, 1, y, false);
         };
       }},
      {"bias_add", "y [., 256] += bias", kElements, kColumns, 8,
       [](Setup& s, std::int64_t n) {
         s.launch = [n, bias = s.floats("bias", kColumns), y = s.floats("y", n)](const Stream& stream) {
           bias_add(stream, kF32, bias, y, n / kColumns, kColumns, kColumns);
         };
       }},
      {"bias_gradient", "sums of the columns of dy [., 256]", kElements, kColumns, 4,
       [](Setup& s, std::int64_t n) {
         s.launch = [n, dy = s.floats("dy", n), sums = s.output("sums", kColumns)](const Stream& stream) {
           column_sums(stream, kF32, dy, sums, n / kColumns, kColumns, n / kColumns, false);
         };
       }},
  };
}

}  // namespace ringtape::analysed
