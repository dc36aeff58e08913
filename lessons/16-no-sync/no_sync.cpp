// no_sync: four micro-batches on each rank, with a reduction after each or only after the last.
//
//   mpirun -n 2 no_sync
#include <fmt/ranges.h>

#include <cmath>
#include <memory>
#include <vector>

#include "autograd/ops.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "dist/data_parallel.h"
#include "lessons/ranks.h"
#include "nn/layers.h"
#include "optim/accumulation.h"
#include "optim/clip.h"

namespace {

using namespace ringtape;
using namespace ringtape::lessons;

constexpr std::int64_t kFeatures = 64;

struct Options {
  std::int64_t micro_batch = 16, steps = 4;  ///< of each rank
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
  const auto [micro_batch, steps] = options;
  const std::int64_t batch = micro_batch * steps;
  manual_seed(0);
  const auto model = make_mlp({kFeatures, 128, 10});
  ParameterArena arena(*model, Device());
  manual_seed(100 + static_cast<std::uint64_t>(comm->rank()));
  const Tensor x = randn({batch, kFeatures}), y = randn({batch, 10}, DType::f32, {}, 1);
  const auto hook = std::make_shared<CountingHook>();
  DataParallel parallel(*model, arena, comm,
                        {.bucket_sizes = {}, .overlap = true, .allow_unused = false, .hook = hook});
  AccumulationWindow window(comm->size(), sum_over(comm));
  window.begin(batch);

  if (prints(*comm)) {
    fmt::print("{} no_sync\n  micro-batch  all_reduces  bytes  gradient norm on each rank\n",
               uses_no_sync ? "with" : "without");
  }
  for (std::int64_t i = 0; i < steps; ++i) {
    const auto scope = parallel.no_sync(uses_no_sync && i + 1 < steps);
    const Tensor features = x.alias({micro_batch, kFeatures}, i * micro_batch * kFeatures);
    const Tensor targets = y.alias({micro_batch, 10}, i * micro_batch * 10);
    mse_loss((*model)(features), targets, Reduction::sum, window.divisor()).backward();

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
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app("Accumulation on several ranks, with no_sync and without.\nExample: mpirun -n 2 no_sync");
  app.option("--steps", between(options.steps, 1, 1000), "micro-batches of each rank");
  app.option("--micro-batch", between(options.micro_batch, 1, 4096), "samples in each");
  return app.run(argc, argv, [&] {
    const auto comm = connect_ranks();
    if (has_ranks(*comm, 2, "no_sync")) show(comm, options);
  });
}
