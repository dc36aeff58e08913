// Communication during backward and after it, over links as slow as one likes; and beside both, accumulation.
//
//   mpirun -n 2 overlap
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <vector>

#include "apps/lessons/ranks.h"
#include "apps/options.h"
#include "autograd/ops.h"
#include "core/error.h"
#include "dist/data_parallel.h"
#include "nn/layers.h"

namespace {

using namespace ringtape;
using namespace ringtape::lessons;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kBatch = 1024, kWidth = 512;
constexpr int kUpdates = 4;

/// Five layers of 1 MiB each, each a bucket.
class Example {
 public:
  Example(const std::shared_ptr<Communicator>& ranks, bool overlap)
      : ranks_(ranks),
        model_((manual_seed(0), make_mlp(std::vector<std::int64_t>(6, kWidth)))),
        arena_(*model_, Device()),
        parallel_(
            *model_, arena_, ranks,
            {.bucket_sizes = {1 << 20, 1 << 20}, .overlap = overlap, .allow_unused = false, .hook = nullptr}),
        x_(randn({kBatch, kWidth})),
        y_(randn({kBatch, kWidth})) {}

  std::size_t gradient_bytes() const { return arena_.gradients().bytes(); }

  /// Seconds of an update of this rank, the fastest of some.
  double time(int micro_batches, bool reduces) {
    double best = 1e9;
    for (int update = 0; update <= kUpdates; ++update) {  // the first makes what later ones find
      ranks_->barrier();
      const Clock::time_point start = Clock::now();
      run_update(micro_batches, reduces);
      if (update > 0) best = std::min(best, Seconds(Clock::now() - start).count());
    }
    return best;
  }

 private:
  void run_update(int micro_batches, bool reduces) {
    arena_.zero_grad();
    for (int i = 0; i < micro_batches; ++i) {
      const auto scope = parallel_.no_sync(!reduces || i + 1 < micro_batches);
      mse_loss((*model_)(x_), y_).backward();
    }
    if (reduces) parallel_.finish();
  }

  std::shared_ptr<Communicator> ranks_;
  std::shared_ptr<Sequential> model_;
  ParameterArena arena_;
  DataParallel parallel_;
  Tensor x_, y_;
};

/// The time of the slowest rank, known to all.
double slowest(Communicator& ranks, double seconds) {
  const Tensor time = from_vector(std::vector<float>{static_cast<float>(seconds)}, {1});
  ranks.all_reduce(time, ReduceOp::max).wait();
  return time.item();
}

/// Seconds of an update over a link on which an all_reduce of the gradients takes `communication`
/// seconds.
double time_over_link(const Communicator& all, double communication, bool overlap, std::size_t bytes) {
  const int n = all.size();
  const double sent = 2.0 * (n - 1) / n * static_cast<double>(bytes);
  const auto ranks = connect_ranks(SlowLink{Seconds(0), sent / communication});
  return slowest(*ranks, Example(ranks, overlap).time(1, true));
}

void show(const std::shared_ptr<Communicator>& ranks) {
  Example example(ranks, true);
  const double compute = slowest(*ranks, example.time(1, false));
  const double accumulated = slowest(*ranks, example.time(ranks->size(), false));
  if (prints(*ranks)) {
    fmt::print("{:.1f} MiB of gradients; {} samples take a rank {:.1f} ms to compute: a time of 1\n",
               static_cast<double>(example.gradient_bytes()) / (1 << 20), kBatch, compute * 1e3);
    fmt::print("{} accumulation steps: {:.2f}\n\n", ranks->size(), accumulated / compute);
    fmt::print("time of all_reduce   update, overlap off   on     samples/s, overlap on\n");
  }
  std::vector<double> off, on;  // of an update, in the time of computing
  for (const double share : {0.5, 1.0, 2.0, 4.0}) {
    const double communication = share * compute;
    off.push_back(time_over_link(*ranks, communication, false, example.gradient_bytes()) / compute);
    on.push_back(time_over_link(*ranks, communication, true, example.gradient_bytes()) / compute);
    if (!prints(*ranks)) continue;
    fmt::print("{:>18}   {:>19.2f}   {:.2f}   {:>10.0f}\n", share, off.back(), on.back(),
               static_cast<double>(ranks->size() * kBatch) / (on.back() * compute));
  }
  if (!prints(*ranks)) return;
  const auto say = [](const char* what, bool holds) { fmt::print("{}: {}\n", what, holds ? "yes" : "no"); };
  fmt::print("\n");
  say("with an all_reduce of 0.5 the ranks are faster than the accumulation steps",
      on[0] < accumulated / compute);
  say("with an all_reduce of 0.5 or 1 overlap is faster", on[0] < off[0] && on[1] < off[1]);
  say("from 2 to 4 the update takes 2 more, within a half", std::abs(on[3] - on[2] - 2) < 0.5);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What overlapping communication with backward saves.\nExample: mpirun -n 2 overlap");
  return ringtape::apps::run(app, argc, argv, [] {
    const auto ranks = connect_ranks();
    if (has_ranks(*ranks, 2, "overlap")) show(ranks);
  });
}
