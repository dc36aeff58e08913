#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/model_flags.h"
#include "apps/plan/cluster_flags.h"
#include "apps/plan/commands.h"
#include "apps/plan/output.h"
#include "apps/plan/transformer_flags.h"
#include "core/error.h"
#include "io/file.h"
#include "nn/gpt_estimate.h"
#include "nn/shard_layout.h"
#include "planner/numbers.h"
#include "planner/scale.h"
#include "planner/transformer.h"
#include "train/option_list.h"

namespace ringtape::planner {
namespace {

struct Options {
  ScaleRequest request;
  TransformerFlags transformer;
  ClusterFlags cluster;
  std::optional<double> forward_ms, backward_ms;
  double optimizer_ms = 0;
  std::optional<std::int64_t> tensor, context, pipeline;
  std::int64_t chunks = 1, recompute = 0;
  bool sequence_parallel = false;
  DType dtype = DType::bf16;
  double bucket_mib = 25;
  std::optional<double> first_bucket_mib;
  std::int64_t max_ranks = 100'000;
  bool no_overlap = false;
  std::function<bool()> is_of_any_model;  ///< whether flags are given for which --layers sets no layout
  std::string svg;
  std::string json;
};

/// The flags of ranks that divide a model. What each rank computes and sends then follows from the model.
void add_mesh_flags(CommandLine& app, Options& options) {
  app.group("Ranks that divide the model");
  Flag tensor = app.option("--tensor-parallel", between(options.tensor, 1, 100'000),
                           "number of ranks that divide each layer");
  Flag context = app.option("--context-parallel", between(options.context, 1, 100'000),
                            "number of ranks that divide the tokens of each sequence");
  Flag pipeline =
      app.option("--pipeline-parallel", between(options.pipeline, 1, 100'000), "number of stages");
  Flag recompute = app.option("--recompute", between(options.recompute, 0, 100'000),
                              "keep only the input of each segment of this many blocks; 0: keep everything");
  Flag dtype =
      app.option("--dtype", dtype_value(options.dtype), "compute dtype, f32, bf16 or f16; gradients are f32");
  const std::vector<const char*> of_any_model = {"--forward-ms", "--backward-ms", "--gradient-bytes",
                                                 "--parameter-bytes", "--compression-ratio"};
  for (Flag* const flag : {&tensor, &context, &pipeline, &recompute, &dtype}) {
    flag->needs(app["--layers"]);
    for (const char* other : of_any_model) flag->excludes(app[other]);
  }
  for (Flag* const flag : {&tensor, &context, &pipeline}) flag->no_default();
  options.is_of_any_model = [&app, of_any_model] {
    return std::any_of(of_any_model.begin(), of_any_model.end(),
                       [&app](const char* flag) { return app[flag].is_given(); });
  };
  pipeline.excludes(app["--sync-each-micro-batch"]);
  app.option("--pipeline-chunks", between(options.chunks, 1, 100),
             "chunks of the model (virtual stages) in each stage")
      .needs(pipeline);
  app.option("--sequence-parallel", options.sequence_parallel, "tensor ranks divide the tokens too")
      .needs(tensor);
}

void add_model_flags(CommandLine& app, Options& options) {
  ScaleRequest& request = options.request;
  app.group("Model and batch (--layers: of a GPT-2)");
  const Flag layers = options.transformer.add(app, false);
  app.option("--parameters", between(request.parameters, 1, kMaxSize), "trained parameters, of any model")
      .no_default()
      .excludes(layers);
  Flag forward = app.option("--forward-ms", between(options.forward_ms, 0, 1e12),
                            "ms of a micro-batch's forward; overrides --flops");
  Flag backward = app.option("--backward-ms", between(options.backward_ms, 0, 1e12),
                             "ms of a micro-batch's backward; overrides --flops");
  forward.needs(backward);
  backward.needs(forward);
  app.option("--batch-size", between(request.global_batch, 1, kMaxSize),
             std::string(kBatchSizeHelp) + "; the ranks divide it [each rank adds its own]")
      .no_default();

  app.option("--micro-batch", between(request.micro_batch, 1, kMaxSize),
             "samples in a forward pass of a rank");
  app.option("--context", between(request.sequence, 1, kMaxSize), kContextHelp);
  app.option("--flops", between(request.flops, 1, 1e21),
             "FLOP/s of a rank; a token takes 2 FLOPs per parameter forward and 4 backward; a transformer "
             "those of its matrix products")
      .excludes(forward)
      .excludes(backward);
  app.option("--optimizer-ms", between(options.optimizer_ms, 0, 1e12),
             "ms of the optimizer's step on all parameters");
  app.option("--accumulation", between(request.accumulation, 1, 100'000),
             "micro-batches that a rank accumulates");
}

void add_communication_flags(CommandLine& app, Options& options) {
  ScaleRequest& request = options.request;
  app.group("Communication");
  app.option("--algorithm", algorithm_value(request.algorithm), "ring, tree or hierarchical");
  app.option("--bucket-mib", between(options.bucket_mib, 1e-6, 1e6), "MiB of gradients in a bucket");
  app.option("--first-bucket-mib", between(options.first_bucket_mib, 1e-6, 1e6),
             "MiB of gradients in the first bucket [1, at most --bucket-mib]")
      .no_default();
  app.option("--segment-bytes", between(request.segment, 1, 1LL << 36), "bytes that a tree sends at a time");
  app.option("--gradient-bytes", between(request.gradient_bytes, 1, 8),
             "bytes of a gradient in the all-reduce");
  app.option("--parameter-bytes", between(request.parameter_bytes, 1, 8),
             "bytes of a parameter in ZeRO's all-gather");
  app.option("--compression-ratio", between(request.compression, 1, 1000),
             "compression ratio of the gradients");
  app.option("--zero", between(request.zero, 0, 3), "ZeRO stage");

  app.option("--no-overlap", options.no_overlap, "reduce after backward instead of during it");
  app.option("--sync-each-micro-batch", request.every_micro_batch,
             "reduce after each micro-batch, as without no_sync()");

  options.cluster.add(app);
}

void add_disturbance_flags(CommandLine& app, Options& options) {
  ScaleRequest& request = options.request;
  app.group("Stragglers and failures");
  const Flag jitter = app.option("--jitter", between(request.jitter.variation, 0.0, 1.0),
                                 "standard deviation of a rank's compute time, relative to the mean, 0 to 1");
  using Shape = JitterRequest::Shape;
  app.option("--jitter-shape",
             named_option_value<Shape>(request.jitter.shape, {{"lognormal", Shape::lognormal},
                                                              {"exponential", Shape::exponential}}),
             "lognormal or exponential")
      .needs(jitter);
  app.option("--steps", between(request.steps, 1, 10'000),
             "number of simulated steps, of which the mean is taken");
  app.option("--seed", request.jitter.seed, "seed of the jitter").needs(jitter);

  Flag failures = app.option("--mtbf-hours", between(request.rank_mtbf_hours, 1, 1e9),
                             "mean time between failures of one rank, in hours [never]")
                      .no_default();
  const Flag checkpoint = app.option("--checkpoint-seconds", between(request.checkpoint, 1e-3, 1e6),
                                     "seconds to write a checkpoint")
                              .needs(failures);
  failures.needs(checkpoint);
  app.option("--restart-seconds", between(request.restart, 0, 1e6),
             "seconds from a failure until training resumes [0]")
      .needs(failures)
      .no_default();
  app.option("--checkpoint-interval-seconds", between(request.checkpoint_interval, 1e-3, 1e9),
             "seconds of training between two checkpoints [the best: Daly, 2006]")
      .needs(failures)
      .no_default();
}

void add_output_flags(CommandLine& app, Options& options) {
  app.group("Output");
  const Flag ranks =
      app.option("--ranks", between(options.request.ranks, 1, 1'000'000), "numbers of ranks: 8,64,512")
          .type_name("INT,INT,...");

  app.option("--max-ranks", between(options.max_ranks, 1, 1'000'000),
             "without --ranks: 1, 2, 4, ... up to this number")
      .excludes(ranks);
  app.option("--messages-up-to", between(options.request.messages_up_to, 0, 4096),
             "largest number of ranks for which messages are simulated; above it closed formulas are used");

  app.option("--svg", format_file_value(options.svg, {".svg"}),
             "draw throughput, efficiency and exposed communication into this file");
  add_json_flag(app, options.json);
}

ScaleMesh mesh_of(const Options& options, const TransformerOptions& model) {
  ScaleMesh mesh;
  mesh.request.model = model;
  mesh.request.compute = options.dtype;
  mesh.config.mesh = {.tensor = static_cast<int>(options.tensor.value_or(1)),
                      .context = static_cast<int>(options.context.value_or(1)),
                      .pipeline = static_cast<int>(options.pipeline.value_or(1))};
  mesh.config.chunks = options.chunks;
  mesh.config.sequence_parallel = options.sequence_parallel;
  mesh.config.recompute = options.recompute;
  return mesh;
}

void plan(const Options& options) {
  ScaleRequest request = options.request;
  if (options.transformer.are_given()) {
    TransformerOptions model = options.transformer.model();
    model.context = request.sequence;
    check_sizes(model);
    request.parameters = parameter_count(model);
    request.sample_flops = forward_flops(model, 1, request.sequence);
    if (!options.is_of_any_model()) request.mesh = mesh_of(options, model);
  }
  check(request.parameters > 0, "which model? Expected --parameters or --layers");
  request.cluster = options.cluster.cluster();
  if (options.forward_ms) request.forward = *options.forward_ms / 1e3;
  if (options.backward_ms) request.backward = *options.backward_ms / 1e3;
  request.optimizer = options.optimizer_ms / 1e3;
  const BucketSizes buckets = buckets_of_mib(options.bucket_mib);
  request.bucket = buckets.bytes;
  request.first_bucket =
      options.first_bucket_mib ? buckets_of_mib(*options.first_bucket_mib).bytes : buckets.first_bytes;
  request.overlap = !options.no_overlap;
  if (request.ranks.empty()) {
    const std::int64_t of_model = request.mesh ? request.mesh->model_ranks() : 1;
    const int stages = request.mesh ? request.mesh->config.mesh.pipeline : 1;
    request.ranks = doubling_ranks(request.cluster, options.max_ranks, of_model, stages);
  }
  std::sort(request.ranks.begin(), request.ranks.end());
  request.ranks.erase(std::unique(request.ranks.begin(), request.ranks.end()), request.ranks.end());

  const ScalePlan plan = plan_scale(request);
  check_different("--svg", options.svg, "--json", options.json);
  if (!options.svg.empty()) save_text(options.svg, scale_svg(plan));
  print_plan(scale_text(request, plan), scale_json(request, plan), options.json);
}

}  // namespace

void add_scale_command(CommandLine& app) {
  const auto options = std::make_shared<Options>();
  CommandLine& command = app.command(
      "scale",
      "Simulates steps of training on increasing numbers of ranks, which divide the batch, and with "
      "--tensor-parallel, --context-parallel and --pipeline-parallel the model: the time of a step, and the "
      "part of it spent waiting for other ranks.\n"
      "Example: plan scale --parameters 1300000000 --micro-batch 2 --context 4096 --svg scale.svg\n"
      "Example: plan scale --parameters 25000000 --forward-ms 60 --backward-ms 120 --gradient-bytes 4 "
      "--micro-batch 32 --cluster p100-ethernet --algorithm hierarchical --ranks 8,64,256\n"
      "Example: plan scale --layers 80 --width 8192 --heads 64 --context 4096 --vocabulary 50257 "
      "--tensor-parallel 8 --pipeline-parallel 8 --accumulation 32",
      [options] { plan(*options); });
  add_model_flags(command, *options);
  add_communication_flags(command, *options);
  add_mesh_flags(command, *options);
  add_disturbance_flags(command, *options);
  add_output_flags(command, *options);
}

}  // namespace ringtape::planner
