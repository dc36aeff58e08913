#include <fmt/format.h>

#include "autograd/creation.h"
#include "autograd/ops.h"
#include "benchmarks/kernels/loops.h"
#include "benchmarks/kernels/rows.h"
#include "kernels/compress.h"
#include "kernels/copy_rows.h"
#include "kernels/elementwise.h"
#include "kernels/pointwise_table.h"
#include "kernels/random.h"
#include "kernels/relu.h"

namespace ringtape::benchmarks {
namespace {

void measure_casts(Table& table, const Tensor& values) {
  const std::int64_t n = values.elements();
  const auto elements = static_cast<double>(n);
  struct Cast {
    const char* name;
    DType from, to;
  };
  for (const Cast& way :
       {Cast{"cast f32 to bf16", DType::f32, DType::bf16}, Cast{"cast f32 to f16", DType::f32, DType::f16},
        Cast{"cast bf16 to f32", DType::bf16, DType::f32}, Cast{"cast f16 to f32", DType::f16, DType::f32}}) {
    const Tensor x = to(values, way.from), y = empty({n}, way.to, table.device());
    table.measure({way.name, fmt::format("{}", n), 6 * elements, elements,
                   [&] { cast(table.stream(), way.from, x.raw(), way.to, y.raw(), n, false); }});
  }
}

/// Half of the columns of a matrix of 1024, cut out, and pixels made to inputs.
void measure_inputs(Table& table, const Tensor& matrix, const Tensor& y) {
  const Stream stream = table.stream();
  const std::int64_t n = y.elements(), columns = 512, rows = n / 1024;
  const auto cut = static_cast<double>(rows * columns), elements = static_cast<double>(n);
  table.measure({"copy_rows, 512 of 1024 columns", fmt::format("{} rows f32", rows), 8 * cut, 0, [&] {
                   copy_rows(stream, DType::f32, matrix.raw(), 2 * columns, y.raw(), columns, rows, columns,
                             false);
                 }});
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 2654435761U >> 13);
  const Tensor pixels = from_vector(bytes, {n}, table.device());
  table.measure({"normalize_u8", fmt::format("{}", n), 5 * elements, 2 * elements, [&] {
                   normalize_u8(stream, pixels.data<std::uint8_t>(), DType::f32, y.raw(), n, 0.13, 0.31);
                 }});
}

}  // namespace

void measure_elementwise(Table& table, std::int64_t n) {
  const Stream stream = table.stream();
  const Tensor a = randn({n}, DType::f32, table.device()), b = randn({n}, DType::f32, table.device());
  const Tensor y = zeros({n}, DType::f32, table.device()),
               factor = full({}, 0.9999999, DType::f32, table.device());
  const auto elements = static_cast<double>(n);
  const double bytes = 4 * elements;
  const std::string size = fmt::format("{} f32", n);
  table.measure({"fill", size, bytes, 0, [&] { fill(stream, DType::f32, y.raw(), n, 1.0); }});
  table.measure(
      {"arange", size, bytes, 2 * elements, [&] { arange(stream, DType::f32, y.raw(), n, 0.0, 0.5); }});
  table.measure({"scale_by_device", size, 2 * bytes, elements,
                 [&] { scale_by_device(stream, DType::f32, y.raw(), n, factor.data<float>()); }});
  table.measure(
      {"axpy", size, 3 * bytes, 2 * elements, [&] { axpy(stream, DType::f32, 1e-6, a.raw(), y.raw(), n); }});
  table.measure({"relu_forward", size, 2 * bytes, elements,
                 [&] { relu_forward(stream, DType::f32, a.raw(), y.raw(), n); },
                 [&] { loop_relu(a.data<float>(), y.data<float>(), n); }});
  table.measure({"relu_backward", size, 3 * bytes, elements,
                 [&] { relu_backward(stream, DType::f32, a.raw(), b.raw(), y.raw(), n, false); }});
  for (const NamedPointwiseKernel& row : kernels_of(pointwise_table(table.device()))) {
    const PointwiseArguments arguments{
        .a = a.raw(), .b = b.raw(), .y = a.raw(), .dy = b.raw(), .alpha = 0.5, .result = y.raw()};
    table.measure({row.name.c_str(), size, arrays_of(row.kernel) * bytes, row.kernel.flops * elements,
                   [&] { row.kernel.launch(stream, DType::f32, arguments, n); }});
  }
  measure_casts(table, a);
  measure_inputs(table, a, y);
}

void measure_random(Table& table, std::int64_t n) {
  const Stream stream = table.stream();
  const Tensor y = empty({n}, DType::f32, table.device());
  const auto elements = static_cast<double>(n);
  const std::string size = fmt::format("{} f32", n);
  const std::uint64_t seed = 1, offset = 0;
  table.measure({"uniform", size, 4 * elements, 2 * elements,
                 [&] { uniform(stream, DType::f32, y.raw(), n, 0.0f, 1.0f, seed, offset); }});
  // Two logarithms, roots, sines and cosines make four values.
  table.measure({"normal", size, 4 * elements, 6 * elements,
                 [&] { normal(stream, DType::f32, y.raw(), n, 0.0f, 1.0f, seed, offset); }});
}

void measure_compression(Table& table, std::int64_t n) {
  const Stream stream = table.stream();
  const Tensor x = randn({n}, DType::f32, table.device()), residual = zeros({n}, DType::f32, table.device());
  const Tensor y = empty({n}, DType::f16, table.device()), largest = zeros({}, DType::f32, table.device());
  const auto elements = static_cast<double>(n);
  const std::string size = fmt::format("{} f32", n);
  const CompressionScale scale{largest.data<float>(), 2};
  table.measure({"largest_abs", size, 4 * elements, 2 * elements,
                 [&] { largest_abs(stream, x.data<float>(), n, largest.data<float>()); }});
  table.measure({"compress to f16, residual", size, 14 * elements, 5 * elements, [&] {
                   compress(stream, x.data<float>(), n, scale, residual.data<float>(), DType::f16, y.raw());
                 }});
  table.measure({"decompress from f16", size, 6 * elements, 2 * elements,
                 [&] { decompress(stream, DType::f16, y.raw(), n, scale, x.data<float>()); }});
}

}  // namespace ringtape::benchmarks
