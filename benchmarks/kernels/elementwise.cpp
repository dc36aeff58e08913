#include "kernels/elementwise.h"

#include "benchmarks/kernels/case.h"
#include "benchmarks/kernels/loops.h"
#include "kernels/copy_rows.h"
#include "kernels/peak.h"
#include "kernels/pointwise_table.h"
#include "kernels/random.h"
#include "kernels/relu.h"

namespace ringtape::kernel_cases {
namespace {

constexpr DType kF32 = DType::f32;

/// A case of `launch`, which writes x.
template <class Launch>
Case writing_case(const std::string& name, const std::string& does, double flops, const Launch& launch) {
  return {name,
          does,
          4,
          flops,
          [=](Setup& s, const Size& size) {
            const std::int64_t n = size.elements();
            s.launch = [=, x = s.output("x", n)](const Stream& stream) { launch(stream, x, n); };
          },
          Measured::elements};
}

std::vector<Case> writing_cases() {
  return {
      writing_case("fill", "x = value", 0,
                   [](const Stream& stream, float* x, std::int64_t n) { fill(stream, kF32, x, n, 1.0); }),
      writing_case(
          "arange", "x = 0, 1, 2 ...", 2,
          [](const Stream& stream, float* x, std::int64_t n) { arange(stream, kF32, x, n, 0.0, 1.0); }),
      writing_case("uniform", "uniform random numbers", 2,
                   [](const Stream& stream, float* x, std::int64_t n) {
                     uniform(stream, kF32, x, n, 0.0f, 1.0f, 1, 0);
                   }),
      // Four values take two logarithms, roots, sines and cosines.
      writing_case("normal", "normal random numbers", 6,
                   [](const Stream& stream, float* x, std::int64_t n) {
                     normal(stream, kF32, x, n, 0.0f, 1.0f, 1, 0);
                   }),
      {.name = "multiply_add",
       .does = "products and sums in registers",
       .bytes = 4,
       .prepare =
           [](Setup& s, const Size& size) {
             s.launch = [=, x = s.output("x", size.elements())](const Stream& stream) {
               double flops = 0;
               peak_multiply_add(stream, static_cast<int>(size.rows), 256, 10, x, &flops);
             };
           },
       .columns = 256},
  };
}

/// `name` is empty for a conversion that only bench_kernels has.
Case cast_case(const std::string& name, DType from, DType to) {
  const std::string row = std::string("cast ") + name_of(from) + " to " + name_of(to);
  return {.name = name,
          .does = name.empty() ? "" : std::string("y in ") + name_of(to) + " = x in " + name_of(from),
          .bytes = 6,
          .flops = 1,
          .prepare =
              [=](Setup& s, const Size& size) {
                const std::int64_t n = size.elements();
                const void* x = s.uniform("x", n, from);
                void* y = s.output<std::uint8_t>("y", n * static_cast<std::int64_t>(size_of(to)));
                s.launch = [=](const Stream& stream) { cast(stream, from, x, to, y, n, false); };
              },
          .measured = Measured::converted,
          .row = row};
}

std::vector<Case> converting_cases() {
  return {
      cast_case("cast_to_bf16", kF32, DType::bf16),
      cast_case("", kF32, DType::f16),
      cast_case("cast_from_bf16", DType::bf16, kF32),
      cast_case("", DType::f16, kF32),
      {"cast_accumulate", "y in f32 += x in bf16", 10, 2,
       [](Setup& s, const Size& size) {
         const std::int64_t n = size.elements();
         s.launch = [n, x = s.uniform("x", n, DType::bf16), y = s.floats("y", n)](const Stream& stream) {
           cast(stream, DType::bf16, x, kF32, y, n, true);
         };
       }},
      {"normalize_u8", "y in f32 = pixels, normalised", 5, 2,
       [](Setup& s, const Size& size) {
         const std::int64_t n = size.elements();
         const auto* x = s.input("x", std::vector<std::uint8_t>(static_cast<std::size_t>(n), 1));
         s.launch = [n, x, y = s.output("y", n)](const Stream& stream) {
           normalize_u8(stream, x, kF32, y, n, 0.13, 0.31);
         };
       },
       Measured::converted},
      {.name = "copy_rows",
       .does = "half of the columns of a matrix with rows of 512",
       .bytes = 8,
       .prepare =
           [](Setup& s, const Size& size) {
             const std::int64_t rows = size.rows, columns = size.columns;
             s.launch = [=, from = s.floats("from", 2 * columns * rows),
                         to = s.output("to", columns * rows)](const Stream& stream) {
               copy_rows(stream, kF32, from, 2 * columns, to, columns, rows, columns, false);
             };
           },
       .measured = Measured::parts_of_rows,
       .row = "copy_rows, 512 of 1024 columns",
       .columns = 256},
  };
}

std::vector<Case> computing_cases() {
  // The factors keep the values at an ordinary magnitude after any number of runs.
  return {
      {"scale_by_device", "x *= a factor on the device", 8, 1,
       [](Setup& s, const Size& size) {
         const std::int64_t n = size.elements();
         s.launch = [n, x = s.floats("x", n), factor = s.input<float>("factor", {0.9999999f})](
                        const Stream& stream) { scale_by_device(stream, kF32, x, n, factor); };
       },
       Measured::elements},
      {"divide_by", "x /= a number", 8, 1,
       [](Setup& s, const Size& size) {
         const std::int64_t n = size.elements();
         s.launch = [n, x = s.floats("x", n)](const Stream& stream) {
           divide_by(stream, kF32, x, n, 1.0000001);
         };
       },
       Measured::elements},
      {"axpy", "y += alpha x", 12, 2,
       [](Setup& s, const Size& size) {
         const std::int64_t n = size.elements();
         s.launch = [n, x = s.floats("x", n), y = s.floats("y", n)](const Stream& stream) {
           axpy(stream, kF32, 1e-6, x, y, n);
         };
       },
       Measured::elements},
      {"relu_forward", "y = max(x, 0)", 8, 1,
       [](Setup& s, const Size& size) {
         const std::int64_t n = size.elements();
         const float* x = s.floats("x", n);
         float* y = s.output("y", n);
         s.launch = [=](const Stream& stream) { relu_forward(stream, kF32, x, y, n); };
         s.loop = [=] { loop_relu(x, y, n); };
       },
       Measured::elements},
      {"relu_backward", "dx = dy where y > 0", 12, 1,
       [](Setup& s, const Size& size) {
         const std::int64_t n = size.elements();
         s.launch = [n, y = s.floats("y", n), dy = s.floats("dy", n), dx = s.output("dx", n)](
                        const Stream& stream) { relu_backward(stream, kF32, y, dy, dx, n, false); };
       },
       Measured::elements},
  };
}

/// A kernel of kernels/pointwise.cu by its number, as each device has its own table.
Case pointwise_case(const NamedPointwiseKernel& named, std::size_t number) {
  const PointwiseKernel& kernel = named.kernel;
  return {named.name,
          named.does,
          4.0 * arrays_of(kernel),
          static_cast<double>(kernel.flops),
          [=](Setup& s, const Size& size) {
            const std::int64_t n = size.elements();
            const auto memory = [&](Operand operand, const char* name) {
              return reads(kernel, operand) ? s.floats(name, n) : nullptr;
            };
            const PointwiseArguments arguments{.a = memory(Operand::a, "a"),
                                               .b = memory(Operand::b, "b"),
                                               .y = memory(Operand::y, "y"),
                                               .dy = memory(Operand::dy, "dy"),
                                               .alpha = 0.5,
                                               .result = s.output("result", n)};
            s.launch = [=, launch = kernels_of(pointwise_table(s.device))[number].kernel.launch](
                           const Stream& stream) { launch(stream, kF32, arguments, n); };
          },
          Measured::elements};
}

std::vector<Case> pointwise_cases() {
  std::vector<Case> cases;
  for (const NamedPointwiseKernel& named : kernels_of(pointwise_table(Device{}))) {
    cases.push_back(pointwise_case(named, cases.size()));
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

}  // namespace ringtape::kernel_cases
