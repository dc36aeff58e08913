#include <fmt/format.h>

#include "autograd/creation.h"
#include "benchmarks/kernels/loops.h"
#include "benchmarks/kernels/rows.h"
#include "kernels/bias.h"
#include "kernels/reduce.h"

namespace ringtape::benchmarks {

void measure_reductions(Table& table, std::int64_t n) {
  const Stream stream = table.stream();
  constexpr std::int64_t kOne = 1, kColumns = 1024;
  const std::int64_t rows = n / kColumns;
  const Tensor x = randn({n}, DType::f32, table.device()), y = zeros({n}, DType::f32, table.device());
  const Tensor sum = zeros({}, DType::f32, table.device());
  const auto elements = static_cast<double>(n);
  const std::string matrix = fmt::format("{} x {} f32", rows, kColumns);
  table.measure(
      {"sum_dim, everything", fmt::format("{} f32", n), 4 * elements, elements,
       [&] { sum_dim(stream, DType::f32, x.raw(), kOne, n, kOne, 1.0, DType::f32, sum.raw(), false); },
       [&] { loop_sum(x.data<float>(), n, sum.data<float>()); }});
  table.measure(
      {"sum_dim, rows", matrix, 4 * elements, elements,
       [&] { sum_dim(stream, DType::f32, x.raw(), rows, kColumns, kOne, 1.0, DType::f32, y.raw(), false); }});
  table.measure(
      {"sum_dim, columns", matrix, 4 * elements, elements,
       [&] { sum_dim(stream, DType::f32, x.raw(), kOne, rows, kColumns, 1.0, DType::f32, y.raw(), false); }});
  table.measure({"broadcast_dim, along rows", matrix, 4 * elements, elements, [&] {
                   broadcast_dim(stream, DType::f32, x.raw(), rows, kColumns, kOne, 1.0, y.raw(), false);
                 }});
}

void measure_biases(Table& table, std::int64_t rows, std::int64_t columns) {
  const Stream stream = table.stream();
  const Tensor y = randn({rows, columns}, DType::f32, table.device());
  const Tensor bias = randn({columns}, DType::f32, table.device(), 0, 1e-6);
  const double elements = static_cast<double>(rows) * static_cast<double>(columns);
  const std::string size = fmt::format("{} x {} f32", rows, columns);
  table.measure({"bias_add", size, 8 * elements, elements,
                 [&] { bias_add(stream, DType::f32, bias.raw(), y.raw(), rows, columns, columns); }});
  const Tensor gradient = zeros({columns}, DType::f32, table.device());
  table.measure({"bias_gradient", size, 4 * elements, elements,
                 [&] { bias_gradient(stream, DType::f32, y.raw(), gradient.raw(), rows, columns, false); }});
}

}  // namespace ringtape::benchmarks
