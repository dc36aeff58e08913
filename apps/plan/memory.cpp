#include <memory>

#include "apps/plan/commands.h"
#include "apps/plan/output.h"
#include "apps/plan/transformer_flags.h"
#include "core/error.h"
#include "nn/shard_layout.h"
#include "optim/registry.h"
#include "planner/memory.h"
#include "planner/numbers.h"
#include "train/option_types.h"

namespace ringtape::planner {
namespace {

struct Options {
  MlpRequest mlp;
  bool no_bias = false;
  TransformerRequest transformer;
  TransformerFlags sizes;
  bool is_tiled = false;  ///< --attention
  std::int64_t recompute = 0;
  std::optional<std::int64_t> parameters;
  MemoryRequest request;
  const OptimizerKind* optimizer = &optimizer_named("adam");
  std::optional<double> momentum;
  Recompute granularity = Recompute::none;
  double bucket = 25;          // MiB
  std::int64_t workspace = 0;  // MiB
  std::string json;
};

const std::vector<std::pair<std::string, Recompute>> kGranularities = {
    {"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}};

void add_model_flags(CommandLine& app, Options& options) {
  app.group("Model: one of --mlp, --layers (of a GPT-2) and --parameters");
  const Flag mlp = app.option("--mlp", between(options.mlp.sizes, 1, kMaxSize),
                              "sizes of an MLP's layers, input first: 784,256,10")
                       .type_name("INT,INT,...");
  app.option("--no-bias", options.no_bias, "the MLP has no biases").needs(mlp);
  app.option("--trainable-layers", between(options.mlp.trainable_layers, 1, kMaxSize),
             "train only this many of the MLP's last layers [all]")
      .needs(mlp)
      .no_default();
  app.option(
      "--recompute", between(options.recompute, 0, kMaxSize),
      "of an MLP, or with --attention tiled: keep only the input of each segment of this many layers or "
      "blocks; 0: keep everything");

  const Flag layers = options.sizes.add(app).excludes(mlp);
  app.option("--attention", named_option_value<bool>(options.is_tiled, {{"plain", false}, {"tiled", true}}),
             "plain: activations by the papers' formulas; tiled: state and activations of this framework's "
             "GPT, which keeps no T x T tensors")
      .needs(layers);
  app.option("--recompute-granularity", named_option_value(options.granularity, kGranularities),
             "recomputation by the papers' formulas: none, selective (only attention scores) or full [none]")
      .needs(layers)
      .no_default();
  app.option("--parameters", between(options.parameters, 1, kMaxSize),
             "number of parameters of any model, without activations")
      .excludes(mlp)
      .excludes(layers);
  app.option("--trainable-fraction", between(options.transformer.trainable_fraction, 0, 1),
             "trainable fraction of --parameters or of a transformer's parameters, up to 1 [1]")
      .excludes(mlp)
      .no_default();
  app.option("--f32-gradients", options.transformer.f32_gradients,
             "gradients of --parameters or a transformer are f32 with any --dtype, as for an MLP")
      .excludes(mlp);
}

void add_training_flags(CommandLine& app, Options& options) {
  app.group("Training");
  app.option("--micro-batch", between(options.request.micro_batch, 1, kMaxSize), "samples in a forward pass")
      .excludes(app["--parameters"]);
  app.option("--dtype", dtype_value(options.request.compute), "compute dtype: f32, bf16 or f16");
  app.option("--optimizer", optimizer_value(options.optimizer), "the optimizer");
  app.option("--momentum", between(options.momentum, 0, 1e30),
             "momentum of --optimizer, for those that have it [" +
                 optimizer_defaults(&OptimizerSettings::momentum) + "]")
      .no_default();
  app.option("--zero", between(options.request.sharding.zero_stage, 0, 3), "ZeRO stage");
  app.option("--ranks", between(options.request.sharding.ranks, 1, kMaxSize), "data-parallel GPUs");
  app.option("--bucket-mib", between(options.bucket, 1e-6, 1e6), "MiB of gradients in a bucket");
  app.option("--workspace-mib", between(options.workspace, 0, 1 << 20),
             "MiB of workspace; on a GPU Ringtape gives cuBLAS 32 for each stream");
  Flag inference = app.option("--inference", options.request.inference, "only a forward pass");
  for (const char* of_training :
       {"--trainable-layers", "--trainable-fraction", "--recompute", "--recompute-granularity",
        "--f32-gradients", "--optimizer", "--momentum"}) {
    inference.excludes(app[of_training]);
  }
  app.group("Output");
  add_json_flag(app, options.json);
}

MemoryPlan plan_of(Options options) {
  MemoryRequest& request = options.request;
  const OptimizerKind& optimizer = *options.optimizer;
  OptimizerSettings settings = optimizer.defaults;
  settings.momentum = options.momentum.value_or(settings.momentum);
  check(!options.momentum || has_setting(optimizer, &OptimizerSettings::momentum),
        "--momentum has no effect: expected --optimizer {} with it, found {}",
        list_of(optimizers_with(&OptimizerSettings::momentum)), optimizer.name);
  request.state_per_parameter = optimizer.state_per_parameter(settings);
  request.sharding.bucket_bytes = buckets_of_mib(options.bucket).bytes;
  request.workspace = options.workspace << 20;
  const bool is_mlp = !options.mlp.sizes.empty();
  check(options.recompute == 0 || is_mlp || options.is_tiled,
        "--recompute {} has no effect: expected --mlp or --attention tiled with it", options.recompute);
  if (is_mlp) {
    options.mlp.recompute = options.recompute;
    options.mlp.with_bias = !options.no_bias;
    return plan_memory(options.mlp, request);
  }
  if (options.parameters) return plan_state(*options.parameters, options.transformer, request);
  check(options.sizes.are_given(), "which model? Expected --mlp, --layers or --parameters");
  if (options.is_tiled) {
    check(
        options.granularity == Recompute::none && options.transformer.trainable_fraction == 1,
        "--recompute-granularity and --trainable-fraction are for --attention plain; tiled has --recompute");
    return plan_memory(GptRequest{options.sizes.model(), options.recompute}, request);
  }
  options.transformer.model = options.sizes.model();
  options.transformer.recompute = options.granularity;
  return plan_memory(options.transformer, request);
}

void plan(const Options& options) {
  const MemoryPlan plan = plan_of(options);
  print_plan(memory_text(plan), memory_json(plan), options.json);
}

}  // namespace

void add_memory_command(CommandLine& app) {
  const auto options = std::make_shared<Options>();
  CommandLine& command = app.command(
      "memory",
      "Computes the memory of one GPU: parameters, gradients, optimizer state, activations.\n"
      "Example: plan memory --mlp 784,256,10 --micro-batch 64\n"
      "Example: plan memory --layers 48 --width 1600 --heads 25 --context 1024 --vocabulary 50257 "
      "--dtype bf16 --micro-batch 8 --zero 2 --ranks 64",
      [options] { plan(*options); });
  add_model_flags(command, *options);
  add_training_flags(command, *options);
}

}  // namespace ringtape::planner
