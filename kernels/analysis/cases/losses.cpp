#include "kernels/analysis/cases/case.h"
#include "kernels/cross_entropy.h"
#include "kernels/mse.h"

namespace ringtape::analysed {
namespace {

constexpr DType kF32 = DType::f32;

/// A batch whose targets all count.
CrossEntropyProblem problem_of(Setup& s, std::int64_t rows, std::int64_t classes) {
  std::vector<std::int64_t> targets;
  for (std::int64_t row = 0; row < rows; ++row) targets.push_back(row * 7 % classes);
  return {kF32, DType::i64, s.input("targets", targets),        rows, classes, -100,
          0,    nullptr,    s.input<int>("invalid target", {0})};
}

/// What a row needs beside its logits: 8 bytes of target, and `more`.
double per_logit(double bytes, std::int64_t classes, double more) {
  return bytes + (8 + more) / static_cast<double>(classes);
}

Case forward_case(const std::string& name, std::int64_t classes, std::int64_t rows) {
  const double bytes = per_logit(4, classes, 12);  // two floats of stats, the row's loss
  return {name,
          "loss of rows of " + std::to_string(classes) + " logits",
          rows * classes,
          classes,
          bytes,
          [=](Setup& s, std::int64_t n) {
            const CrossEntropyProblem problem = problem_of(s, n / classes, classes);
            s.launch = [problem, logits = s.floats("logits", n), stats = s.output("stats", 2 * problem.rows),
                        row_loss = s.output("row loss", problem.rows),
                        loss = s.output("loss", 1)](const Stream& stream) {
              cross_entropy_forward(stream, problem, logits, stats, row_loss, loss);
            };
          }};
}

Case backward_case(const std::string& name, std::int64_t classes, std::int64_t rows) {
  return {
      name, "its gradient", rows * classes, classes, per_logit(8, classes, 8), [=](Setup& s, std::int64_t n) {
        const CrossEntropyProblem problem = problem_of(s, n / classes, classes);
        s.launch = [problem, logits = s.floats("logits", n), stats = s.floats("stats", 2 * problem.rows),
                    upstream = s.input<float>("gradient of the loss", {1}),
                    dlogits = s.output("dlogits", n)](const Stream& stream) {
          cross_entropy_backward(stream, problem, logits, stats, upstream, dlogits, false);
        };
      }};
}

Case fused_case(const std::string& name, std::int64_t classes, std::int64_t rows) {
  return {
      name, "both at once", rows * classes, classes, per_logit(8, classes, 0), [=](Setup& s, std::int64_t n) {
        const CrossEntropyProblem problem = problem_of(s, n / classes, classes);
        s.launch = [problem, logits = s.floats("logits", n), loss = s.output("loss", 1)](
                       const Stream& stream) { cross_entropy_fused(stream, problem, logits, loss); };
      }};
}

}  // namespace

std::vector<Case> loss_cases() {
  constexpr std::int64_t kFew = 10, kMany = 1000;
  return {
      {"mse_forward", "mean squared error", 65536, 1, 8,
       [](Setup& s, std::int64_t n) {
         s.launch = [n, prediction = s.floats("prediction", n), target = s.floats("target", n),
                     loss = s.output("loss", 1)](const Stream& stream) {
           mse_forward(stream, kF32, prediction, target, n, 1, loss);
         };
       }},
      {"mse_backward", "its gradient", 65536, 1, 12,
       [](Setup& s, std::int64_t n) {
         s.launch = [n, prediction = s.floats("prediction", n), target = s.floats("target", n),
                     upstream = s.input<float>("gradient of the loss", {1}),
                     gradient = s.output("dprediction", n)](const Stream& stream) {
           mse_backward(stream, kF32, prediction, target, upstream, n, 1, gradient, false);
         };
       }},
      forward_case("cross_entropy_forward", kMany, 64),
      backward_case("cross_entropy_backward", kMany, 64),
      fused_case("cross_entropy_fused", kMany, 64),
      forward_case("cross_entropy_forward_10", kFew, 2048),
      backward_case("cross_entropy_backward_10", kFew, 2048),
      fused_case("cross_entropy_fused_10", kFew, 2048),
      {"count_targets", "how many targets are not ignored", 16384, 1, 8,
       [](Setup& s, std::int64_t n) {
         const auto* targets = s.input("targets", std::vector<std::int64_t>(static_cast<std::size_t>(n), 1));
         s.launch = [n, targets, count = s.output("count", 1)](const Stream& stream) {
           count_targets(stream, DType::i64, targets, n, -100, count);
         };
       }},
      {"count_correct", "how many rows of 1000 logits are right", 64 * kMany, kMany, per_logit(4, kMany, 0),
       [](Setup& s, std::int64_t n) {
         const CrossEntropyProblem problem = problem_of(s, n / kMany, kMany);
         s.launch = [problem, logits = s.floats("logits", n), correct = s.output<std::int64_t>("correct", 1)](
                        const Stream& stream) { count_correct(stream, problem, logits, correct, false); };
       }},
  };
}

}  // namespace ringtape::analysed
