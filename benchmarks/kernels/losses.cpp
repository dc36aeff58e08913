#include "benchmarks/kernels/case.h"
#include "benchmarks/kernels/loops.h"
#include "kernels/cross_entropy.h"
#include "kernels/cross_entropy_shard.h"
#include "kernels/mse.h"

namespace ringtape::kernel_cases {
namespace {

constexpr DType kF32 = DType::f32;
constexpr std::int64_t kIgnored = -100;

/// A batch whose targets are spread over the classes. With `counts` the loss is computed as the tape does it
/// for a mean: the targets are counted first, and the losses of the rows are not stored.
struct Batch {
  Batch(Setup& s, const Size& size, bool counts)
      : rows(size.rows), classes(size.columns), logits(s.uniform("logits", size.elements(), size.dtype)) {
    std::vector<std::int64_t> values;
    for (std::int64_t row = 0; row < rows; ++row) values.push_back(row * 7 % classes);
    targets = s.input("targets", values);
    if (counts) count = s.output("count", 1);
    problem = {size.dtype, DType::i64, targets,
               rows,       classes,    kIgnored,
               0,          count,      s.input<int>("invalid target", {0})};
  }
  void count_rows(const Stream& stream) const {
    if (count != nullptr) count_targets(stream, DType::i64, targets, rows, kIgnored, count);
  }

  std::int64_t rows, classes;
  const std::int64_t* targets;
  void* logits;
  float* count = nullptr;
  CrossEntropyProblem problem;
};

void prepare_forward(Setup& s, const Size& size, bool counts) {
  const Batch batch(s, size, counts);
  float* stats = s.output("stats", 2 * size.rows);
  float* row_loss = counts ? nullptr : s.output("row loss", size.rows);
  float* loss = s.output("loss", 1);
  s.launch = [=](const Stream& stream) {
    batch.count_rows(stream);
    cross_entropy_forward(stream, batch.problem, batch.logits, stats, row_loss, loss);
  };
  if (size.dtype == kF32) {
    s.loop = [=] {
      loop_cross_entropy(static_cast<const float*>(batch.logits), batch.targets, batch.rows, batch.classes,
                         stats, loss);
    };
  }
}

void prepare_backward(Setup& s, const Size& size) {
  const Batch batch(s, size, false);
  const float* stats = s.floats("stats", 2 * size.rows);
  const float* upstream = s.input<float>("gradient of the loss", {1});
  void* dlogits =
      s.output<std::uint8_t>("dlogits", size.elements() * static_cast<std::int64_t>(size_of(size.dtype)));
  s.launch = [=](const Stream& stream) {
    cross_entropy_backward(stream, batch.problem, batch.logits, stats, upstream, dlogits, false);
  };
  if (size.dtype == kF32) {
    s.loop = [=] {
      loop_cross_entropy_backward(static_cast<const float*>(batch.logits), batch.targets, batch.rows,
                                  batch.classes, stats, static_cast<float*>(dlogits));
    };
  }
}

/// Each run overwrites the logits with gradients; repeated runs have other numbers, but the same work.
void prepare_fused(Setup& s, const Size& size, bool counts) {
  const Batch batch(s, size, counts);
  s.launch = [batch, loss = s.output("loss", 1)](const Stream& stream) {
    batch.count_rows(stream);
    cross_entropy_fused(stream, batch.problem, batch.logits, loss);
  };
}

void prepare_two_passes(Setup& s, const Size& size) {
  prepare_forward(s, size, true);
  const auto forward = s.launch;
  prepare_backward(s, size);
  s.launch = [forward, backward = s.launch](const Stream& stream) {
    forward(stream);
    backward(stream);
  };
  s.loop = nullptr;
}

void prepare_count_correct(Setup& s, const Size& size) {
  const Batch batch(s, size, false);
  s.launch = [batch, correct = s.output<float>("correct", 1)](const Stream& stream) {
    count_correct(stream, batch.problem, batch.logits, correct, false);
  };
}

/// The logits of the second of two ranks that divide the classes.
struct ShardBatch {
  ShardBatch(Setup& s, const Size& size) {
    std::vector<std::int64_t> targets;
    for (std::int64_t row = 0; row < size.rows; ++row) targets.push_back(row * 7 % (2 * size.columns));
    logits = s.uniform("logits", size.elements(), size.dtype);
    problem = {size.dtype,
               DType::i64,
               s.input("targets", targets),
               size.rows,
               size.columns,
               size.columns,
               2 * size.columns,
               kIgnored,
               1,
               s.input<int>("invalid target", {0})};
  }
  void* logits;
  CrossEntropyShard problem;
};

/// The bytes of a row are its target, and three statistics or two stats. The loss only works on rows, so it
/// has no bytes per element.
std::vector<Case> shard_cases() {
  std::vector<Case> cases = {
      {"cross_entropy_shard_statistics", "a rank's statistics of rows whose classes ranks divide", 4, 3,
       [](Setup& s, const Size& size) {
         const ShardBatch batch(s, size);
         s.launch = [batch, statistics = s.output("statistics", 3 * size.rows)](const Stream& stream) {
           cross_entropy_shard_statistics(stream, batch.problem, batch.logits, statistics);
         };
       },
       Measured::no, "", 8 + 12},
      {"cross_entropy_shard_loss", "the loss, from the statistics of all ranks", 0, 0,
       [](Setup& s, const Size& size) {
         const ShardBatch batch(s, size);
         s.launch = [batch, statistics = s.floats("statistics", 2 * 3 * size.rows),
                     stats = s.output("stats", 2 * size.rows),
                     loss = s.output("loss", 1)](const Stream& stream) {
           cross_entropy_shard_loss(stream, batch.problem, statistics, 2, stats, loss);
         };
       }},
      {"cross_entropy_shard_backward", "the gradient of a rank's logits", 8, 3,
       [](Setup& s, const Size& size) {
         const ShardBatch batch(s, size);
         s.launch = [batch, stats = s.floats("stats", 2 * size.rows),
                     upstream = s.input<float>("gradient of the loss", {1}),
                     dlogits = s.output("dlogits", size.elements())](const Stream& stream) {
           cross_entropy_shard_backward(stream, batch.problem, batch.logits, stats, upstream, dlogits, false);
         };
       },
       Measured::no, "", 8 + 8},
  };
  for (Case& each : cases) each.usual = 64 * (each.columns = 1000);
  return cases;
}

/// Cases with rows of `classes` logits. A row has 8 bytes of target and two floats of stats. FLOPs of
/// forward: maximum, difference, exp, sum; of backward: difference, exp, product.
std::vector<Case> cross_entropy_cases(const std::string& suffix, std::int64_t classes, std::int64_t rows) {
  const Measured measured = suffix.empty() ? Measured::logits : Measured::no;
  std::vector<Case> cases = {
      {"cross_entropy_forward" + suffix, "loss of rows of " + std::to_string(classes) + " logits", 4, 4,
       [](Setup& s, const Size& size) { prepare_forward(s, size, false); }, Measured::no, "", 8 + 8 + 4},
      {"cross_entropy_backward" + suffix, "its gradient", 8, 3, prepare_backward, measured, "", 8 + 8},
      {"cross_entropy_fused" + suffix, "both at once", 8, 7,
       [](Setup& s, const Size& size) { prepare_fused(s, size, false); }, Measured::no, "", 8},
  };
  for (Case& each : cases) each.usual = rows * (each.columns = classes);
  return cases;
}

}  // namespace

std::vector<Case> loss_cases() {
  std::vector<Case> all = {
      {"mse_forward", "mean squared error", 8, 3,
       [](Setup& s, const Size& size) {
         const std::int64_t n = size.elements();
         const float* prediction = s.floats("prediction", n);
         const float* target = s.floats("target", n);
         float* loss = s.output("loss", 1);
         s.launch = [=](const Stream& stream) {
           mse_forward(stream, kF32, prediction, target, n, 1 / static_cast<double>(n), loss);
         };
         s.loop = [=] { loop_mse(prediction, target, n, loss); };
       },
       Measured::elements},
      {"mse_backward", "its gradient", 12, 2,
       [](Setup& s, const Size& size) {
         const std::int64_t n = size.elements();
         s.launch = [n, prediction = s.floats("prediction", n), target = s.floats("target", n),
                     upstream = s.input<float>("gradient of the loss", {1}),
                     gradient = s.output("dprediction", n)](const Stream& stream) {
           mse_backward(stream, kF32, prediction, target, upstream, n, 1 / static_cast<double>(n), gradient,
                        false);
         };
       },
       Measured::elements},
      {"cross_entropy_forward", "", 4, 4, [](Setup& s, const Size& size) { prepare_forward(s, size, true); },
       Measured::logits, "", 8 + 8},
      {"cross_entropy, two passes", "", 12, 7, prepare_two_passes, Measured::logits, "", 8 + 8 + 8 + 8},
      {"cross_entropy_fused", "", 8, 7, [](Setup& s, const Size& size) { prepare_fused(s, size, true); },
       Measured::logits, "", 8},
  };
  for (const auto& part :
       {cross_entropy_cases("", 1000, 64), cross_entropy_cases("_10", 10, 2048), shard_cases()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  all.push_back({.name = "count_targets",
                 .does = "the number of non-ignored targets",
                 .bytes = 8,
                 .prepare =
                     [](Setup& s, const Size& size) {
                       const std::int64_t n = size.elements();
                       const std::vector<std::int64_t> ones(static_cast<std::size_t>(n), 1);
                       s.launch = [n, targets = s.input("targets", ones),
                                   count = s.output("count", 1)](const Stream& stream) {
                         count_targets(stream, DType::i64, targets, n, kIgnored, count);
                       };
                     },
                 .usual = 16384});
  all.push_back({"count_correct", "the number of correct rows of 1000 logits", 4, 1, prepare_count_correct,
                 Measured::logits, "", 8, 64 * 1000, 1000});
  return all;
}

}  // namespace ringtape::kernel_cases
