// Measures the bubble of a pipeline: the share of an update in which a stage waits. Each rank is a stage:
//
//   OMP_NUM_THREADS=1 mpirun -n 2 bench_pipeline
//   mpirun -n 8 bench_pipeline --sleep-ms 20
//
// All stages have the same amount of work: layers of an MLP, or with --sleep-ms a sleep instead of a stage's
// forward and a sleep twice as long instead of its backward, so that there may be more stages than cores. The
// bubble is 1 - alone / time, where `alone` is the time of a stage's work without the others. It is compared
// with (p-1)/(vm+p-1) for p stages of v chunks and m micro-batches. On a busy machine the program ends with
// an error and no table, as bench_overlap does.
#include <chrono>
#include <cstdio>
#include <thread>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "benchmarks/ranks.h"
#include "benchmarks/times.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "core/numbers.h"
#include "dist/connect.h"
#include "dist/pipeline.h"
#include "dist/rank_environment.h"
#include "nn/layer_factory.h"
#include "nn/layers.h"
#include "profile/result_file.h"

namespace {

using namespace ringtape;
using Clock = std::chrono::steady_clock;

struct Options {
  double sleep_ms = 0;
  std::int64_t width = 768;
  std::int64_t micro_batch = 128;  // samples
  int layers = 4;                  // of a stage
  int steps = 5;
  std::string json;
};

struct Variant {
  const char* name;
  PipelineScheduleKind schedule;
  int micro_batches;
  int chunks;
};
constexpr Variant kVariants[] = {{"afab", PipelineScheduleKind::afab, 8, 1},
                                 {"1f1b", PipelineScheduleKind::one_f_one_b, 8, 1},
                                 {"interleaved", PipelineScheduleKind::interleaved, 8, 2},
                                 {"1f1b", PipelineScheduleKind::one_f_one_b, 32, 1},
                                 {"interleaved", PipelineScheduleKind::interleaved, 32, 2}};

void sleep_for(double seconds) {
  std::this_thread::sleep_for(Seconds(seconds));
}

/// A model of units that sleep instead of computing.
class Sleeping : public Module {
 public:
  Sleeping(std::size_t units, double seconds, Stages& stages)
      : seconds_(seconds), weight_(register_parameter("weight", zeros({1}))) {
    stages.divide(std::vector<double>(units, 1));
  }
  Tensor forward(const Tensor& x) override { return x; }
  Tensor forward_units(const Tensor& x, std::size_t first, std::size_t end) override {
    const double seconds = static_cast<double>(end - first) * seconds_;
    sleep_for(seconds);
    Tensor y = x.detach();
    if (!Tape::is_recording()) return y;
    Tape::current().record("sleep", {x, weight_}, y, {}, [seconds](BackwardContext& context) {
      sleep_for(2 * seconds);
      if (context.needs_grad(0)) context.add_grad(0, context.grad_output());
    });
    return y;
  }

 private:
  double seconds_;
  Tensor& weight_;
};

std::shared_ptr<Module> make_model(const Options& options, const LayerFactory& layers) {
  const PipelinePlace& place = layers.stages()->place();
  const auto parts = static_cast<std::size_t>(place.stages) * static_cast<std::size_t>(place.chunks);
  if (options.sleep_ms > 0) {
    return std::make_shared<Sleeping>(parts, options.sleep_ms * 1e-3 / place.chunks, *layers.stages());
  }
  const auto of_all = static_cast<std::size_t>(place.stages) * static_cast<std::size_t>(options.layers);
  return make_mlp(std::vector<std::int64_t>(of_all + 1, options.width), layers);
}

/// The times of an update, and of the work of the slowest stage alone.
struct Measured {
  Times update, alone;
};

/// `wait` counts the time in which each stage works alone.
Measured measure(const Variant& variant, const Options& options, const std::shared_ptr<Communicator>& comm,
                 CoreWait& wait) {
  LayerFactory layers;
  layers.set_stages(std::make_shared<Stages>(
      PipelinePlace{.stage = comm->rank(), .stages = comm->size(), .chunks = variant.chunks}));
  const std::shared_ptr<Module> model = make_model(options, layers);
  Pipeline pipeline(*model, *layers.stages(), comm, {.schedule = variant.schedule});
  const Tensor x =
      randn({options.sleep_ms > 0 ? 1 : options.micro_batch, options.sleep_ms > 0 ? 1 : options.width});
  const std::vector<Shape> shapes(static_cast<std::size_t>(variant.micro_batches), x.shape());
  const auto update = [&] {
    pipeline.forward_backward(shapes, {.input = [&](std::size_t) { return x; },
                                       .loss = [](const Tensor& y, std::size_t) { return sum(y); },
                                       .backward = [](const Tensor& loss) { loss.backward(); }});
  };
  const auto work_alone = [&] {
    for (int m = 0; m < variant.micro_batches; ++m) {
      for (int chunk = 0; chunk < variant.chunks; ++chunk) {
        const auto part = static_cast<std::size_t>(chunk * comm->size() + comm->rank());
        Tensor input = x;
        if (part > 0) input.set_requires_grad(true);
        const auto& begins = layers.stages()->begins();
        sum(model->forward_units(input, begins[part], begins[part + 1])).backward();
      }
    }
  };
  Measured measured;
  for (int round = -1; round < options.steps; ++round) {  // -1: to warm up
    for (const bool is_alone : {false, true}) {
      comm->barrier();
      if (is_alone && round >= 0) wait.go_on();
      const Clock::time_point start = Clock::now();
      is_alone ? work_alone() : update();
      const Clock::duration own = Clock::now() - start;
      wait.pause();
      const double seconds = slowest(*comm, own);
      if (round >= 0) (is_alone ? measured.alone : measured.update).add(seconds);
    }
  }
  return measured;
}

/// Throws Error if the machine was too busy. `wait` counts only the time in which each stage works alone: in
/// an update a stage's threads wait for each other's core on an idle machine too.
std::vector<Measured> measure_all(const Options& options, const std::shared_ptr<Communicator>& comm,
                                  CoreWait& wait) {
  wait.pause();
  std::vector<Measured> all;
  for (const Variant& variant : kVariants) all.push_back(measure(variant, options, comm, wait));
  check_quiet(*comm, wait, "while each stage worked alone");
  return all;
}

void print_table(Results& results, const std::vector<Measured>& all, int stages) {
  const auto line = [](auto... cells) {
    fmt::print("{:<12} {:>14} {:>7} {:>10} {:>18} {:>10} {:>18} {:>8} {:>16}\n", cells...);
  };
  line("schedule", "micro-batches", "chunks", "ms/update", "least to most", "alone, ms", "least to most",
       "bubble", "(p-1)/(vm+p-1)");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Variant& variant = kVariants[i];
    const auto& [update, alone] = all[i];
    const double bubble = 1 - alone.median() / update.median();
    const double formula = (stages - 1.0) / (variant.chunks * variant.micro_batches + stages - 1.0);
    line(variant.name, variant.micro_batches, variant.chunks, fmt::format("{:.1f}", update.median() * 1e3),
         update.range_ms(1), fmt::format("{:.1f}", alone.median() * 1e3), alone.range_ms(1),
         fmt::format("{:.1f}%", bubble * 100), fmt::format("{:.1f}%", formula * 100));
    ResultRow row{.name = variant.name,
                  .size = fmt::format("{} micro-batches, {} chunks", variant.micro_batches, variant.chunks),
                  .more = {{"alone_seconds", alone.median()},
                           {"alone_least_seconds", alone.least()},
                           {"alone_most_seconds", alone.most()},
                           {"bubble", bubble},
                           {"bubble_by_formula", formula}}};
    update.add_to(row);
    results.add(row);
  }
}

void benchmark(const Options& options) {
  const auto comm = connect(detect_rank_environment(process_environment()), Device{}, Seconds(60));
  check(comm->size() > 1, "found one rank, expected at least two: mpirun -n 2 bench_pipeline");
  silence_other_ranks(*comm);
  Results results("bench_pipeline", comm->device(), comm->rank() == 0 ? options.json : "");
  fmt::print("{} stages, {}; medians of {}\n\n", comm->size(),
             options.sleep_ms > 0
                 ? fmt::format("no work: timed sleeps of {:g} ms for a forward, twice that for a backward",
                               options.sleep_ms)
                 : fmt::format("each {} layers of {}, {} samples in a micro-batch", options.layers,
                               options.width, options.micro_batch),
             counted(options.steps, "update"));
  results.setting("stages", comm->size());
  results.setting("sleep_ms", options.sleep_ms);
  print_table(results, measure_all(options, comm, results.core_wait()), comm->size());
  results.save();
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app("Measures the share of an update in which the stages of a pipeline wait.");
  Options options;
  app.option("--sleep-ms", between(options.sleep_ms, 0, 1e4),
             "milliseconds to sleep instead of a stage's forward; 0: compute");
  app.option("--width", positive(options.width), "width of the layers");
  app.option("--micro-batch", positive(options.micro_batch), "samples in a micro-batch");
  app.option("--layers", between(options.layers, 2, 1000), "layers in a stage, a multiple of two");
  app.option("--steps", positive(options.steps), "steps to time, of each schedule");
  app.file("--json", options.json, kJsonHelp);
  app.after_parsing([&options] {
    check(options.layers % 2 == 0, "--layers: expected a multiple of two, found {}", options.layers);
  });
  return app.run(argc, argv, [&] { benchmark(options); });
}
