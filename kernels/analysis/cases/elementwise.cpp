#include "kernels/elementwise.h"

#include "kernels/analysis/cases/case.h"
#include "kernels/copy_rows.h"
#include "kernels/peak.h"
#include "kernels/pointwise_table.h"
#include "kernels/random.h"
#include "kernels/relu.h"

namespace ringtape::analysed {
namespace {

constexpr DType kF32 = DType::f32;
constexpr std::int64_t kElements = 65536;

std::vector<Case> writing_cases() {
  return {
      {"fill", "x = value", kElements, 1, 4,
       [](Setup& s, std::int64_t n) {
         s.launch = [n, x = s.output("x", n)](const Stream& stream) { fill(stream, kF32, x, n, 1); };
       }},
      {"arange", "x = 0, 1, 2 ...", kElements, 1, 4,
       [](Setup& s, std::int64_t n) {
         s.launch = [n, x = s.output("x", n)](const Stream& stream) { arange(stream, kF32, x, n, 0, 1); };
       }},
      {"uniform", "uniform random numbers", kElements, 1, 4,
       [](Setup& s, std::int64_t n) {
         s.launch = [n, x = s.output("x", n)](const Stream& stream) {
           uniform(stream, kF32, x, n, 0.0f, 1.0f, 1, 0);
         };
       }},
      {"normal", "normal random numbers", kElements, 1, 4,
       [](Setup& s, std::int64_t n) {
         s.launch = [n, x = s.output("x", n)](const Stream& stream) {
           normal(stream, kF32, x, n, 0.0f, 1.0f, 1, 0);
         };
       }},
      {"multiply_add", "products and sums in registers", kElements, 256, 4,
       [](Setup& s, std::int64_t n) {
         s.launch = [n, x = s.output("x", n)](const Stream& stream) {
           double flops = 0;
           peak_multiply_add(stream, static_cast<int>(n / 256), 256, 10, x, &flops);
         };
       }},
  };
}

std::vector<Case> converting_cases() {
  return {
      {"cast_to_bf16", "y in bf16 = x in f32", kElements, 1, 6,
       [](Setup& s, std::int64_t n) {
         s.launch = [n, x = s.floats("x", n), y = s.output<bfloat16>("y", n)](const Stream& stream) {
           cast(stream, kF32, x, DType::bf16, y, n, false);
         };
       }},
      {"cast_from_bf16", "y in f32 = x in bf16", kElements, 1, 6,
       [](Setup& s, std::int64_t n) {
         const auto* x = s.input("x", std::vector<bfloat16>(static_cast<std::size_t>(n)));
         s.launch = [n, x, y = s.output("y", n)](const Stream& stream) {
           cast(stream, DType::bf16, x, kF32, y, n, false);
         };
       }},
      {"cast_accumulate", "y in f32 += x in bf16", kElements, 1, 10,
       [](Setup& s, std::int64_t n) {
         const auto* x = s.input("x", std::vector<bfloat16>(static_cast<std::size_t>(n)));
         s.launch = [n, x, y = s.floats("y", n)](const Stream& stream) {
           cast(stream, DType::bf16, x, kF32, y, n, true);
         };
       }},
      {"normalize_u8", "y in f32 = pixels, normalised", kElements, 1, 5,
       [](Setup& s, std::int64_t n) {
         const auto* x = s.input("x", std::vector<std::uint8_t>(static_cast<std::size_t>(n), 1));
         s.launch = [n, x, y = s.output("y", n)](const Stream& stream) {
           normalize_u8(stream, x, kF32, y, n, 0.5, 0.5);
         };
       }},
      {"copy_rows", "half of the columns of a matrix with rows of 512", kElements, 256, 8,
       [](Setup& s, std::int64_t n) {
         const std::int64_t rows = n / 256;
         s.launch = [rows, from = s.floats("from", 512 * rows),
                     to = s.output("to", 256 * rows)](const Stream& stream) {
           copy_rows(stream, kF32, from, 512, to, 256, rows, 256, false);
         };
       }},
  };
}

std::vector<Case> computing_cases() {
  return {
      {"scale_by_device", "x *= a factor on the device", kElements, 1, 8,
       [](Setup& s, std::int64_t n) {
         s.launch = [n, x = s.floats("x", n), factor = s.input<float>("factor", {2})](const Stream& stream) {
           scale_by_device(stream, kF32, x, n, factor);
         };
       }},
      {"axpy", "y += alpha x", kElements, 1, 12,
       [](Setup& s, std::int64_t n) {
         s.launch = [n, x = s.floats("x", n), y = s.floats("y", n)](const Stream& stream) {
           axpy(stream, kF32, 2, x, y, n);
         };
       }},
      {"relu_forward", "y = max(x, 0)", kElements, 1, 8,
       [](Setup& s, std::int64_t n) {
         s.launch = [n, x = s.floats("x", n), y = s.output("y", n)](const Stream& stream) {
           relu_forward(stream, kF32, x, y, n);
         };
       }},
      {"relu_backward", "dx = dy where y > 0", kElements, 1, 12,
       [](Setup& s, std::int64_t n) {
         s.launch = [n, y = s.floats("y", n), dy = s.floats("dy", n), dx = s.output("dx", n)](
                        const Stream& stream) { relu_backward(stream, kF32, y, dy, dx, n, false); };
       }},
  };
}

Case pointwise_case(const NamedPointwiseKernel& row) {
  const PointwiseKernel kernel = row.kernel;
  return {row.name, row.does, kElements, 1, 4.0 * arrays_of(kernel), [=](Setup& s, std::int64_t n) {
            const auto memory = [&](Operand operand, const char* name) {
              return reads(kernel, operand) ? s.floats(name, n) : nullptr;
            };
            const PointwiseArguments arguments{.a = memory(Operand::a, "a"),
                                               .b = memory(Operand::b, "b"),
                                               .y = memory(Operand::y, "y"),
                                               .dy = memory(Operand::dy, "dy"),
                                               .alpha = 2,
                                               .result = s.output("result", n)};
            s.launch = [=](const Stream& stream) { kernel.launch(stream, kF32, arguments, n); };
          }};
}

std::vector<Case> pointwise_cases() {
  std::vector<Case> cases;
  for (const NamedPointwiseKernel& row : kernels_of(pointwise_table(Device{}))) {
    cases.push_back(pointwise_case(row));
  }
  return cases;
}

}  // namespace

std::vector<Case> elementwise_cases() {
  std::vector<Case> all;
  for (const auto& part : {writing_cases(), converting_cases(), computing_cases(), pointwise_cases()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace ringtape::analysed
