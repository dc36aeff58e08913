#include "benchmarks/kernels/case.h"
#include "core/ceil_div.h"
#include "kernels/dropout.h"
#include "kernels/embedding.h"
#include "kernels/matvec.h"
#include "kernels/norm.h"
#include "kernels/rotary.h"
#include "kernels/softmax_rows.h"

// The kernels of transformers, except attention, in f32. A row is a token's vector.
namespace ringtape::kernel_cases {
namespace {

constexpr DType kF32 = DType::f32;

/// A case whose rows have `columns` elements for `lens` and 1024 for bench_kernels.
Case rows_case(const std::string& name, const std::string& does, double bytes, double flops,
               std::function<void(Setup&, const Size&)> prepare) {
  return {.name = name,
          .does = does,
          .bytes = bytes,
          .flops = flops,
          .prepare = std::move(prepare),
          .measured = Measured::matrix,
          .columns = 256};
}

NormProblem norm_of(Setup& s, const Size& size, bool centred, bool is_backward) {
  const auto statistics = [&](const char* name) {
    return is_backward ? s.floats(name, size.rows) : s.output(name, size.rows);
  };
  return {.dtype = kF32,
          .rows = size.rows,
          .columns = size.columns,
          .eps = 1e-5,
          .weight = s.floats("weight", size.columns),
          .x = s.floats("x", size.elements()),
          .mean = centred ? statistics("mean") : nullptr,
          .rstd = statistics("rstd")};
}

void prepare_norm(Setup& s, const Size& size, bool centred, bool adds) {
  const NormProblem problem = norm_of(s, size, centred, false);
  const float* bias = centred ? s.floats("bias", size.columns) : nullptr;
  const float* residual = adds ? s.floats("residual", size.elements()) : nullptr;
  float* sum = adds ? s.output("sum", size.elements()) : nullptr;
  s.launch = [=, y = s.output("y", size.elements())](const Stream& stream) {
    norm_forward(stream, problem, residual, sum, bias, y);
  };
}

void prepare_norm_backward(Setup& s, const Size& size, bool centred) {
  const NormProblem problem = norm_of(s, size, centred, true);
  const float* dy = s.floats("dy", size.elements());
  const std::int64_t max_blocks = norm_backward_blocks(size.rows, true);  // the CPU has fewer
  float* weights = s.output("weight partial", max_blocks * size.columns);
  float* biases = centred ? s.output("bias partial", max_blocks * size.columns) : nullptr;
  s.launch = [=, dx = s.output("dx", size.elements())](const Stream& stream) {
    norm_backward(stream, problem, dy, dx, false, max_blocks, weights, biases);
  };
}

/// A block has four rows at the sizes of `lens` and more at large sizes. Each block writes a sum for every
/// column, two for a centred norm.
Case norm_backward_case(const std::string& name, bool centred, double flops) {
  constexpr double kOfElement = 3 * sizeof(float);
  const double of_column = (centred ? 2 : 1) * sizeof(float);
  Case result = rows_case(name, "its gradients", kOfElement + of_column / 4, flops,
                          [=](Setup& s, const Size& size) { prepare_norm_backward(s, size, centred); });
  result.bytes_of_size = [=](const Size& size, bool on_gpu) {
    return kOfElement * static_cast<double>(size.elements()) +
           of_column * static_cast<double>(size.columns * norm_backward_blocks(size.rows, on_gpu));
  };
  return result;
}

std::vector<Case> norm_cases() {
  return {rows_case("layer_norm_forward", "rows of 256 with mean 0 and variance 1", 8, 7,
                    [](Setup& s, const Size& size) { prepare_norm(s, size, true, false); }),
          rows_case("add_layer_norm_forward", "the same of x + residual, which is stored", 16, 8,
                    [](Setup& s, const Size& size) { prepare_norm(s, size, true, true); }),
          norm_backward_case("layer_norm_backward", true, 13),
          rows_case("rms_norm_forward", "rows of 256 with a mean square of 1", 8, 4,
                    [](Setup& s, const Size& size) { prepare_norm(s, size, false, false); }),
          norm_backward_case("rms_norm_backward", false, 10)};
}

std::vector<Case> softmax_cases() {
  return {rows_case("softmax_forward", "rows of 256 to probabilities", 8, 4,
                    [](Setup& s, const Size& size) {
                      const float* x = s.floats("x", size.elements());
                      s.launch = [=, y = s.output("y", size.elements())](const Stream& stream) {
                        softmax_forward(stream, kF32, x, y, size.rows, size.columns);
                      };
                    }),
          rows_case("softmax_backward", "its gradient", 12, 4, [](Setup& s, const Size& size) {
            const float* y = s.floats("y", size.elements());
            const float* dy = s.floats("dy", size.elements());
            s.launch = [=, dx = s.output("dx", size.elements())](const Stream& stream) {
              softmax_backward(stream, kF32, y, dy, dx, size.rows, size.columns, false);
            };
          })};
}

/// An embedding that has each token of its vocabulary once.
EmbeddingProblem embedding_of(Setup& s, const Size& size) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < size.rows; ++i) tokens.push_back(static_cast<std::int32_t>(i * 7 % size.rows));
  return {.token_dtype = DType::i32,
          .tokens = s.input("tokens", tokens),
          .rows = size.rows,
          .sequence = size.rows,
          .first_position = 0,
          .vocabulary = size.rows,
          .columns = size.columns};
}

std::vector<Case> embedding_cases() {
  return {rows_case("embedding_forward", "rows of 256 by their tokens", 8, 0,
                    [](Setup& s, const Size& size) {
                      const EmbeddingProblem problem = embedding_of(s, size);
                      const float* weight = s.floats("weight", problem.vocabulary * size.columns);
                      int* invalid = s.input<int>("invalid", {0});
                      s.launch = [=, y = s.output("y", size.elements())](const Stream& stream) {
                        embedding_forward(stream, kF32, problem, weight, nullptr, y, invalid);
                      };
                    }),
          rows_case("embedding_backward", "its gradient", 12, 1, [](Setup& s, const Size& size) {
            const EmbeddingProblem problem = embedding_of(s, size);
            float* dweight = s.floats("dweight", problem.vocabulary * size.columns);
            auto* workspace = s.output<std::int64_t>("workspace", embedding_workspace(size.rows));
            s.launch = [=, dy = s.floats("dy", size.elements())](const Stream& stream) {
              embedding_backward(stream, kF32, problem, dy, workspace, dweight);
            };
          })};
}

Case rotary_case() {
  constexpr std::int64_t kHead = 64, kSequences = 16;
  const auto sequence_of = [](const Size& size) { return ceil_div(size.rows, kSequences); };
  // A table has an angle for each pair of a head's elements; cosines and sines are written and read.
  constexpr double kTablesOfRow = 2.0 * sizeof(float) * kHead / kSequences;
  constexpr double kOfElement = 2 * sizeof(float);
  Case result = rows_case("rotary", "heads of 64 turned by their positions, and the table of angles",
                          kOfElement + kTablesOfRow / 256, 3, [=](Setup& s, const Size& size) {
                            const std::int64_t sequence = sequence_of(size);
                            float* cosines = s.output("cosines", kHead / 2 * sequence);
                            float* sines = s.output("sines", kHead / 2 * sequence);
                            const RotaryProblem problem{.dtype = kF32,
                                                        .rows = size.rows,
                                                        .columns = size.columns,
                                                        .sequence = sequence,
                                                        .heads = size.columns / kHead,
                                                        .head_size = kHead,
                                                        .cosines = cosines,
                                                        .sines = sines};
                            const float* x = s.floats("x", size.elements());
                            s.launch = [=, y = s.output("y", size.elements())](const Stream& stream) {
                              rotary_table(stream, kF32, cosines, sines, sequence, 0, kHead, 1e4);
                              rotary(stream, problem, x, y, false);
                            };
                          });
  result.bytes_of_size = [=](const Size& size, bool) {
    return kOfElement * static_cast<double>(size.elements()) +
           kTablesOfRow * kSequences * static_cast<double>(sequence_of(size));
  };
  return result;
}

std::vector<Case> other_cases() {
  return {rows_case("matvec", "a vector of 256 by the rows of a matrix", 4, 2,
                    [](Setup& s, const Size& size) {
                      GemmArgs args;
                      args.m = 1;
                      args.n = args.ldc = size.rows;
                      args.k = args.lda = args.ldb = size.columns;
                      args.a = s.floats("a", size.columns);
                      args.b = s.floats("b", size.elements());
                      args.c = s.output("c", size.rows);
                      s.launch = [args](const Stream& stream) { matvec(stream, args); };
                    }),
          {.name = "dropout",
           .does = "a quarter of x set to 0",
           .bytes = 8,
           .flops = 1,
           .prepare =
               [](Setup& s, const Size& size) {
                 const std::int64_t n = size.elements();
                 const float* x = s.floats("x", n);
                 s.launch = [=, y = s.output("y", n)](const Stream& stream) {
                   dropout(stream, kF32, x, y, n, 0.25, 1, 0);
                 };
               },
           .measured = Measured::elements},
          rotary_case()};
}

}  // namespace

std::vector<Case> transformer_cases() {
  std::vector<Case> all;
  for (const std::vector<Case>& some : {norm_cases(), softmax_cases(), embedding_cases(), other_cases()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace ringtape::kernel_cases
