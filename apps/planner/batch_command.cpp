#include <fmt/format.h>

#include <memory>

#include "apps/options.h"
#include "apps/planner/batch_config.h"
#include "apps/planner/batch_report.h"
#include "apps/planner/commands.h"
#include "apps/planner/numbers.h"
#include "core/error.h"
#include "core/file.h"

namespace ringtape::planner {
namespace {

struct Options {
  BatchRequest batch;
  std::string config;
  std::string output;
  RunRequest run;
  std::optional<double> throughput;        // samples per second of a rank
  std::optional<double> token_throughput;  // tokens per second of a rank
  bool json = false;
};

void add_batch_flags(CLI::App& app, Options& options) {
  const auto size = CLI::Range(std::int64_t{1}, kLargestSize);
  BatchRequest& batch = options.batch;
  app.option_defaults()->group("Batch");
  app.add_option("--global-batch", batch.global_batch, "samples in an update of the weights")->check(size);
  app.add_option("--global-tokens", batch.global_tokens, "the same in tokens, with --sequence")->check(size);
  app.add_option("--sequence", batch.sequence, "tokens in a sample")->check(size);
  app.add_option("--micro-batch", batch.micro_batch, "samples that go through the model of a rank at a time")
      ->check(size);
  app.add_option("--ranks", batch.ranks, "data-parallel GPUs")->check(size);
  app.add_option("--accumulation", batch.accumulation, "micro-batches of a rank in an update")->check(size);
  app.add_option("--max-accumulation", batch.max_accumulation,
                 "cap on the accumulation steps that are worked out [without a number: 8]")
      ->check(size)
      ->expected(0, 1)
      ->default_str("8");
  app.add_option("--dataset", batch.dataset, "samples in an epoch")->check(size);
  app.add_option("--data-percent", batch.data_percent,
                 "take this share of --dataset, 0.1 to 1 percent, as the global batch [without a number: 1]")
      ->check(CLI::Range(0.1, 1.0))
      ->expected(0, 1)
      ->default_str("1");
}

void add_file_flags(CLI::App& app, Options& options) {
  app.option_defaults()->group("Files");
  CLI::Option* const config =
      app.add_option("--config", options.config,
                     "read train_batch_size, train_micro_batch_size_per_gpu and gradient_accumulation_steps "
                     "from a DeepSpeed JSON file; any two and --ranks give the third, exactly")
          ->check(apps::file_name_check())
          ->type_name("FILE");
  app.add_option("--output", options.output, "write the completed DeepSpeed JSON to this file")
      ->check(apps::file_name_check())
      ->type_name("FILE")
      ->needs(config);
  app.add_flag("--json", options.json, "print the plan as JSON");
}

void add_run_flags(CLI::App& app, Options& options) {
  const CLI::Validator rate = apps::number_check(1e-6, 1e12);
  app.option_defaults()->group("Time and cost of a run");
  CLI::Option* const samples =
      app.add_option("--throughput", options.throughput, "samples a second of one GPU")->check(rate);
  app.add_option("--token-throughput", options.token_throughput, "the same in tokens, with --sequence")
      ->check(rate)
      ->excludes(samples);
  app.add_option("--efficiency", options.run.efficiency,
                 "share of it that is left with all GPUs at work, up to 1 [1]")
      ->check(apps::number_check(1e-6, 1));
  app.add_option("--price", options.run.price, "price of one GPU for an hour [0]")
      ->check(apps::number_check(0, 1e9));
  app.add_option("--updates", options.run.updates, "length of the run in updates");
  app.add_option("--epochs", options.run.epochs, "length of the run in epochs of --dataset")
      ->check(apps::number_check(1e-6, 1e6));
  app.add_option("--total-tokens", options.run.total_tokens, "length of the run in tokens, with --sequence");
}

std::optional<RunCost> cost_of(const Options& options, const BatchPlan& plan) {
  RunRequest run = options.run;
  if (options.token_throughput) {
    check(plan.sequence.has_value(), "--token-throughput needs --sequence");
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
  const std::string completed = config ? config->complete(plan) : "";
  if (!options.output.empty()) {
    AtomicFile file(options.output);
    file.write(completed.data(), completed.size());
    file.commit();
  }
  if (options.json) {
    fmt::print("{}\n", batch_json(plan, cost).dump(2));
  } else {
    fmt::print("{}", batch_text(plan, cost));
    if (config) fmt::print("\n{}", completed);
  }
}

}  // namespace

void add_batch_command(CLI::App& app, std::function<void()>& chosen) {
  CLI::App* const command = app.add_subcommand(
      "batch",
      "Works out what is missing in global batch = micro-batch x accumulation steps x ranks.\n"
      "Example: plan batch --global-tokens 4000000 --sequence 4000 --micro-batch 2 --ranks 128");
  const auto options = std::make_shared<Options>();
  add_batch_flags(*command, *options);
  add_run_flags(*command, *options);
  add_file_flags(*command, *options);
  command->callback([options, &chosen] { chosen = [options] { plan(*options); }; });
}

}  // namespace ringtape::planner
