#include "apps/options.h"

#include <charconv>
#include <cstdio>
#include <exception>
#include <stdexcept>

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

}  // namespace

CLI::Validator file_name_check() {
  return CLI::Validator(
      [](std::string& text) -> std::string { return text.empty() ? "the file name is empty" : ""; }, "");
}

void add_train_options(CLI::App& app, TrainOptions& options) {
  app.option_defaults()->always_capture_default();

  app.add_option("--device", options.device, "auto, cpu, cuda or cuda:N; auto: the first GPU, else cpu")
      ->group("Machine");
  app.add_option(
         "--gemm", options.gemm,
         "matrix products by the vendor's library (cuBLAS, oneDNN) or by our own kernel; default: vendor "
         "where there is one, as it is faster")
      ->check(CLI::IsMember({"default", "own", "vendor"}))
      ->group("Machine");
  app.add_option("--seed", options.seed, "seed of the initial weights and of the order of the data")
      ->check(seed_check())
      ->group("Machine");

  app.add_option("--hidden", options.hidden, "sizes of the hidden layers, such as 256,128")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->group("Model");
  app.add_option("--load", options.load, "start from the weights in this safetensors file")
      ->check(file_name_check())
      ->type_name("FILE")
      ->group("Model");
  CLI::Option* const save =
      app.add_option("--save", options.save, "write the trained weights to this safetensors file")
          ->check(file_name_check())
          ->type_name("FILE")
          ->group("Model");

  const auto positive = CLI::Range(std::int64_t{1}, std::int64_t{1} << 40);
  app.add_option("--epochs", options.epochs, "times to go through the training data")
      ->check(positive)
      ->group("Training");
  app.add_option("--max-steps", options.max_steps, "stop after this many steps; 0: no limit")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40))
      ->group("Training");
  app.add_option("--batch-size", options.batch_size, "samples in an update of the weights (the global batch)")
      ->check(positive)
      ->group("Training");
  app.add_option(
         "--micro-batch", options.micro_batch,
         "samples that go through the model at a time; the gradients of a batch are accumulated, with the "
         "result of the whole batch at once; 0: the whole batch")
      ->check(CLI::NonNegativeNumber)
      ->group("Training");
  app.add_option("--eval-batch-size", options.eval_batch_size, "samples at a time when testing")
      ->check(positive)
      ->group("Training");
  app.add_flag("--eval-only", options.eval_only, "only test the weights given with --load")
      ->excludes(save)
      ->group("Training");

  app.add_option("--optimizer", options.optimizer, "sgd (momentum 0.9), adam or adamw")
      ->check(CLI::IsMember({"sgd", "adam", "adamw"}))
      ->group("Optimizer");
  app.add_option("--lr", options.lr, "learning rate [adam, adamw: 0.001; sgd: 0.05]")
      ->check(CLI::Number)
      ->group("Optimizer");
  app.add_option("--weight-decay", options.weight_decay, "weight decay [adamw: 0.01; adam, sgd: 0]")
      ->check(CLI::Number)
      ->group("Optimizer");
  app.add_option("--schedule", options.schedule,
                 "learning rate over the run: constant, linear (down to 0), cosine (down to 0) or one-cycle")
      ->check(CLI::IsMember({"constant", "linear", "cosine", "one-cycle"}))
      ->group("Optimizer");
  app.add_option("--clip-norm", options.clip_norm, "limit of the global gradient norm; 0: no clipping")
      ->check(CLI::Number)
      ->group("Optimizer");

  app.add_option("--metrics", options.metrics,
                 "write one JSON object for each step, and a last one, to this file")
      ->check(file_name_check())
      ->type_name("FILE")
      ->group("Output");
  app.add_flag("--print-tape", options.print_tape, "print what the tape recorded in the first step")
      ->group("Output");
}

int run(CLI::App& app, int argc, char** argv, const std::function<void()>& program) {
  try {
    app.parse(argc, argv);
    program();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      throw std::runtime_error("standard output cannot be written");
    }
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    std::fprintf(stderr, "error: %s (--help lists the flags)\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}

}  // namespace ringtape::apps
