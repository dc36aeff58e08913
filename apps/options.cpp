#include "apps/options.h"

#include <charconv>
#include <cmath>

#include "apps/option_groups.h"
#include "apps/recipe.h"
#include "apps/settings.h"

namespace ringtape::apps {
namespace {

/// Accepts what fits a 64-bit seed; CLI11 alone would wrap -1 round.
CLI::Validator seed_check() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        std::uint64_t seed = 0;
        const char* const end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, seed);
        if (error == std::errc() && stop == end) return "";
        return "'" + text + "' is not a whole number from 0 to 2^64 - 1";
      },
      "");
}

/// Accepts a number of updates, or "auto".
CLI::Validator warmup_check() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const bool digits =
            !text.empty() && text.size() < 16 && text.find_first_not_of("0123456789") == std::string::npos;
        if (digits || text == "auto") return "";
        return "'" + text + "' is neither a number of updates nor auto";
      },
      "");
}

/// Accepts finite numbers that are not negative.
CLI::Validator size_check() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        double value = 0;
        if (!CLI::detail::lexical_cast(text, value)) return "'" + text + "' is not a number";
        if (std::isfinite(value) && value >= 0) return "";
        return "expected a finite number that is at least 0, found " + text;
      },
      "");
}

void add_machine_flags(CLI::App& app, TrainOptions& options) {
  app.option_defaults()->group("Machine");
  app.add_option("--device", options.device, "auto, cpu, cuda or cuda:N; auto: the first GPU, else cpu");
  app.add_option(
         "--gemm", options.gemm,
         "matrix products by the vendor's library (cuBLAS, oneDNN) or by our own kernel; default: vendor "
         "where there is one, as it is faster")
      ->check(CLI::IsMember({"default", "own", "vendor"}));
  app.add_flag("--tf32", options.tf32, "let cuBLAS round the operands of f32 products to TF32 (faster)");
  app.add_flag("--graph", options.graph,
               "capture an update as a CUDA graph and replay it: the same result, less time between kernels");
  app.add_option("--seed", options.seed, "seed of the initial weights and of the order of the data")
      ->check(seed_check());
}

void add_model_flags(CLI::App& app, TrainOptions& options) {
  app.option_defaults()->group("Model");
  app.add_option("--hidden", options.hidden, "sizes of the hidden layers, such as 256,128")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  app.add_option(
         "--dtype", options.dtype,
         "what the model computes in; its weights and their gradients are f32 in any case. auto: bf16 "
         "where the device has instructions for it, else f16; f16 scales the loss, and skips an "
         "update whose gradients overflow")
      ->check(CLI::IsMember({"f32", "bf16", "f16", "auto"}));
  app.add_option(
         "--recompute", options.recompute,
         "cut the hidden layers into segments of this many, keep each segment's input alone and compute "
         "the rest again in backward: less memory from 2 on, more time, the same result to the bit; 0: "
         "keep everything")
      ->check(kNotNegative);
  app.add_option("--load", options.load, "start from the weights in this safetensors file")
      ->check(file_name_check())
      ->type_name("FILE");
  app.add_option("--save", options.save, "write the trained weights to this safetensors file")
      ->check(file_name_check())
      ->type_name("FILE");
}

void add_training_flags(CLI::App& app, TrainOptions& options) {
  app.option_defaults()->group("Training");
  app.add_option("--epochs", options.epochs, "times to go through the training data")->check(kPositive);
  app.add_option("--max-steps", options.max_steps, "stop after this many updates; 0: no limit")
      ->check(kNotNegative);
  app.add_option("--batch-size", options.batch_size, "samples in an update of the weights (the global batch)")
      ->check(kPositive);
  app.add_option(
         "--micro-batch", options.micro_batch,
         "samples that go through the model at a time; the gradients of a batch are accumulated, with the "
         "result of the whole batch at once; 0: the whole batch")
      ->check(kNotNegative);
  app.add_option("--eval-batch-size", options.eval_batch_size, "samples at a time when testing")
      ->check(kPositive);
  app.add_flag("--eval-only", options.eval_only, "only test the weights given with --load")
      ->excludes(app.get_option("--save"));
}

void add_optimizer_flags(CLI::App& app, TrainOptions& options) {
  app.option_defaults()->group("Optimizer");
  app.add_option("--optimizer", options.optimizer, "sgd, adam, adamw, lamb or lars")
      ->check(CLI::IsMember({"sgd", "adam", "adamw", "lamb", "lars"}));
  app.add_option("--lr", options.lr, "learning rate [adam, adamw: 0.001; lamb: 0.01; sgd: 0.05; lars: 10]")
      ->check(size_check());
  app.add_option("--momentum", options.momentum, "momentum of sgd and lars")->check(size_check());
  app.add_option("--weight-decay", options.weight_decay, "weight decay [adamw, lamb: 0.01; others: 0]")
      ->check(size_check());
  app.add_flag("--decay-biases", options.decay_biases, "decay the biases too, as PyTorch's optimizers do");
}

void add_clipping_flags(CLI::App& app, TrainOptions& options) {
  app.option_defaults()->group("Clipping");
  app.add_option("--clip-norm", options.clip_norm, "limit of the global gradient norm; 0: no clipping")
      ->check(size_check());
  app.add_option("--clip-norm-type", options.clip_norm_type,
                 "p of that norm, above 0; inf: the largest element")
      ->check(CLI::Number)
      ->needs("--clip-norm");
  app.add_flag("--clip-each-micro-batch", options.clip_each_micro_batch,
               "clip what has been accumulated so far after every micro-batch, to the limit divided by the "
               "square root of their number; the result depends on how a batch is cut");
  app.add_option("--clip-value", options.clip_value, "limit of each gradient element; 0: no clipping")
      ->check(size_check());
}

void add_schedule_flags(CLI::App& app, TrainOptions& options) {
  app.option_defaults()->group("Schedule of the learning rate");
  app.add_option(
         "--schedule", options.schedule,
         "after the warm-up: constant; linear, cosine or polynomial (down to --final-lr); step (times "
         "--gamma every --step-epochs); or one-cycle, which has a warm-up of its own")
      ->check(CLI::IsMember({"constant", "linear", "cosine", "polynomial", "step", "one-cycle"}));
  app.add_option("--final-lr", options.final_lr,
                 "where linear, cosine and polynomial end, as a share of --lr")
      ->check(number_check(0, 1));
  app.add_option("--power", options.power, "exponent of polynomial")->check(size_check());
  app.add_option("--step-epochs", options.step_epochs, "epochs between two drops of step")->check(kPositive);
  app.add_option("--gamma", options.gamma, "factor of each drop of step")->check(size_check());
  app.add_option("--warmup", options.warmup,
                 "updates of warm-up, or auto: 0.3125 epochs at a batch of 512 and in proportion to the "
                 "batch (You et al., 2020), at most a quarter of the run")
      ->check(warmup_check());
  app.add_option("--warmup-shape", options.warmup_shape,
                 "linear or quadratic rise, or constant at a third of the rate")
      ->check(CLI::IsMember({"linear", "quadratic", "constant"}))
      ->needs("--warmup");
  app.add_option("--lr-scaling", options.lr_scaling,
                 "how the rate grows with the batch: --lr is then that of --base-batch")
      ->check(CLI::IsMember({"none", "linear", "sqrt"}));
  app.add_option("--base-batch", options.base_batch, "batch that --lr suits, for --lr-scaling")
      ->needs("--lr-scaling")
      ->check(kPositive);
  app.add_flag("--print-schedule", options.print_schedule,
               "print and draw the learning rate of this run, and do not train");
}

}  // namespace

void add_train_options(CLI::App& app, TrainOptions& options) {
  app.option_defaults()->always_capture_default();
  add_machine_flags(app, options);
  add_model_flags(app, options);
  add_training_flags(app, options);
  add_optimizer_flags(app, options);
  add_clipping_flags(app, options);
  add_schedule_flags(app, options);
  add_checkpoint_flags(app, options);
  add_rank_flags(app, options);
  add_output_flags(app, options);
  app.callback([&app, &options] {
    if (!options.recipe.empty()) apply_recipe(app, options.recipe);
    options.settings = settings_of(app);
    options.given = given_flags(app);
    options.describe_program = [&app] { return describe_program(app); };
  });
}

void add_recipe_flag(CLI::App& app, TrainOptions& options) {
  std::vector<std::string> names;
  for (const Recipe& recipe : recipes()) names.push_back(recipe.name);
  app.add_option("--recipe", options.recipe,
                 "a set of flags that train well together; those you give come before it")
      ->check(CLI::IsMember(names))
      ->group("Training");
}

}  // namespace ringtape::apps
