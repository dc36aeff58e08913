#include <cmath>

#include "kernels/analysis/cases/arena.h"
#include "kernels/clip.h"
#include "kernels/compress.h"
#include "kernels/loss_scale.h"

namespace ringtape::analysed {
namespace {

constexpr std::int64_t kElements = 65536;

GradientNormProblem norm_problem(Setup& s, std::int64_t n, double norm_type) {
  const ArenaView view = Arena(s, n).view;
  return {view.gradients, view.tiles, view.tile_count, view.has_grad, norm_type, 1, nullptr};
}

Case norm_case(const std::string& name, const std::string& does, double norm_type, double bytes) {
  return {name, does, kElements, Arena::kMultiple, bytes, [=](Setup& s, std::int64_t n) {
            s.launch = [problem = norm_problem(s, n, norm_type),
                        result = s.output<GradientNorm>("result", 1)](const Stream& stream) {
              gradient_norm(stream, problem, result);
            };
          }};
}

std::vector<Case> norm_cases() {
  return {
      norm_case("gradient_norm", "Euclidean norm and clip factor", 2, 4),
      norm_case("gradient_norm_1", "sum of the absolute values", 1, 4),
      norm_case("gradient_norm_3", "norm for p = 3: two walks", 3, 8),
      norm_case("gradient_norm_inf", "the largest absolute value", INFINITY, 4),
      {"gradient_norm_of_shards", "the norm in two halves, for ranks to add up", kElements, Arena::kMultiple,
       4,
       [](Setup& s, std::int64_t n) {
         s.launch = [problem = norm_problem(s, n, 2), total = s.output<double>("total", 1),
                     result = s.output<GradientNorm>("result", 1)](const Stream& stream) {
           gradient_norm_total(stream, problem, result, total);
           gradient_norm_of_total(stream, problem, total, result);
         };
       }},
  };
}

std::vector<Case> changing_cases() {
  return {
      {"clip_gradients", "gradients *= clip factor", kElements, Arena::kMultiple, 8,
       [](Setup& s, std::int64_t n) {
         const GradientNormProblem problem = norm_problem(s, n, 2);
         auto* gradients = const_cast<float*>(problem.gradients);
         const std::vector<GradientNorm> known = {{2, 0.5f, 0}};
         s.launch = [=, result = s.input("result", known)](const Stream& stream) {
           clip_gradients(stream, problem, result, gradients);
         };
       }},
      {"clip_value", "gradients kept within [-limit, limit]", kElements, 1, 8,
       [](Setup& s, std::int64_t n) {
         s.launch = [n, x = s.floats("x", n)](const Stream& stream) {
           clip_value(stream, x, n, 1.0f, nullptr);
         };
       }},
      {"largest_abs", "the largest |x|", kElements, 1, 4,
       [](Setup& s, std::int64_t n) {
         s.launch = [n, x = s.floats("x", n), result = s.output("result", 1)](const Stream& stream) {
           largest_abs(stream, x, n, result);
         };
       }},
      {"compress", "f32 to f16, what is lost kept in a residual", kElements, 1, 14,
       [](Setup& s, std::int64_t n) {
         const CompressionScale scale{s.input<float>("largest", {2}), 2};
         s.launch = [n, scale, x = s.floats("x", n), residual = s.floats("residual", n),
                     y = s.output<float16>("y", n)](const Stream& stream) {
           compress(stream, x, n, scale, residual, DType::f16, y);
         };
       }},
      {"decompress", "f16 to f32", kElements, 1, 6,
       [](Setup& s, std::int64_t n) {
         const CompressionScale scale{s.input<float>("largest", {2}), 2};
         const auto* y = s.input("y", std::vector<float16>(static_cast<std::size_t>(n)));
         s.launch = [n, scale, y, x = s.output("x", n)](const Stream& stream) {
           decompress(stream, DType::f16, y, n, scale, x);
         };
       }},
      {"loss_scale", "one thread moves the loss scale", 1, 1, 0,
       [](Setup& s, std::int64_t) {
         const LossScaleState state{s.input<float>("scale", {1024}),
                                    s.input<std::int32_t>("growth tracker", {0}),
                                    s.input<std::int32_t>("overflows at floor", {0})};
         s.launch = [state, overflow = s.input<int>("overflow", {0})](const Stream& stream) {
           update_loss_scale(stream, overflow, LossScaleRule{2, 0.5f, 2000, 1}, state);
         };
       },
       1, "loss scale"},
  };
}

}  // namespace

std::vector<Case> gradient_cases() {
  std::vector<Case> all = norm_cases();
  for (const Case& each : changing_cases()) all.push_back(each);
  return all;
}

}  // namespace ringtape::analysed
