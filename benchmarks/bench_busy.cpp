// Times a training step on an idle machine and on a busy one: the same step without load, and beside busy
// processes that compete for the cores, one per core. Threads that synchronize often in a step are slow when
// one of them is descheduled while the others spin; docs/simt.md describes the library's measures against it.
// The time is the mean over the steps of a round, since load delays only few steps, but by much; rounds with
// and without load alternate.
#include <fmt/ranges.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "nn/layers.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "profile/machine.h"
#include "profile/result_file.h"
#include "trace/timing.h"

namespace {

using namespace ringtape;
using namespace ringtape::benchmarks;
using Clock = std::chrono::steady_clock;

struct Options {
  int processes = 0;  // 0: one per core
  int rounds = 5;
  double round_seconds = 1;
  std::string json;
};

/// Processes that only compute, from construction to destruction.
class BusyProcesses {
 public:
  explicit BusyProcesses(int count) {
    for (int i = 0; i < count; ++i) {
      const pid_t child = fork();
      check(child >= 0, "fork failed: no busy process could be started");
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setsid();  // the scheduler divides cores among sessions first
        for (;;) asm volatile("");
      }
      children_.push_back(child);
    }
  }
  ~BusyProcesses() {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }
  BusyProcesses(const BusyProcesses&) = delete;
  BusyProcesses& operator=(const BusyProcesses&) = delete;

 private:
  std::vector<pid_t> children_;
};

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  check(sched_getaffinity(0, sizeof set, &set) == 0, "sched_getaffinity failed");
  return CPU_COUNT(&set);
}

/// 784-256-10 at batch 64: forward, cross-entropy, backward, clipping, Adam.
class Training {
 public:
  void step() {
    arena_.zero_grad();
    const Tensor loss = cross_entropy((*model_)(x_), y_);
    loss.backward();
    clip_grad_norm(arena_, 1.0);
    adam_.step();
  }

  /// Mean seconds of a step, over `seconds` seconds.
  double mean_step(double seconds) {
    const Clock::time_point start = Clock::now();
    for (int steps = 1;; ++steps) {
      step();
      const double passed = std::chrono::duration<double>(Clock::now() - start).count();
      if (passed >= seconds) return passed / steps;
    }
  }

 private:
  std::shared_ptr<Sequential> model_ = (manual_seed(1), make_mlp({784, 256, 10}));
  ParameterArena arena_{*model_, Device{}};
  Adam adam_{arena_};
  Tensor x_ = randn({64, 784});
  Tensor y_ = to(rand({64}, DType::f32, {}, 0, 10), DType::i64);
};

/// With a real-time policy (`chrt`) this process and the load would not compete.
void schedule_as_others() {
  const sched_param none{};
  check(sched_setscheduler(0, SCHED_OTHER, &none) == 0, "sched_setscheduler failed");
}

void benchmark(const Options& options) {
  schedule_as_others();
  const int processes = options.processes == 0 ? usable_cores() : options.processes;
  Results results("bench_busy", Device{}, options.json);
  results.setting("processes", processes);
  results.setting("rounds", options.rounds);
  results.setting("round_seconds", options.round_seconds);
  fmt::print(
      "{}: {}\n784-256-10, batch 64; mean step of {} rounds of {:g} s each, with and without load in "
      "turn\n\n",
      to_string(Device{}), describe(Device{}), options.rounds, options.round_seconds);
  Training training;
  training.mean_step(0.2);  // to warm up
  std::vector<double> idle, busy;
  CoreWait& wait = results.core_wait();
  for (int round = 0; round < options.rounds; ++round) {
    wait.go_on();
    idle.push_back(training.mean_step(options.round_seconds));
    wait.pause();
    const BusyProcesses load(processes);
    busy.push_back(training.mean_step(options.round_seconds));
  }
  const std::string remark = too_busy(wait.share().value_or(0));
  check(remark.empty(), "not measured, without load: {}", remark);
  fmt::print("{:<28} {:>10} {:>18} {:>8}\n", "", "ms/step", "least to most", "x idle");
  const auto show = [&](const std::string& name, const std::vector<double>& seconds) {
    const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
    const double middle = median(seconds);
    fmt::print("{:<28} {:>10.3f} {:>18} {:>8.2f}\n", name, middle * 1e3,
               fmt::format("{:.3f} to {:.3f}", *least * 1e3, *most * 1e3), middle / median(idle));
    results.add({.name = name,
                 .size = "784-256-10, batch 64",
                 .seconds = middle,
                 .more = {{"least_seconds", *least}, {"most_seconds", *most}}});
  };
  show("idle", idle);
  show(fmt::format("beside {} busy processes", processes), busy);
  results.save();
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app("Times a training step on an idle machine and beside busy processes.");
  Options options;
  app.option("--processes", positive(options.processes), "busy processes (default: one per core)");
  app.option("--rounds", positive(options.rounds), "rounds with and without load, each");
  app.option("--round-seconds", between(options.round_seconds, 1e-3, 1e3), "seconds of a round");
  app.file("--json", options.json, kJsonHelp);
  return app.run(argc, argv, [&] { benchmark(options); });
}
