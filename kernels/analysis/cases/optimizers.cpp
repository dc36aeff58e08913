#include "kernels/adam.h"
#include "kernels/analysis/cases/arena.h"
#include "kernels/lamb.h"
#include "kernels/lars.h"
#include "kernels/sgd.h"

namespace ringtape::analysed {
namespace {

constexpr std::int64_t kElements = 65536;

std::int64_t* steps(Setup& s) {
  return s.input("steps", std::vector<std::int64_t>(Arena::kParameters, 1));
}

Case adam_case(const std::string& name, const std::string& does, bool bf16_copy) {
  const double bytes = 16 + 12 + (bf16_copy ? 2 : 0);  // w, g, m, v read; w, m, v written
  return {name, does, kElements, Arena::kMultiple, bytes, [=](Setup& s, std::int64_t n) {
            AdamStep step{Arena(s, n).view,
                          s.floats("first moment", n),
                          s.floats("second moment", n),
                          steps(s),
                          s.output<AdamCoefficients>("coefficients", Arena::kParameters),
                          0.9,
                          0.999,
                          1e-8,
                          true};
            if (bf16_copy) {
              step.arena.low_precision = s.output<bfloat16>("bf16 copy", n);
              step.arena.low_precision_dtype = DType::bf16;
            }
            s.launch = [step](const Stream& stream) { adam_step(stream, step); };
          }};
}

Case sgd_case(const std::string& name, const std::string& does, double momentum) {
  const double bytes = momentum == 0 ? 12 : 20;  // w, g read, w written; and the buffer both
  return {name, does, kElements, Arena::kMultiple, bytes, [=](Setup& s, std::int64_t n) {
            const SgdStep step{Arena(s, n).view,
                               momentum == 0 ? nullptr : s.floats("momentum buffer", n),
                               steps(s),
                               s.output<SgdCoefficients>("coefficients", Arena::kParameters),
                               momentum,
                               0,
                               false};
            s.launch = [step](const Stream& stream) { sgd_step(stream, step); };
          }};
}

void prepare_lamb(Setup& s, std::int64_t n) {
  const Arena arena(s, n);
  const LambStep step{arena.view,
                      s.floats("first moment", n),
                      s.floats("second moment", n),
                      steps(s),
                      s.output<LambCoefficients>("coefficients", Arena::kParameters),
                      s.output<SquaredNorms>("norms of tiles", arena.view.tile_count),
                      s.output<SquaredNorms>("norms", Arena::kParameters),
                      0.9,
                      0.999,
                      1e-6,
                      LambDebias::in_norm,
                      0,
                      10};
  s.launch = [step](const Stream& stream) {
    lamb_norms(stream, step);
    lamb_values(stream, step);
  };
}

void prepare_lars(Setup& s, std::int64_t n) {
  const Arena arena(s, n);
  const LarsStep step{arena.view,
                      s.floats("momentum buffer", n),
                      s.output<SquaredNorms>("norms of tiles", arena.view.tile_count),
                      s.output<SquaredNorms>("norms", Arena::kParameters),
                      0.9,
                      0.001,
                      0};
  s.launch = [step](const Stream& stream) {
    lars_norms(stream, step);
    lars_values(stream, step);
  };
}

}  // namespace

std::vector<Case> optimizer_cases() {
  return {
      sgd_case("sgd", "a step of SGD", 0),
      sgd_case("sgd_momentum", "a step of SGD with momentum", 0.9),
      adam_case("adam", "a step of AdamW", false),
      adam_case("adam_bf16", "a step of AdamW that keeps a bf16 copy", true),
      {"lamb", "a step of LAMB", kElements, Arena::kMultiple, 40, prepare_lamb},
      {"lars", "a step of LARS", kElements, Arena::kMultiple, 28, prepare_lars},
  };
}

}  // namespace ringtape::analysed
