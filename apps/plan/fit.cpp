#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "apps/plan/bytes.h"
#include "apps/plan/commands.h"
#include "apps/plan/output.h"
#include "apps/plan/transformer_flags.h"
#include "core/ceil_div.h"
#include "core/error.h"
#include "core/memory.h"
#include "planner/fit_trial.h"
#include "planner/memory.h"
#include "planner/numbers.h"
#include "train/option_list.h"
#include "train/option_types.h"

namespace ringtape::planner {
namespace {

struct Options {
  TrialModel model;
  TransformerFlags transformer;
  std::optional<Device> device;
  Bytes memory, state, sample;
  bool estimate = false;
  std::int64_t global_batch = 0;
  std::int64_t ranks = 1;
  std::string json;
};

void add_flags(CommandLine& app, Options& options) {
  app.group("Batch");
  app.option("--batch-size", between(options.global_batch, 1, kMaxSize), kBatchSizeHelp).required();

  app.option("--ranks", between(options.ranks, 1, kMaxSize), "data-parallel GPUs");

  app.group("Memory");
  app.option(
      "--memory", option_value(options.memory),
      "memory of one GPU, such as 16GB: " + std::string(kUnitsHelp) + "; required to run the model on a CPU");
  Flag state = app.option("--state", option_value(options.state),
                          "bytes of parameters, gradients and optimizer state of any model");
  Flag sample = app.option("--sample", option_value(options.sample),
                           "bytes of activations of each sample in a micro-batch");
  state.needs(sample);
  sample.needs(state);

  app.group("The model that is run: an MLP, or a GPT-2");
  const Flag mlp =
      app.option("--mlp", between(options.model.sizes, 1, kMaxSize), "sizes of its layers, input first")
          .type_name("INT,INT,...")
          .excludes(state);
  options.transformer.add(app).excludes(state).excludes(mlp);
  const Flag estimate =
      app.option("--estimate", options.estimate, "compute the memory by formula without running")
          .excludes(state);
  app.option("--recompute", between(options.model.recompute, 0, kMaxSize),
             "keep only the input of each segment of this many layers or blocks; 0: keep everything")
      .excludes(state);

  app.option("--optimizer", optimizer_value(options.model.optimizer),
             "the optimizer, with the defaults of the training programs")
      .excludes(state);
  app.option("--dtype", dtype_value(options.model.compute), "compute dtype: f32, bf16 or f16")
      .excludes(state);
  app.option("--device", options.device, kDeviceHelp).excludes(state).excludes(estimate);
  app.group("Output");
  add_json_flag(app, options.json);
}

FitTrial worked_out(std::int64_t micro_batch, std::int64_t bytes, std::int64_t memory) {
  return {.micro_batch = micro_batch, .bytes = bytes, .fits = bytes <= memory};
}

std::string division_text(const Options& options, double quotient, std::int64_t most) {
  const double whole = std::floor(quotient);
  std::string text = fmt::format("micro-batch = ({} - {}) / {} = {:.6g}", options.memory.text,
                                 options.state.text, options.sample.text, quotient);
  if (whole != quotient) text += fmt::format(", rounded down to {:.6g}", whole);
  if (whole > static_cast<double>(most)) {
    text += fmt::format("; at most the batch of {} / {} = {}", grouped(options.global_batch),
                        grouped(options.ranks, "rank"), grouped(most));
  }
  return text + "\n";
}

FitResult fit_samples(const Options& options, std::int64_t most) {
  check(!options.memory.text.empty(), "--state and --sample: expected --memory too");
  const std::int64_t memory = bytes_of("--memory", options.memory);
  const std::int64_t state = bytes_of("--state", options.state);
  const std::int64_t sample = bytes_of("--sample", options.sample);
  FitResult result = largest_that_fits(most, [&](std::int64_t micro_batch) {
    return worked_out(micro_batch, state + product(micro_batch, sample), memory);
  });
  check_fits(result, memory);
  result.arithmetic =
      division_text(options, static_cast<double>(memory - state) / static_cast<double>(sample), most);
  return result;
}

FitResult fit_by_estimate(const Options& options, std::int64_t most) {
  check(!options.memory.text.empty(), "--estimate: expected --memory too");
  const std::int64_t memory = bytes_of("--memory", options.memory);
  const OptimizerKind& optimizer = *options.model.optimizer;
  const FitResult result = largest_that_fits(most, [&](std::int64_t micro_batch) {
    const MemoryRequest request{.micro_batch = micro_batch,
                                .compute = options.model.compute,
                                .state_per_parameter = optimizer.state_per_parameter(optimizer.defaults)};
    const TrialModel& model = options.model;
    const MemoryPlan plan =
        model.gpt ? plan_memory(GptRequest{*model.gpt, model.recompute}, request)
                  : plan_memory(MlpRequest{.sizes = model.sizes, .recompute = model.recompute}, request);
    return worked_out(micro_batch, plan.total(), memory);
  });
  check_fits(result, memory);
  return result;
}

FitResult fit_by_trying(const Options& options, std::int64_t most) {
  const Device device = device_or_auto(options.device);
  const bool has_memory = !options.memory.text.empty();
  check(has_memory || !device.is_cpu(),
        "filling a CPU's memory ends other programs: expected --memory, or --estimate");
  const std::int64_t memory = has_memory ? bytes_of("--memory", options.memory) : 0;
  const auto there = static_cast<std::int64_t>(physical_memory(device));
  check(memory <= there, "--memory {}: {} has {}, expected at most that to run the model, or --estimate",
        options.memory.text, to_string(device), bytes_text(there));
  const MemoryCap cap(device, memory);
  const FitResult result = largest_that_fits(
      most, [&](std::int64_t micro_batch) { return try_micro_batch(options.model, device, micro_batch); });
  check_fits(result, memory);
  return result;
}

/// The plan with the largest micro-batch; the alternatives are restricted to micro-batches that fit.
BatchPlan recommend(const BatchRequest& request, std::int64_t largest) {
  BatchPlan plan = plan_batch(request);
  std::erase_if(plan.exact, [&](const BatchShape& shape) { return shape.micro_batch > largest; });
  const std::int64_t even = ceil_div(plan.target, product(plan.shape.accumulation, plan.shape.ranks));
  if (even < plan.shape.micro_batch) {
    BatchShape shape = plan.shape;
    shape.micro_batch = even;
    plan.notes.push_back(fmt::format("a micro-batch of {} meets the target in the same number of steps: {}",
                                     grouped(even), grouped(shape.global_batch(), "sample")));
  }
  return plan;
}

void plan(Options options) {
  const std::int64_t most = ceil_div(options.global_batch, options.ranks);
  if (options.transformer.are_given()) options.model.gpt = options.transformer.model();
  const bool is_known = !options.model.sizes.empty() || options.model.gpt;
  check(is_known || !options.state.text.empty(),
        "which model? Expected --mlp, --layers, or --state with --sample");
  const FitResult result = !is_known          ? fit_samples(options, most)
                           : options.estimate ? fit_by_estimate(options, most)
                                              : fit_by_trying(options, most);
  BatchRequest request;
  request.global_batch = options.global_batch;
  request.micro_batch = result.largest;
  request.ranks = options.ranks;
  const BatchPlan plan = recommend(request, result.largest);
  print_plan(fit_text(result, plan), fit_json(result, plan), options.json);
}

}  // namespace

void add_fit_command(CommandLine& app) {
  const auto options = std::make_shared<Options>();
  CommandLine& command = app.command(
      "fit",
      "Finds the largest micro-batch that fits into memory, by running it or by formula, and plans a batch "
      "with it.\n"
      "Example: plan fit --mlp 784,2048,2048,10 --memory 128MiB --device cpu --batch-size 2048\n"
      "Example: plan fit --memory 16GB --state 14GB --sample 50MB --batch-size 256",
      [options] { plan(*options); });
  add_flags(command, *options);
}

}  // namespace ringtape::planner
