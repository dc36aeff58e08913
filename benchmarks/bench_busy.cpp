// Times a training step on an idle machine and on a busy one: the same step without load, and while busy
// processes, one per core, compete for the cores. Threads that synchronise often in a step are slow when one
// of them is descheduled while the others spin; docs/simt.md describes what the library does against it. The
// time is the mean over the steps of a round, because load delays few steps, but by much; rounds with and
// without load alternate.
#include <fmt/ranges.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "benchmarks/mlp_training.h"
#include "benchmarks/times.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "dist/share_cores.h"
#include "profile/machine.h"
#include "profile/result_file.h"

namespace {

using namespace ringtape;
using Clock = std::chrono::steady_clock;

struct Options {
  std::optional<int> processes;  // not set: one per core
  int rounds = 5;
  double round_seconds = 1;
  std::string json;
};

/// A process that only computes, from construction to destruction.
class BusyProcess {
 public:
  BusyProcess() : child_(fork()) {
    check(child_ >= 0, "a busy process could not be started: {}", std::strerror(errno));
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      setsid();  // the scheduler divides cores among sessions first
      for (;;) asm volatile("");
    }
  }
  ~BusyProcess() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  BusyProcess(const BusyProcess&) = delete;
  BusyProcess& operator=(const BusyProcess&) = delete;

 private:
  pid_t child_;
};

/// The mean seconds of a step, over about `seconds` seconds.
double mean_step(MlpTraining& training, double seconds) {
  const Clock::time_point start = Clock::now();
  for (int steps = 1;; ++steps) {
    training.update();
    const double passed = std::chrono::duration<double>(Clock::now() - start).count();
    if (passed >= seconds) return passed / steps;
  }
}

/// Sets the normal policy: with a real-time policy (`chrt`) this process and the load would not compete.
void schedule_as_others() {
  const sched_param none{};
  check(sched_setscheduler(0, SCHED_OTHER, &none) == 0, "sched_setscheduler failed");
}

void benchmark(const Options& options) {
  schedule_as_others();
  const CoreMask own = usable_cores();
  const int processes = options.processes ? *options.processes : threads_of_rank(own, std::span(&own, 1));
  Results results("bench_busy", Device{}, options.json);
  results.setting("processes", processes);
  results.setting("rounds", options.rounds);
  results.setting("round_seconds", options.round_seconds);
  fmt::print(
      "{}: {}\n784-256-10, batch 64; mean step of {} rounds of {:g} s each, with and without load in "
      "turn\n\n",
      to_string(Device{}), describe(Device{}), options.rounds, options.round_seconds);
  MlpTraining training({784, 256, 10}, 64, Device{});
  mean_step(training, 0.2);  // to warm up
  Times idle, busy;
  CoreWait& wait = results.core_wait();
  for (int round = 0; round < options.rounds; ++round) {
    wait.go_on();
    idle.add(mean_step(training, options.round_seconds));
    wait.pause();
    std::deque<BusyProcess> load;
    for (int i = 0; i < processes; ++i) load.emplace_back();
    busy.add(mean_step(training, options.round_seconds));
  }
  check_quiet(wait.share(), "without load");
  fmt::print("{:<28} {:>10} {:>18} {:>8}\n", "", "ms/step", "least to most", "x idle");
  const auto show = [&](const std::string& name, const Times& times) {
    fmt::print("{:<28} {:>10.3f} {:>18} {:>8.2f}\n", name, times.median() * 1e3, times.range_ms(3),
               times.median() / idle.median());
    ResultRow row{.name = name, .size = "784-256-10, batch 64"};
    times.add_to(row);
    results.add(row);
  };
  show("idle", idle);
  show(fmt::format("beside {} busy processes", processes), busy);
  results.save();
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app("Times a training step on an idle machine and beside busy processes.");
  Options options;
  app.option("--processes", between(options.processes, 1, 1024), "busy processes (default: one per core)");
  app.option("--rounds", positive(options.rounds), "rounds with and without load, each");
  app.option("--round-seconds", between(options.round_seconds, 1e-3, 1e3), "seconds of a round");
  app.file("--json", options.json, kJsonHelp);
  return app.run(argc, argv, [&] { benchmark(options); });
}
