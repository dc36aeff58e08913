#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/options.h"
#include "apps/planner/commands.h"
#include "apps/planner/numbers.h"
#include "apps/planner/scale.h"
#include "core/file.h"

namespace ringtape::planner {
namespace {

struct Options {
  ScaleRequest request;
  std::string cluster = "h100-ndr";
  std::string algorithm = "ring";
  std::string jitter_shape = "lognormal";
  std::optional<double> forward_ms, backward_ms;
  double update_ms = 0;
  std::int64_t bucket_mib = 25, first_bucket_mib = 1, segment_kib = 256;
  std::optional<std::int64_t> ranks_per_node;
  std::optional<double> inside_us, inside_gb, between_us, between_gb, call_us;
  std::int64_t max_ranks = 100'000;
  bool no_overlap = false;
  std::string svg;
  bool json = false;
};

CLI::Validator milliseconds_check() {
  return apps::number_check(0, 1e12);
}

CLI::Validator microseconds_check() {
  return apps::number_check(0, 1e7);
}

/// Of GB/s.
CLI::Validator bandwidth_check() {
  return apps::number_check(1e-6, 1e6);
}

void add_model_flags(CLI::App& app, Options& options) {
  const auto size = CLI::Range(std::int64_t{1}, kLargestSize);
  ScaleRequest& request = options.request;
  app.option_defaults()->group("Model and batch")->always_capture_default(false);
  app.add_option("--parameters", request.parameters, "parameters that are trained")->check(size)->required();
  CLI::Option* const forward =
      app.add_option("--forward", options.forward_ms, "ms of a micro-batch's forward, instead of by --flops")
          ->check(milliseconds_check());
  CLI::Option* const backward = app.add_option("--backward", options.backward_ms,
                                               "ms of a micro-batch's backward, instead of by --flops")
                                    ->check(milliseconds_check());
  forward->needs(backward);
  backward->needs(forward);
  app.add_option("--global-batch", request.global_batch,
                 "samples in an update, which the ranks divide [each rank adds to the batch]")
      ->check(size);
  app.option_defaults()->always_capture_default();
  app.add_option("--micro-batch", request.micro_batch, "samples that a rank computes at a time")->check(size);
  app.add_option("--sequence", request.sequence, "tokens in a sample")->check(size);
  app.add_option("--flops", request.flops,
                 "FLOP/s that a rank reaches: 2 a parameter and token forward, 4 backward")
      ->check(apps::number_check(1, 1e21))
      ->excludes(forward)
      ->excludes(backward);
  app.add_option("--update", options.update_ms, "ms of the optimizer on all parameters")
      ->check(milliseconds_check());
  app.add_option("--accumulation", request.accumulation, "micro-batches that a rank accumulates")
      ->check(size);
}

void add_communication_flags(CLI::App& app, Options& options) {
  const auto size = CLI::Range(std::int64_t{1}, kLargestSize);
  ScaleRequest& request = options.request;
  app.option_defaults()->group("Communication");
  app.add_option("--algorithm", options.algorithm, "ring, tree or two-level");
  app.add_option("--bucket", options.bucket_mib, "MiB of gradients in a bucket")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  app.add_option("--first-bucket", options.first_bucket_mib, "MiB of gradients in the first")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  app.add_option("--segment", options.segment_kib, "KiB that a tree moves at a time")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30));
  app.add_option("--gradient-bytes", request.gradient_bytes, "bytes of a gradient as it is summed")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{8}));
  app.add_option("--parameter-bytes", request.parameter_bytes, "bytes of a parameter as ZeRO gathers it")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{8}));
  app.add_option("--compression", request.compression, "gradients are sent in so many times fewer bytes")
      ->check(apps::number_check(1, 1000));
  app.add_option("--zero", request.zero, "ZeRO stage")->check(CLI::Range(0, 3));
  app.option_defaults()->always_capture_default(false);
  app.add_flag("--no-overlap", options.no_overlap, "reduce after backward, not while it goes on");
  app.add_flag("--every-micro-batch", request.every_micro_batch,
               "reduce after each micro-batch, as without no_sync()");

  app.option_defaults()->group("Cluster: a preset, and what is different")->always_capture_default();
  std::string names;
  for (const Cluster& cluster : cluster_presets()) names += (names.empty() ? "" : ", ") + cluster.name;
  app.add_option("--cluster", options.cluster, names);
  app.option_defaults()->always_capture_default(false);
  app.add_option("--ranks-per-node", options.ranks_per_node, "ranks in a node")->check(size);
  app.add_option("--inside-latency", options.inside_us, "us of a message inside of a node")
      ->check(microseconds_check());
  app.add_option("--inside-bandwidth", options.inside_gb, "GB/s out of a rank inside of its node")
      ->check(bandwidth_check());
  app.add_option("--between-latency", options.between_us, "us of a message between nodes")
      ->check(microseconds_check());
  app.add_option("--between-bandwidth", options.between_gb, "GB/s out of a node, all adapters together")
      ->check(bandwidth_check());
  app.add_option("--call", options.call_us, "us that a collective takes before its first byte moves")
      ->check(microseconds_check());
}

void add_disturbance_flags(CLI::App& app, Options& options) {
  ScaleRequest& request = options.request;
  app.option_defaults()->group("Stragglers and failures")->always_capture_default();
  app.add_option("--jitter", request.jitter.variation,
                 "standard deviation of a rank's computing, over its mean, 0 to 1")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--jitter-shape", options.jitter_shape, "lognormal or exponential");
  app.add_option("--steps", request.steps, "steps of which the mean is taken")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{10'000}));
  app.add_option("--seed", request.jitter.seed, "of the jitter");
  app.option_defaults()->always_capture_default(false);
  CLI::Option* const failures = app.add_option("--failure-hours", request.hours_of_a_rank,
                                               "hours between two failures of one rank [never]")
                                    ->check(apps::number_check(1, 1e9));
  CLI::Option* const checkpoint =
      app.add_option("--checkpoint", request.checkpoint, "seconds that a checkpoint takes")
          ->check(apps::number_check(1e-3, 1e6))
          ->needs(failures);
  failures->needs(checkpoint);
  app.add_option("--restart", request.restart, "seconds from a failure until training goes on [0]")
      ->check(apps::number_check(0, 1e6))
      ->needs(failures);
  app.add_option("--checkpoint-interval", request.checkpoint_interval,
                 "seconds of training between two checkpoints [the best: Daly, 2006]")
      ->check(apps::number_check(1e-3, 1e9))
      ->needs(failures);
}

void add_output_flags(CLI::App& app, Options& options) {
  app.option_defaults()->group("Output")->always_capture_default(false);
  CLI::Option* const ranks = app.add_option("--ranks", options.request.ranks, "numbers of ranks: 8,64,512")
                                 ->delimiter(',')
                                 ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}))
                                 ->type_name("INT,INT,...");
  app.option_defaults()->always_capture_default();
  app.add_option("--max-ranks", options.max_ranks, "without --ranks: 1, 2, 4, ... up to so many")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}))
      ->excludes(ranks);
  app.add_option("--messages-up-to", options.request.messages_up_to,
                 "ranks up to which each message is simulated; above them in closed form")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{4096}));
  app.option_defaults()->always_capture_default(false);
  app.add_option("--svg", options.svg, "draw throughput, efficiency and exposed communication into this file")
      ->check(apps::file_name_check())
      ->type_name("FILE");
  app.add_flag("--json", options.json, "print the plan as JSON");
}

/// The preset, with the constants that were given in place of its own.
Cluster cluster_of(const Options& options) {
  Cluster cluster = cluster_preset(options.cluster);
  cluster.ranks_per_node = options.ranks_per_node.value_or(cluster.ranks_per_node);
  const auto set = [](double& constant, const std::optional<double>& given, double unit) {
    if (given) constant = *given * unit;
  };
  set(cluster.inside.latency, options.inside_us, 1e-6);
  set(cluster.inside.bandwidth, options.inside_gb, 1e9);
  set(cluster.between.latency, options.between_us, 1e-6);
  set(cluster.between.bandwidth, options.between_gb, 1e9);
  set(cluster.call, options.call_us, 1e-6);
  return cluster;
}

void plan(const Options& options) {
  ScaleRequest request = options.request;
  request.cluster = cluster_of(options);
  request.algorithm = algorithm_from_name(options.algorithm);
  request.jitter.shape = jitter_shape_from_name(options.jitter_shape);
  if (options.forward_ms) request.forward = *options.forward_ms / 1e3;
  if (options.backward_ms) request.backward = *options.backward_ms / 1e3;
  request.update = options.update_ms / 1e3;
  request.bucket = options.bucket_mib << 20;
  request.first_bucket = options.first_bucket_mib << 20;
  request.segment = options.segment_kib << 10;
  request.overlap = !options.no_overlap;
  if (request.ranks.empty()) request.ranks = doubling_ranks(request.cluster, options.max_ranks);
  std::sort(request.ranks.begin(), request.ranks.end());
  request.ranks.erase(std::unique(request.ranks.begin(), request.ranks.end()), request.ranks.end());

  const ScalePlan plan = plan_scale(request);
  if (!options.svg.empty()) {
    const std::string svg = scale_svg(plan);
    AtomicFile file(options.svg);
    file.write(svg.data(), svg.size());
    file.commit();
  }
  fmt::print("{}", options.json ? scale_json(request, plan).dump(2) + "\n" : scale_text(request, plan));
}

}  // namespace

void add_scale_command(CLI::App& app, std::function<void()>& chosen) {
  CLI::App* const command = app.add_subcommand(
      "scale",
      "Simulates steps of data-parallel training on more and more ranks: what a step takes, and how much of "
      "it is "
      "waiting for others.\n"
      "Example: plan scale --parameters 1300000000 --micro-batch 2 --sequence 4096 --svg scale.svg\n"
      "Example: plan scale --parameters 25000000 --forward 60 --backward 120 --gradient-bytes 4 "
      "--micro-batch 32 "
      "--cluster p100-ethernet --algorithm two-level --ranks 8,64,256");
  const auto options = std::make_shared<Options>();
  add_model_flags(*command, *options);
  add_communication_flags(*command, *options);
  add_disturbance_flags(*command, *options);
  add_output_flags(*command, *options);
  command->callback([options, &chosen] { chosen = [options] { plan(*options); }; });
}

}  // namespace ringtape::planner
