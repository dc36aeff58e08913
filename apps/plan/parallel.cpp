#include "planner/parallel.h"

#include <memory>

#include "apps/model_flags.h"
#include "apps/plan/bytes.h"
#include "apps/plan/cluster_flags.h"
#include "apps/plan/commands.h"
#include "apps/plan/output.h"
#include "nn/shard_layout.h"
#include "optim/registry.h"
#include "planner/numbers.h"
#include "train/option_list.h"
#include "train/option_types.h"

namespace ringtape::planner {
namespace {

struct Options {
  ParallelRequest request;
  ModelFlags model;
  std::int64_t vocabulary = 0;
  ClusterFlags cluster;
  Bytes memory{.number = 80'000'000'000, .text = "80GB"};
  const OptimizerKind* optimizer = &optimizer_named("adam");
  bool sequence_parallel = false, no_sequence_parallel = false;
  bool reshard = false, no_reshard = false;
  std::int64_t workspace_mib = 0;
  double bucket_mib = 25;
  std::int64_t show = 5;
  std::string json;
};

void add_model_flags(CommandLine& app, Options& options) {
  ParallelRequest& request = options.request;
  app.group("Model and batch");
  options.model.add(app);
  for (const char* size : {"--layers", "--heads", "--width", "--context"}) app[size].required();
  app.option("--vocabulary", between(options.vocabulary, 1, kMaxSize), kVocabularyHelp).required();
  app.option("--batch-size", between(request.global_batch, 1, kMaxSize), kBatchSizeHelp);
  app.option("--dtype", dtype_value(request.compute), "compute dtype: f32, bf16 or f16");
  app.option("--optimizer", optimizer_value(options.optimizer),
             "the optimizer, with the defaults of the training programs");
  app.option("--compress", compression_value(request.compress),
             "dtype of gradients between ranks; excludes ZeRO");
  app.option("--bucket-mib", between(options.bucket_mib, 1e-6, 1e6), "MiB of gradients in a bucket");
}

void add_rank_flags(CommandLine& app, Options& options) {
  ParallelRequest& request = options.request;
  app.group("Ranks");
  app.option("--ranks", between(request.ranks, 1, 100'000), "GPUs");
  app.option("--memory", option_value(options.memory),
             "memory of one GPU, such as 80GB: " + std::string(kUnitsHelp));
  app.option(
      "--workspace-mib", between(options.workspace_mib, 0, 1 << 20),
      "MiB of --memory that the model does not use; on a GPU Ringtape gives cuBLAS 32 for each stream");
  app.option("--flops", between(request.flops, 1, 1e21), "FLOP/s of a rank in matrix products");
  app.option("--algorithm", algorithm_value(request.algorithm),
             "algorithm of the collectives: ring, tree or hierarchical");

  app.group("Sizes to fix instead of searching them");
  app.option("--tensor-parallel", between(request.tensor, 1, 100'000),
             "number of ranks that divide each layer")
      .no_default();
  app.option("--context-parallel", between(request.context, 1, 100'000),
             "number of ranks that divide the tokens of a sequence")
      .no_default();
  app.option("--pipeline-parallel", between(request.pipeline, 1, 100'000), "number of stages").no_default();
  app.option("--zero", between(request.zero, 0, 3), "ZeRO stage").no_default();
  app.option("--micro-batch", between(request.micro_batch, 1, kMaxSize), "samples in a forward pass")
      .no_default();
  const Flag sequence =
      app.option("--sequence-parallel", options.sequence_parallel, "tensor ranks divide the tokens too");
  app.option("--no-sequence-parallel", options.no_sequence_parallel, "tensor ranks do not divide the tokens")
      .excludes(sequence);
  app.option("--pipeline-chunks", between(request.chunks, 1, 100),
             "chunks of the model (virtual stages) in each stage")
      .no_default();
  app.option("--recompute", between(request.recompute, 0, kMaxSize),
             "keep only the input of each segment of this many blocks; 0: keep everything")
      .no_default();
  const Flag no_reshard = app.option("--no-reshard", options.no_reshard,
                                     "ZeRO 3 keeps what a forward has gathered until its backward");
  app.option("--reshard", options.reshard, "ZeRO 3 gathers again for the backward").excludes(no_reshard);
  options.cluster.add(app);
  app.group("Output");
  app.option("--show", between(options.show, 1, 1'000'000), "number of plans to print");
  add_json_flag(app, options.json);
}

void plan(const Options& options) {
  ParallelRequest request = options.request;
  request.model = options.model.shape(options.vocabulary);
  request.cluster = options.cluster.cluster();
  request.memory = bytes_of("--memory", options.memory);
  request.workspace = options.workspace_mib << 20;
  request.bucket_sizes = buckets_of_mib(options.bucket_mib);
  if (options.sequence_parallel || options.no_sequence_parallel) {
    request.sequence_parallel = options.sequence_parallel;
  }
  if (options.reshard || options.no_reshard) request.reshard = options.reshard;
  request.state_per_parameter = options.optimizer->state_per_parameter(options.optimizer->defaults);
  const ParallelPlans plans = plan_parallel(request);
  print_plan(parallel_text(request, plans, options.show), parallel_json(request, plans), options.json);
}

}  // namespace

void add_parallel_command(CommandLine& app) {
  const auto options = std::make_shared<Options>();
  CommandLine& command = app.command(
      "parallel",
      "Finds the mesh of tensor, context, pipeline and data ranks that trains a GPT fastest: prints memory, "
      "traffic and step time of the best plans, and why others do not fit.\n"
      "The flags of the model and of fixed sizes are those of gpt train: with them the command gives the "
      "numbers of one run.\n"
      "Example: plan parallel --layers 32 --width 4096 --heads 32 --context 4096 --vocabulary 50257 --bias "
      "--ranks 64 --batch-size 512",
      [options] { plan(*options); });
  add_model_flags(command, *options);
  add_rank_flags(command, *options);
}

}  // namespace ringtape::planner
