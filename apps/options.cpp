#include "apps/options.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <thread>

#include "apps/profiling.h"
#include "apps/recipe.h"
#include "apps/settings.h"
#include "core/error.h"
#include "core/profile.h"
#include "core/quote.h"
#include "dist/launch.h"

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

}  // namespace

CLI::Validator number_check(double low, double high) {
  return CLI::Validator(
      [low, high](std::string& text) -> std::string {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) return "";
        return fmt::format("expected a number from {} to {}, found {}", low, high, quote(text));
      },
      "");
}

CLI::Validator file_name_check() {
  return CLI::Validator(
      [](std::string& text) -> std::string { return text.empty() ? "the file name is empty" : ""; }, "");
}

namespace {

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

CLI::Validator step_range_check() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        try {
          parse_step_range(text);
          return "";
        } catch (const Error& error) {
          return error.what();
        }
      },
      "");
}

const auto kPositive = CLI::Range(std::int64_t{1}, std::int64_t{1} << 40);
const auto kNotNegative = CLI::Range(std::int64_t{0}, std::int64_t{1} << 40);

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

void add_checkpoint_flags(CLI::App& app, TrainOptions& options) {
  app.option_defaults()->group("Checkpoints");
  CLI::Option* const checkpoint =
      app.add_option("--checkpoint", options.checkpoint,
                     "save to this folder, from time to time and at the end, all that is needed to go on")
          ->check(file_name_check())
          ->type_name("DIR")
          ->excludes(app.get_option("--eval-only"));
  app.add_option("--every", options.every, "updates from one checkpoint to the next")
      ->check(kPositive)
      ->needs(checkpoint);
  app.add_option("--keep", options.keep, "how many checkpoints to keep: the newest")
      ->check(CLI::Range(1, 1 << 20))
      ->needs(checkpoint);
  app.add_flag("--resume", options.resume,
               "go on from the newest checkpoint that is whole, to the result of a run that was never "
               "stopped; start afresh where there is none. --device, --gemm, --micro-batch, --zero and the "
               "number of ranks may change, with a result that is the same but for rounding")
      ->needs(checkpoint);
}

void add_rank_flags(CLI::App& app, TrainOptions& options) {
  app.option_defaults()->group("Several ranks (mpirun, torchrun, srun)");
  app.add_option("--comm-timeout", options.comm_timeout,
                 "seconds after which an operation that hangs ends the run")
      ->check(number_check(0.1, 1e6));
  app.add_option("--bucket-mib", options.bucket_mib,
                 "MiB of gradients that are reduced together; the first time 1 at most, to begin early")
      ->check(number_check(1e-6, 1e6));
  app.add_flag("--no-overlap", options.no_overlap, "reduce gradients after backward instead of during it");
  app.add_flag("--sync-each-micro-batch", options.sync_each_micro_batch,
               "reduce gradients after every micro-batch instead of after the last: more communication, the "
               "same result but for rounding")
      ->excludes(app.get_option("--clip-each-micro-batch"));
  app.add_option("--zero", options.zero,
                 "what the ranks share out (ZeRO): 1: the optimizer's state; 2: the gradients too, which are "
                 "then reduced after every micro-batch; 0: nothing. No effect with one rank")
      ->check(CLI::Validator(
          [](std::string& text) -> std::string {
            const bool is_stage = text == "0" || text == "1" || text == "2";
            return is_stage ? "" : "stages are 0, 1 and 2, found " + text;
          },
          ""))
      ->excludes(app.get_option("--clip-each-micro-batch"));
  add_slow_link_flag(app, options.slow_link);
  app.add_flag("--show-launch", options.show_launch,
               "print which launcher was found, the rank, and why, and do not train");
}

void add_profile_flags(CLI::App& app, TrainOptions& options) {
  CLI::Option* const eval_only = app.get_option("--eval-only");
  CLI::Option* const profile =
      app.add_flag("--profile", options.profile,
                   "print where the time of a step went, by operation and by phase; by the host's clock, "
                   "which on a GPU tells when work was queued: its own time is not in the table yet")
          ->excludes(eval_only)
          ->excludes(app.get_option("--timeline"))
          ->excludes(app.get_option("--graph"));
  app.add_option("--profile-steps", options.profile_steps,
                 "steps A to B, such as 10:12: those that --profile is of, and on a GPU those that Nsight "
                 "looks at when it waits for cudaProfilerStart [20 steps from the run's second on]")
      ->type_name("A:B")
      ->check(step_range_check())
      ->excludes(eval_only);
  const std::span<const std::string_view> columns = profile_columns();
  app.add_option("--sort", options.sort, "column that the table of --profile is sorted by")
      ->check(CLI::IsMember(std::vector<std::string>(columns.begin(), columns.end())))
      ->needs(profile);
}

void add_output_flags(CLI::App& app, TrainOptions& options) {
  app.option_defaults()->group("Output");
  app.add_option("--metrics", options.metrics,
                 "write one JSON object for each step, and a last one, to this file")
      ->check(file_name_check())
      ->type_name("FILE");
  CLI::Option* const eval_only = app.get_option("--eval-only");
  app.add_flag("--memory-report", options.memory_report,
               "print where the memory of one update went, by category, in time and by formula")
      ->excludes(eval_only)
      ->excludes(app.get_option("--graph"));
  CLI::Option* const timeline =
      app.add_option("--timeline", options.timeline,
                     "write when each rank computed, waited and sent data to this file, as a trace that "
                     "Perfetto shows, and print how much of the communication was hidden")
          ->check(file_name_check())
          ->type_name("FILE")
          ->excludes(eval_only);
  app.add_option("--timeline-updates", options.timeline_updates,
                 "how many updates to record, at most, from the second on; a test ends it too")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->needs(timeline);
  add_profile_flags(app, options);
  app.add_flag("--print-tape", options.print_tape, "print what the tape recorded in the first step")
      ->excludes(eval_only);
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
    options.describe_program = [&app] { return describe_program(app); };
  });
}

void add_slow_link_flag(CLI::App& app, std::string& link) {
  app.add_option("--slow-link", link,
                 "hold back what ranks on CPUs send each other as a link with this latency and bandwidth "
                 "would, such as 100,250: 100 microseconds and 250 MB/s")
      ->type_name("LATENCY_US,MBYTES_PER_S")
      ->check(CLI::Validator(
          [](std::string& text) -> std::string {
            try {
              parse_slow_link(text);
              return "";
            } catch (const Error& error) {
              return error.what();
            }
          },
          ""));
}

std::optional<SlowLink> slow_link_of(const std::string& link) {
  return link.empty() ? std::nullopt : std::optional(parse_slow_link(link));
}

void add_recipe_flag(CLI::App& app, TrainOptions& options) {
  std::vector<std::string> names;
  for (const Recipe& recipe : recipes()) names.push_back(recipe.name);
  app.add_option("--recipe", options.recipe,
                 "a set of flags that train well together; those you give come before it")
      ->check(CLI::IsMember(names))
      ->group("Training");
}

namespace {

/// This process's rank as far as the launcher tells; 0 where it does not.
int rank_or_0() {
  try {
    return detect_launch(process_environment()).rank;
  } catch (const Error&) {
    return 0;
  }
}

/// Prints an error on standard error. What is wrong with a command line or a file all ranks find. So rank 0
/// says it at once, and the others after a while in which the launcher, which sees rank 0 end, ends them too:
/// mpirun does it after a second.
void tell(const char* error, const char* help = "") {
  constexpr std::chrono::milliseconds kTimeForRank0{1500};
  std::fflush(stdout);
  if (rank_or_0() > 0) std::this_thread::sleep_for(kTimeForRank0);
  std::fprintf(stderr, "error: %s%s\n", error, help);
}

}  // namespace

int run(CLI::App& app, int argc, char** argv, const std::function<void()>& program) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file too large is an error of the write, not the end of the process
  try {
    app.parse(argc, argv);
    program();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      throw std::runtime_error("standard output cannot be written");
    }
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return rank_or_0() > 0 ? 0 : app.exit(error);  // --help
    tell(error.what(), " (--help lists the flags)");
    return 2;
  } catch (const std::exception& error) {
    tell(error.what());
    return 1;
  }
}

}  // namespace ringtape::apps
