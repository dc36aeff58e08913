// no_sync: four micro-batches on each rank, with a reduction after each or only after the last.
//
//   mpirun -n 2 no_sync
#include <fmt/ranges.h>

#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "autograd/ops.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "dist/data_parallel.h"
#include "lessons/ranks.h"
#include "lessons/turns.h"
#include "nn/layers.h"
#include "optim/accumulation.h"
#include "optim/clip.h"
#include "train/option_types.h"

namespace {

using namespace ringtape;
using namespace ringtape::lessons;

constexpr std::int64_t kFeatures = 64;

struct Options {
  std::int64_t micro_batch = 16, steps = 4;  ///< samples of a micro-batch, and micro-batches, of each rank
  std::int64_t hidden = 128;
  bool time = false;  ///< whether to time an update
  std::optional<SlowLink> slow_link = SlowLink{Seconds(0), 100e6};
  std::int64_t timed_steps = 25;
};

/// The same model on all ranks, and different samples on each.
struct Example {
  std::int64_t micro_batch;
  std::shared_ptr<Sequential> model;
  ParameterArena arena{*model, Device()};
  Tensor x, y;

  Example(const Communicator& comm, const Options& options)
      : micro_batch(options.micro_batch), model((manual_seed(0), make_mlp({kFeatures, options.hidden, 10}))) {
    manual_seed(100 + static_cast<std::uint64_t>(comm.rank()));
    const std::int64_t batch = options.micro_batch * options.steps;
    x = randn({batch, kFeatures});
    y = randn({batch, 10}, DType::f32, {}, 1);
  }
  /// The backward of micro-batch `i`, with the sum of its losses over `divisor`.
  void backward(std::int64_t i, double divisor) {
    const Tensor features = x.alias({micro_batch, kFeatures}, i * micro_batch * kFeatures);
    const Tensor targets = y.alias({micro_batch, 10}, i * micro_batch * 10);
    mse_loss((*model)(features), targets, Reduction::sum, divisor).backward();
  }
};

/// An all-reduce that counts its calls and bytes.
class CountingHook : public AllReduceHook {
 public:
  void launch(Communicator& comm, const Tensor& bucket) override {
    ++calls;
    bytes += bucket.bytes();
    AllReduceHook::launch(comm, bucket);
  }
  int calls = 0;
  std::size_t bytes = 0;
};

struct Result {
  std::vector<double> gradients;
  int calls;
};

Result run(const std::shared_ptr<Communicator>& comm, const Options& options, bool uses_no_sync) {
  const std::int64_t steps = options.steps;
  Example example(*comm, options);
  ParameterArena& arena = example.arena;
  const auto hook = std::make_shared<CountingHook>();
  DataParallel parallel(*example.model, arena, comm,
                        {.bucket_sizes = {}, .overlap = true, .allow_unused = false, .hook = hook});
  AccumulationWindow window(comm->size(), sum_over(comm));
  window.begin(options.micro_batch * steps);

  if (prints(*comm)) {
    fmt::print("{} no_sync\n  micro-batch  all_reduces  bytes  gradient norm on each rank\n",
               uses_no_sync ? "with" : "without");
  }
  for (std::int64_t i = 0; i < steps; ++i) {
    const auto scope = parallel.no_sync(uses_no_sync && i + 1 < steps);
    example.backward(i, window.divisor());

    const Tensor norms = empty({comm->size()});
    comm->all_gather(clip_grad_norm(arena, INFINITY).alias({1}), norms).wait();
    if (prints(*comm)) {
      fmt::print("  {:>11}  {:>11}  {:>6}  {:.4f}\n", i + 1, hook->calls, hook->bytes,
                 fmt::join(norms.to_vector<float>(), "  "));
    }
  }
  parallel.finish();
  return {arena.gradients().to_doubles(), hook->calls};
}

/// Times an update with and without no_sync over a link that is slowed down; all in one run, in turns.
void time_updates(const std::shared_ptr<Communicator>& comm, const Options& options) {
  const auto timed_steps = static_cast<int>(options.timed_steps);
  Example alone(*comm, options);
  const auto linked = connect_ranks(options.slow_link);
  Example example(*linked, options);
  DataParallel parallel(*example.model, example.arena, linked);
  // Reduces after the last micro-batch, or after each.
  const auto update = [&](bool uses_no_sync) {
    example.arena.zero_grad();
    for (std::int64_t i = 0; i < options.steps; ++i) {
      const auto scope = parallel.no_sync(uses_no_sync && i + 1 < options.steps);
      example.backward(i, 1);
    }
    parallel.finish();
  };
  const auto compute = [&] {
    alone.arena.zero_grad();
    for (std::int64_t i = 0; i < options.steps; ++i) alone.backward(i, 1);
  };
  const auto one_alone = [&] { linked->all_reduce(alone.arena.gradients(), ReduceOp::mean).wait(); };
  const std::vector<Ratio> ratios = time_in_turns(
      *linked, {compute, one_alone, [&] { update(true); }, [&] { update(false); }}, timed_steps);
  if (!prints(*comm)) return;
  fmt::print(
      "\nAn update over a link of {}, as a multiple of the time to compute it; median of {} (lowest to "
      "highest)\n",
      link_text(options.slow_link.value_or(SlowLink())), options.timed_steps);
  const char* const names[] = {"nothing is reduced", "an all_reduce alone", "with no_sync",
                               "without no_sync"};
  for (std::size_t i = 0; i < ratios.size(); ++i) fmt::print("  {:<19}  {}\n", names[i], text_of(ratios[i]));
}

void show(const std::shared_ptr<Communicator>& comm, const Options& options) {
  const Result with = run(comm, options, true), without = run(comm, options, false);
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < with.gradients.size(); ++i) {
    difference += std::pow(with.gradients[i] - without.gradients[i], 2);
    norm += std::pow(with.gradients[i], 2);
  }
  const double off = std::sqrt(difference / norm);
  check(off < 1e-6, "the gradients differ by {:.1e}", off);
  if (prints(*comm)) {
    fmt::print("{} all_reduces or {}: the same gradient, but for rounding below 1e-6\n", with.calls,
               without.calls);
  }
  if (options.time) time_updates(comm, options);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app("Accumulation on several ranks, with no_sync and without.\nExample: mpirun -n 2 no_sync");
  app.option("--accumulation", between(options.steps, 1, 1000), "micro-batches of each rank");
  app.option("--micro-batch", between(options.micro_batch, 1, 4096), "samples in each");
  app.option("--hidden", between(options.hidden, 1, 65536), "neurons of the hidden layer");
  app.option("--time", options.time, "also time an update, over a slow link");
  app.option("--slow-link", option_value(options.slow_link), "with --time: latency and bandwidth of the link")
      .needs(app["--time"]);
  app.option("--steps", between(options.timed_steps, 1, 1000), "with --time: steps to time, of each variant");
  return app.run(argc, argv, [&] {
    const auto comm = connect_ranks();
    if (has_ranks(*comm, 2, "no_sync")) show(comm, options);
  });
}
