#include <cmath>

#include "benchmarks/kernels/arena.h"
#include "benchmarks/kernels/loops.h"
#include "kernels/clip.h"
#include "kernels/compress.h"
#include "kernels/loss_scale.h"

namespace ringtape::kernel_cases {
namespace {

using Model = std::shared_ptr<Parameters>;

GradientNormProblem norm_problem(const Model& model, double norm_type) {
  ParameterArena& arena = model->arena();
  return {arena.gradients().data<float>(),
          arena.tiles(),
          arena.tile_count(),
          arena.has_grad(),
          norm_type,
          1,
          nullptr};
}

/// A case that works on the gradients of an arena.
Case arena_case(const std::string& name, const std::string& does, double bytes, double flops,
                void (*prepare)(Setup& s, const Model& model), bool measured = true) {
  return {.name = name,
          .does = does,
          .bytes = bytes,
          .flops = flops,
          .prepare = [=](Setup& s,
                         const Size& size) { prepare(s, std::make_shared<Parameters>(size, s.device)); },
          .measured = measured ? Measured::parameters : Measured::no,
          .columns = kArenaMultiple};
}

void prepare_norm(Setup& s, const Model& model, double norm_type) {
  s.launch = [model, problem = norm_problem(model, norm_type), result = s.output<GradientNorm>("result", 1)](
                 const Stream& stream) { gradient_norm(stream, problem, result); };
}

std::vector<Case> arena_cases() {
  std::vector<Case> cases = {
      arena_case("gradient_norm", "Euclidean norm and clip factor", 4, 2,
                 [](Setup& s, const Model& model) {
                   prepare_norm(s, model, 2);
                   s.loop = [model, norm = s.output("norm of the loop", 1)] {
                     const Tensor& gradients = model->arena().gradients();
                     loop_norm(gradients.data<float>(), gradients.elements(), norm);
                   };
                 }),
      arena_case(
          "gradient_norm_1", "sum of the absolute values", 4, 2,
          [](Setup& s, const Model& model) { prepare_norm(s, model, 1); }, false),
      arena_case(
          "gradient_norm_3", "norm for p = 3: two walks", 8, 4,
          [](Setup& s, const Model& model) { prepare_norm(s, model, 3); }, false),
      arena_case("gradient_norm_inf", "the largest absolute value", 4, 2,
                 [](Setup& s, const Model& model) { prepare_norm(s, model, INFINITY); }),
      arena_case(
          "gradient_norm_of_shards", "the norm in two halves, for a sum over ranks", 4, 2,
          [](Setup& s, const Model& model) {
            s.launch = [problem = norm_problem(model, 2), model, total = s.output<double>("total", 1),
                        result = s.output<GradientNorm>("result", 1)](const Stream& stream) {
              gradient_norm_total(stream, problem, result, total);
              gradient_norm_of_total(stream, problem, total, result);
            };
          },
          false),
      // A factor just below 1, so that gradients keep an ordinary magnitude after thousands of runs.
      arena_case("clip_gradients", "gradients *= clip factor", 8, 1,
                 [](Setup& s, const Model& model) {
                   const std::vector<GradientNorm> known = {{2, 0.99999f, 0}};
                   s.launch = [model, problem = norm_problem(model, 2), result = s.input("result", known),
                               gradients = model->arena().gradients()](const Stream& stream) {
                     clip_gradients(stream, problem, result, gradients.data<float>());
                   };
                 }),
  };
  cases[3].row = "gradient_norm, largest";
  return cases;
}

std::vector<Case> array_cases() {
  return {
      {"clip_value", "gradients kept within [-limit, limit]", 8, 2,
       [](Setup& s, const Size& size) {
         s.launch = [n = size.elements(), x = s.floats("x", size.elements())](const Stream& stream) {
           clip_value(stream, x, n, 1.0f, nullptr);
         };
       },
       Measured::parameters},
      {"largest_abs", "the largest |x|", 4, 2,
       [](Setup& s, const Size& size) {
         s.launch = [n = size.elements(), x = s.floats("x", size.elements()), result = s.output("result", 1)](
                        const Stream& stream) { largest_abs(stream, x, n, result); };
       },
       Measured::elements},
      {"compress", "f32 to f16, with the rounding error in a residual", 14, 5,
       [](Setup& s, const Size& size) {
         const std::int64_t n = size.elements();
         const CompressionScale scale{s.input<float>("largest", {2}), 2};
         s.launch = [n, scale, x = s.floats("x", n), residual = s.floats("residual", n),
                     y = s.output<float16>("y", n)](const Stream& stream) {
           compress(stream, x, n, scale, residual, DType::f16, y);
         };
       },
       Measured::elements, "compress to f16, residual"},
      {"decompress", "f16 to f32", 6, 2,
       [](Setup& s, const Size& size) {
         const std::int64_t n = size.elements();
         const CompressionScale scale{s.input<float>("largest", {2}), 2};
         s.launch = [n, scale, y = s.uniform("y", n, DType::f16), x = s.output("x", n)](
                        const Stream& stream) { decompress(stream, DType::f16, y, n, scale, x); };
       },
       Measured::elements, "decompress from f16"},
      {.name = "loss_scale",
       .does = "one thread updates the loss scale",
       .prepare =
           [](Setup& s, const Size&) {
             const LossScaleState state{s.input<float>("scale", {1024}),
                                        s.input<std::int32_t>("growth tracker", {0}),
                                        s.input<std::int32_t>("overflows at floor", {0})};
             s.launch = [state, overflow = s.input<int>("overflow", {0})](const Stream& stream) {
               update_loss_scale(stream, overflow, LossScaleRule{2, 0.5f, 2000, 1}, state);
             };
           },
       .usual = 1,
       .most = 1,
       .unit = "loss scale"},
  };
}

}  // namespace

std::vector<Case> gradient_cases() {
  std::vector<Case> all = arena_cases();
  for (const Case& each : array_cases()) all.push_back(each);
  return all;
}

}  // namespace ringtape::kernel_cases
