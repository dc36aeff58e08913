#include <fmt/format.h>

#include <map>
#include <memory>

#include "apps/planner/commands.h"
#include "apps/planner/memory.h"
#include "apps/planner/numbers.h"
#include "core/error.h"

namespace ringtape::planner {
namespace {

struct Options {
  MlpRequest mlp;
  bool no_bias = false;
  TransformerRequest transformer;
  std::optional<std::int64_t> layers;
  std::optional<std::int64_t> parameters;
  MemoryRequest request;
  std::string dtype = "f32";
  std::string optimizer = "adam";
  std::string recompute = "none";
  std::int64_t bucket = 25;    // MiB
  std::int64_t workspace = 0;  // MiB
  bool json = false;
};

const std::map<std::string, std::int64_t> kStateOf = {{"adam", 2}, {"adamw", 2},    {"lamb", 2},
                                                      {"lars", 1}, {"momentum", 1}, {"sgd", 0}};
const std::map<std::string, Recompute> kRecompute = {
    {"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}};

void add_model_flags(CLI::App& app, Options& options) {
  const auto size = CLI::Range(std::int64_t{1}, kLargestSize);
  app.option_defaults()
      ->group("Model: one of --mlp, --layers and --parameters")
      ->always_capture_default(false);
  CLI::Option* const mlp =
      app.add_option("--mlp", options.mlp.sizes, "sizes of an MLP's layers, input first: 784,256,10")
          ->delimiter(',')
          ->check(size)
          ->type_name("INT,INT,...");
  app.add_flag("--no-bias", options.no_bias, "the MLP has no biases")->needs(mlp);
  app.add_option("--trained-layers", options.mlp.trained_layers,
                 "train so many of the MLP's last layers alone [all]")
      ->check(size)
      ->needs(mlp);
  app.add_option("--recompute-layers", options.mlp.recompute,
                 "recompute the MLP's activations in segments of so many layers")
      ->check(size)
      ->needs(mlp);

  Transformer& model = options.transformer.model;
  CLI::Option* const layers =
      app.add_option("--layers", options.layers, "layers of a transformer as GPT-2 has them")
          ->check(size)
          ->excludes(mlp);
  for (CLI::Option* option : {
           app.add_option("--hidden", model.hidden, "its hidden size"),
           app.add_option("--heads", model.heads, "its attention heads"),
           app.add_option("--sequence", model.sequence, "tokens in a sample"),
           app.add_option("--vocabulary", model.vocabulary, "size of its vocabulary"),
       }) {
    option->check(size)->needs(layers);
    layers->needs(option);
  }
  app.add_option("--recompute", options.recompute,
                 "of its activations: none, selective (attention scores alone) or full [none]")
      ->check(CLI::IsMember(kRecompute))
      ->needs(layers);
  app.add_option("--parameters", options.parameters, "number of parameters of any model: its state alone")
      ->check(size)
      ->excludes(mlp)
      ->excludes(layers);
  app.add_option("--trained-share", options.transformer.trained_share,
                 "share of a transformer's, or of these, that is trained, up to 1 [1]")
      ->check(CLI::Number)
      ->excludes(mlp);
  app.add_flag("--f32-gradients", options.transformer.f32_gradients,
               "gradients of a transformer, or of these, in f32 whatever --dtype, as an MLP has them here")
      ->excludes(mlp);
}

void add_training_flags(CLI::App& app, Options& options) {
  const auto size = CLI::Range(std::int64_t{1}, kLargestSize);
  app.option_defaults()->group("Training")->always_capture_default();
  app.add_option("--micro-batch", options.request.micro_batch, "samples that go through the model at a time")
      ->check(size)
      ->excludes(app.get_option("--parameters"));
  app.add_option("--dtype", options.dtype, "what the model computes in: f32, bf16 or f16")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  app.add_option("--optimizer", options.optimizer, "adam, adamw, lamb, lars, momentum or sgd")
      ->check(CLI::IsMember(kStateOf));
  app.add_option("--zero", options.request.sharding.stage, "ZeRO stage")->check(CLI::Range(0, 3));
  app.add_option("--ranks", options.request.sharding.ranks, "data-parallel GPUs")->check(size);
  app.add_option("--bucket", options.bucket, "MiB of gradients that are reduced at a time")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  app.add_option("--workspace", options.workspace,
                 "MiB of workspace; on a GPU this framework gives cuBLAS 32 for each stream")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 20));
  CLI::Option* const inference = app.add_flag("--inference", options.request.inference, "a forward alone");
  for (const char* of_training :
       {"--trained-layers", "--trained-share", "--recompute-layers", "--recompute", "--f32-gradients"}) {
    inference->excludes(app.get_option(of_training));
  }
  app.option_defaults()->group("Output");
  app.add_flag("--json", options.json, "print the plan as JSON");
}

MemoryPlan plan_of(Options options) {
  MemoryRequest& request = options.request;
  request.compute = dtype_from_name(options.dtype.c_str());
  request.state_per_parameter = kStateOf.at(options.optimizer);
  request.sharding.bucket_bytes = options.bucket << 20;
  request.workspace = options.workspace << 20;
  if (!options.mlp.sizes.empty()) {
    options.mlp.with_bias = !options.no_bias;
    return plan_memory(options.mlp, request);
  }
  if (options.parameters) return plan_state(*options.parameters, options.transformer, request);
  check(options.layers.has_value(), "which model? Expected --mlp, --layers or --parameters");
  options.transformer.model.layers = *options.layers;
  options.transformer.recompute = kRecompute.at(options.recompute);
  return plan_memory(options.transformer, request);
}

void plan(const Options& options) {
  const MemoryPlan plan = plan_of(options);
  fmt::print("{}", options.json ? memory_json(plan).dump(2) + "\n" : memory_text(plan));
}

}  // namespace

void add_memory_command(CLI::App& app, std::function<void()>& chosen) {
  CLI::App* const command = app.add_subcommand(
      "memory",
      "Works out what one GPU has to hold: parameters, gradients, optimizer state, activations.\n"
      "Example: plan memory --mlp 784,256,10 --micro-batch 64\n"
      "Example: plan memory --layers 48 --hidden 1600 --heads 25 --sequence 1024 --vocabulary 50257 --dtype "
      "bf16 "
      "--micro-batch 8 --zero 2 --ranks 64");
  const auto options = std::make_shared<Options>();
  add_model_flags(*command, *options);
  add_training_flags(*command, *options);
  command->callback([options, &chosen] { chosen = [options] { plan(*options); }; });
}

}  // namespace ringtape::planner
