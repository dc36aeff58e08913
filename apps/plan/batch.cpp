#include <memory>

#include "apps/model_flags.h"
#include "apps/plan/commands.h"
#include "apps/plan/output.h"
#include "core/error.h"
#include "io/file.h"
#include "planner/batch_config.h"
#include "planner/batch_report.h"
#include "planner/numbers.h"
#include "train/option_list.h"

namespace ringtape::planner {
namespace {

struct Options {
  BatchRequest batch;
  std::string config;
  std::string output;
  RunRequest run;
  std::optional<double> throughput;        // samples per second of a rank
  std::optional<double> token_throughput;  // tokens per second of a rank
  std::string json;
};

void add_batch_flags(CommandLine& app, Options& options) {
  BatchRequest& batch = options.batch;
  app.group("Batch");
  app.option("--batch-size", between(batch.global_batch, 1, kMaxSize), kBatchSizeHelp);
  app.option("--global-tokens", between(batch.global_tokens, 1, kMaxSize),
             "the same in tokens, with --context");
  app.option("--context", between(batch.sequence, 1, kMaxSize), kContextHelp);
  app.option("--micro-batch", between(batch.micro_batch, 1, kMaxSize), "samples in a forward pass of a rank");
  app.option("--ranks", between(batch.ranks, 1, kMaxSize), "data-parallel GPUs");
  app.option("--accumulation", between(batch.accumulation, 1, kMaxSize),
             "micro-batches of a rank in an update");
  app.option("--max-accumulation", between(batch.max_accumulation, 1, kMaxSize),
             "limit on the computed accumulation steps [without a number: 8]")
      .value_may_be_left_out("8");
  app.option("--dataset", between(batch.dataset, 1, kMaxSize), "samples in an epoch");
  app.option("--data-percent", between(batch.data_percent, 0.1, 1.0),
             "use this percentage of --dataset, 0.1 to 1, as the global batch [without a number: 1]")
      .value_may_be_left_out("1");
}

void add_file_flags(CommandLine& app, Options& options) {
  app.group("Files");
  const Flag config =
      app.file("--config", options.config,
               "read train_batch_size, train_micro_batch_size_per_gpu and gradient_accumulation_steps "
               "from a DeepSpeed JSON file; any two and --ranks give the third, exactly");
  app.file("--output", options.output, "write the completed DeepSpeed JSON to this file").needs(config);
  add_json_flag(app, options.json);
}

void add_run_flags(CommandLine& app, Options& options) {
  app.group("Time and cost of a run");
  const Flag samples =
      app.option("--throughput", between(options.throughput, 1e-6, 1e12), "samples a second of one GPU");
  app.option("--token-throughput", between(options.token_throughput, 1e-6, 1e12),
             "the same in tokens, with --context")
      .excludes(samples);
  app.option("--efficiency", between(options.run.efficiency, 1e-6, 1),
             "scaling efficiency with all GPUs, up to 1 [1]")
      .no_default();
  app.option("--price", between(options.run.price, 0, 1e9), "price of one GPU for an hour [0]").no_default();
  app.option("--max-steps", options.run.updates, "length of the run in steps");
  app.option("--epochs", between(options.run.epochs, 1e-6, kMaxEpochs),
             "length of the run in epochs of --dataset");
  app.option("--total-tokens", options.run.total_tokens, "length of the run in tokens, with --context");
}

std::optional<RunCost> cost_of(const Options& options, const BatchPlan& plan) {
  RunRequest run = options.run;
  if (options.token_throughput) {
    check(plan.sequence.has_value(), "--token-throughput needs --context");
    run.samples_per_second = *options.token_throughput / static_cast<double>(*plan.sequence);
  } else if (options.throughput) {
    run.samples_per_second = *options.throughput;
  } else {
    check(!run.updates && !run.epochs && !run.total_tokens && run.price == 0 && run.efficiency == 1,
          "the time and cost of a run need --throughput or --token-throughput");
    return std::nullopt;
  }
  return cost_of_run(run, plan, options.batch.dataset);
}

void plan(const Options& options) {
  BatchRequest request = options.batch;
  std::optional<BatchConfig> config;
  if (!options.config.empty()) {
    const std::vector<std::uint8_t> bytes = read_file(options.config);
    config.emplace(std::string(bytes.begin(), bytes.end()), options.config);
    request = config->add_to(request);
  }
  const BatchPlan plan = plan_batch(request);
  const std::optional<RunCost> cost = cost_of(options, plan);
  check_different("--config", options.config, "--json", options.json);
  check_different("--output", options.output, "--json", options.json);
  const std::string completed = config ? config->complete(plan) : "";
  if (!options.output.empty()) save_text(options.output, completed);
  print_plan(batch_text(plan, cost) + (config ? "\n" + completed : ""), batch_json(plan, cost), options.json);
}

}  // namespace

void add_batch_command(CommandLine& app) {
  const auto options = std::make_shared<Options>();
  CommandLine& command =
      app.command("batch",
                  "Computes the missing number in global batch = micro-batch x accumulation steps x ranks.\n"
                  "Example: plan batch --global-tokens 4000000 --context 4000 --micro-batch 2 --ranks 128",
                  [options] { plan(*options); });
  add_batch_flags(command, *options);
  add_run_flags(command, *options);
  add_file_flags(command, *options);
}

}  // namespace ringtape::planner
