// Measures the cost of communication in a data-parallel step, and how much of it is hidden or saved: by
// buckets that are reduced during backward, by no_sync() with accumulation, by ZeRO 1's gathers during the
// next forward, and by ZeRO 3's gathers, which are started one unit ahead. On ranks that share a machine,
// over a simulated slow link:
//
//   mpirun -n 2 bench_overlap
//
// Each time is a median, with the minimum and maximum. On a busy machine the figures would be invalid, so the
// program ends with an error and no table if, by the scheduler's count, a rank waited for a core for more
// than 5% of the time in which it computed without communication (profile/core_wait.h). The hidden fraction
// of a step that takes T is (S - T) / (S - C), with C for a step without communication and S for one with all
// communication after backward. It is omitted if the ranges of C and S overlap.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

#include "autograd/ops.h"
#include "benchmarks/ranks.h"
#include "benchmarks/times.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "dist/connect.h"
#include "dist/data_parallel.h"
#include "dist/self_communicator.h"
#include "dist/traffic.h"
#include "nn/layers.h"
#include "optim/accumulation.h"
#include "optim/sgd.h"
#include "profile/machine.h"
#include "profile/overlap.h"
#include "profile/result_file.h"
#include "train/option_types.h"

namespace {

using namespace ringtape;
using Clock = std::chrono::steady_clock;

struct Options {
  std::optional<SlowLink> slow_link = SlowLink{.latency = Seconds(100e-6), .bytes_per_second = 125e6};
  std::int64_t inputs = 256;
  std::int64_t width = 512;
  std::int64_t layers = 20;
  std::int64_t micro_batch = 512;
  std::int64_t accumulation = 4;
  double bucket_mib = 1;
  int steps = 7;
  std::string json;

  /// Samples of a rank in a step.
  std::int64_t batch() const { return micro_batch * accumulation; }
};

/// One row of the table.
struct Variant {
  std::string name;
  bool communicates = true;
  bool overlaps = true;
  bool has_buckets = true;  ///< else one bucket for all gradients
  std::int64_t micro_batches = 1;
  bool uses_no_sync = true;
  int zero = 0;  ///< stage of ZeRO: 0, 1 or 3
};

std::vector<std::int64_t> sizes_of(const Options& options) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(options.layers), options.width);
  sizes.insert(sizes.begin(), options.inputs);
  sizes.push_back(10);
  return sizes;
}

DataParallelOptions options_of(const Variant& variant, double bucket_mib) {
  const auto bytes = static_cast<std::int64_t>((variant.has_buckets ? bucket_mib : 1e6) * (1 << 20));
  return {.bucket_sizes = {.first_bytes = bytes, .bytes = bytes},
          .overlap = variant.overlaps,
          .allow_unused = false,
          .hook = nullptr};
}

/// Trains a model in one of the variants on this rank's random samples.
class Training {
 public:
  Training(const Variant& variant, const Options& options, const std::shared_ptr<Communicator>& all)
      : variant_(variant),
        comm_(variant.communicates ? all : std::make_shared<SelfCommunicator>(all->device(), all->timeout())),
        model_((manual_seed(1), make_mlp(sizes_of(options)))),
        arena_(*model_, all->device(), DType::f32,
               {.zero_stage = variant.zero,
                .rank = comm_->rank(),
                .world_size = comm_->size(),
                .bucket_sizes = variant.zero == 1 ? options_of(variant, options.bucket_mib).bucket_sizes
                                                  : BucketSizes{}}),
        sgd_(arena_, SGDOptions{.learning_rate = 1e-3, .momentum = 0.9}),
        parallel_(*model_, arena_, comm_, options_of(variant, options.bucket_mib)) {
    parallel_.promise_equal_ranks(variant.zero > 0);
    manual_seed(2 + static_cast<std::uint64_t>(all->rank()));
    const std::int64_t samples = options.batch() / variant.micro_batches;
    x_ = randn({samples, options.inputs});
    y_ = to(rand({samples}, DType::f32, {}, 0, 10), DType::i64);
  }

  void update() {
    AccumulationWindow window(comm_->size(), sum_over(comm_));
    window.begin_with_all(comm_->size() * variant_.micro_batches * x_.size(0));
    arena_.zero_grad();
    for (std::int64_t i = 0; i < variant_.micro_batches; ++i) {
      const auto scope = parallel_.no_sync(variant_.uses_no_sync && i + 1 < variant_.micro_batches);
      const Tensor loss = forward(window.divisor());
      const SpanScope span(Track::compute, "backward");
      loss.backward();
    }
    parallel_.finish();
    const SpanScope span(Track::compute, "optimizer");
    sgd_.step();
  }

  std::int64_t gradient_bytes() const { return arena_.size() * static_cast<std::int64_t>(sizeof(float)); }
  std::size_t buckets() const { return parallel_.buckets().size(); }
  bool communicates() const { return variant_.communicates; }
  /// Whether an update sends values during the forward of the next update.
  bool sends_afterwards() const { return variant_.communicates && variant_.zero == 1; }

 private:
  Tensor forward(double divisor) {
    const SpanScope span(Track::compute, "forward");
    return cross_entropy((*model_)(x_), y_, {.reduction = Reduction::sum, .divisor = divisor});
  }

  Variant variant_;
  std::shared_ptr<Communicator> comm_;
  std::shared_ptr<Sequential> model_;
  ParameterArena arena_;
  SGD sgd_;
  DataParallel parallel_;
  Tensor x_, y_;
};

struct Measured {
  Times times;                 ///< of the slowest rank in each round
  std::vector<double> hidden;  ///< hidden share of rank 0's communication in further rounds, from its spans
};

/// Measures one update of each variant in turn, so that changes of the machine's speed affect all equally.
/// Throws Error if the machine was too busy. `alone` counts only the time in which each rank computes alone:
/// a rank that also communicates has a second thread for its core.
std::vector<Measured> measure(std::vector<std::unique_ptr<Training>>& trainings, Communicator& comm,
                              int rounds, CoreWait& alone) {
  std::vector<Measured> all(trainings.size());
  alone.pause();
  for (int round = -1; round < 2 * rounds; ++round) {  // -1: to warm up; the second half: with spans
    for (std::size_t i = 0; i < trainings.size(); ++i) {
      comm.barrier();
      if (trainings[i]->sends_afterwards()) trainings[i]->update();
      std::optional<SpanRecording> recording;
      if (round >= rounds) recording.emplace();
      const bool is_alone = !trainings[i]->communicates() && round >= 0;
      if (is_alone) alone.go_on();
      const Clock::time_point start = Clock::now();
      trainings[i]->update();
      const Clock::duration own = Clock::now() - start;
      if (is_alone) alone.pause();
      if (recording) {
        recording->stop();
        all[i].hidden.push_back(measure_overlap(recording->spans()).hidden_share());
      }
      const double seconds = slowest(comm, own);
      if (round >= 0 && round < rounds) all[i].times.add(seconds);
    }
  }
  check_quiet(comm, alone, "while each rank computed alone");
  return all;
}

/// The fraction of the communication's time that overlap hides, from the times of a step with overlap,
/// without overlap, and without communication.
double hidden(double overlapped, double one_after_the_other, double alone) {
  return (one_after_the_other - overlapped) / (one_after_the_other - alone);
}

/// "93.8% (91.0 to 94.2)": the median, the smallest and the largest share.
std::string shares_text(const std::vector<double>& shares) {
  const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
  return fmt::format("{:.1f}% ({:.1f} to {:.1f})", median(shares) * 100, *least * 100, *most * 100);
}

void print_table(Results& results, const std::vector<Variant>& variants,
                 const std::vector<Measured>& measured,
                 const std::vector<std::unique_ptr<Training>>& trainings) {
  const auto line = [](auto... cells) {
    fmt::print("{:<44} {:>8} {:>10} {:>16} {:>12} {:>14} {:>22}\n", cells...);
  };
  line("", "buckets", "ms/step", "least to most", "more than", "hidden, by", "hidden, by");
  line("", "", "", "", "alone, ms", "step times", "timeline");
  const Times *alone = nullptr, *one_after_the_other = nullptr;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const Variant& variant = variants[i];
    const Times& times = measured[i].times;
    const double seconds = times.median();
    if (!variant.communicates) alone = &times;
    if (!variant.overlaps) one_after_the_other = &times;
    const bool is_compared =
        variant.communicates && variant.overlaps && variant.uses_no_sync && variant.zero == 0;
    const bool is_told = is_compared && one_after_the_other->least() > alone->most();
    const double more = seconds - alone->median();
    const double share = is_told ? hidden(seconds, one_after_the_other->median(), alone->median()) : 0;
    if (!variant.communicates && i > 0) fmt::print("\n");
    line(variant.name, variant.communicates ? fmt::format("{}", trainings[i]->buckets()) : "",
         fmt::format("{:.2f}", seconds * 1e3), times.range_ms(2),
         variant.communicates ? fmt::format("{:.2f}", more * 1e3) : "",
         is_told       ? fmt::format("{:.1f}%", share * 100)
         : is_compared ? "not measured"
                       : "",
         variant.communicates ? shares_text(measured[i].hidden) : "");
    ResultRow row{.name = variant.name, .size = fmt::format("{} micro-batches", variant.micro_batches)};
    times.add_to(row);
    if (is_told) row.more["hidden_by_step_times"] = share;
    if (variant.communicates) {
      row.more["hidden_by_timeline"] = median(measured[i].hidden);
      row.more["hidden_least"] = *std::min_element(measured[i].hidden.begin(), measured[i].hidden.end());
      row.more["hidden_most"] = *std::max_element(measured[i].hidden.begin(), measured[i].hidden.end());
    }
    results.add(row);
  }
}

std::vector<Variant> all_variants(const Options& options) {
  const std::string pieces = fmt::format("{} micro-batches", options.accumulation);
  const std::int64_t many = options.accumulation;
  // In each group, the first variant has no communication and the second no overlap, except with ZeRO, which
  // always overlaps.
  return {{.name = "each rank alone", .communicates = false},
          {.name = "reduced after backward", .overlaps = false},
          {.name = "reduced during backward"},
          {.name = "one bucket for all", .has_buckets = false},
          {.name = pieces + ", each rank alone", .communicates = false, .micro_batches = many},
          {.name = pieces + ", reduced after the last", .overlaps = false, .micro_batches = many},
          {.name = pieces + ", reduced during the last", .micro_batches = many},
          {.name = pieces + ", each reduced: no no_sync()", .micro_batches = many, .uses_no_sync = false},
          {.name = "ZeRO 1, each rank alone", .communicates = false, .zero = 1},
          {.name = "ZeRO 1, gathered during the next forward", .zero = 1},
          {.name = "ZeRO 3, each rank alone", .communicates = false, .zero = 3},
          {.name = "ZeRO 3, gathered one unit ahead", .zero = 3}};
}

void benchmark(const Options& options) {
  const auto comm =
      connect(detect_rank_environment(process_environment()), Device{}, Seconds(60), options.slow_link);
  check(comm->size() > 1, "found one rank, expected at least two: mpirun -n 2 bench_overlap");
  silence_other_ranks(*comm);
  Results results("bench_overlap", comm->device(), comm->rank() == 0 ? options.json : "");
  const std::vector<Variant> variants = all_variants(options);
  std::vector<std::unique_ptr<Training>> trainings;
  for (const Variant& variant : variants)
    trainings.push_back(std::make_unique<Training>(variant, options, comm));
  const SlowLink link = options.slow_link.value_or(SlowLink());
  const auto bytes = static_cast<double>(trainings.front()->gradient_bytes());
  const double on_link = bytes_on_link(CommOperation::all_reduce, comm->size(), bytes);
  fmt::print("{} ranks, {}\n{} hidden layers of {}, {} samples a rank and step, median of {} steps\n",
             comm->size(), describe(comm->device()), options.layers, options.width, options.batch(),
             options.steps);
  const double latency_us = link.latency.count() * 1e6, mbytes_per_s = link.bytes_per_second * 1e-6;
  fmt::print("link of {:g} us and {:g} MB/s: the {:.2f} MB of gradients take {:.1f} ms\n\n", latency_us,
             mbytes_per_s, bytes * 1e-6, link.transfer_time(on_link).count() * 1e3);
  const std::vector<Measured> measured = measure(trainings, *comm, options.steps, results.core_wait());
  results.setting("ranks", comm->size());
  results.setting("slow_link", fmt::format("{:g},{:g}", latency_us, mbytes_per_s));
  results.setting("model", fmt::format("{} hidden layers of {}", options.layers, options.width));
  results.setting("micro_batch", options.micro_batch);
  results.setting("accumulation", options.accumulation);
  results.setting("gradient_bytes", bytes);
  print_table(results, variants, measured, trainings);
  results.save();
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app("Measures the hidden fraction of the communication of data-parallel training.");
  Options options;

  app.option("--slow-link", option_value(options.slow_link), "latency and bandwidth of the link");
  app.option("--inputs", positive(options.inputs), "inputs of the model");
  app.option("--width", positive(options.width), "width of the hidden layers");
  app.option("--layers", positive(options.layers), "number of hidden layers");
  app.option("--micro-batch", positive(options.micro_batch), "samples of a rank in a micro-batch");
  app.option("--accumulation", positive(options.accumulation),
             "micro-batches in a step; without accumulation, the same samples are one micro-batch");
  app.option("--bucket-mib", between(options.bucket_mib, 1e-3, 1e6), "MiB of gradients in a bucket");
  app.option("--steps", positive(options.steps), "steps to time, of each variant");
  app.file("--json", options.json, kJsonHelp);
  return app.run(argc, argv, [&] { benchmark(options); });
}
