#include "apps/options.h"

#include <cstdio>
#include <exception>

namespace ringtape::apps {

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
      ->group("Machine");

  app.add_option("--hidden", options.hidden, "sizes of the hidden layers, such as 256,128")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->group("Model");
  app.add_option("--load", options.load, "start from the weights in this safetensors file")
      ->type_name("FILE")
      ->group("Model");
  app.add_option("--save", options.save, "write the trained weights to this safetensors file")
      ->type_name("FILE")
      ->group("Model");

  const auto positive = CLI::Range(std::int64_t{1}, std::int64_t{1} << 40);
  app.add_option("--epochs", options.epochs, "times to go through the training data")
      ->check(positive)
      ->group("Training");
  app.add_option("--max-steps", options.max_steps, "stop after this many steps; 0: no limit")
      ->check(CLI::NonNegativeNumber)
      ->group("Training");
  app.add_option("--batch-size", options.batch_size, "samples in a training step")
      ->check(positive)
      ->group("Training");
  app.add_option("--eval-batch-size", options.eval_batch_size, "samples at a time when testing")
      ->check(positive)
      ->group("Training");
  app.add_flag("--eval-only", options.eval_only, "only test the weights given with --load")
      ->group("Training");

  app.add_option("--optimizer", options.optimizer, "sgd (momentum 0.9), adam or adamw")
      ->check(CLI::IsMember({"sgd", "adam", "adamw"}))
      ->group("Optimizer");
  app.add_option("--lr", options.lr, "learning rate [adam, adamw: 0.001; sgd: 0.05]")->group("Optimizer");
  app.add_option("--weight-decay", options.weight_decay, "weight decay [adamw: 0.01; adam, sgd: 0]")
      ->group("Optimizer");
  app.add_option("--schedule", options.schedule,
                 "learning rate over the run: constant, linear (down to 0), cosine (down to 0) or one-cycle")
      ->check(CLI::IsMember({"constant", "linear", "cosine", "one-cycle"}))
      ->group("Optimizer");
  app.add_option("--clip-norm", options.clip_norm, "limit of the global gradient norm; 0: no clipping")
      ->group("Optimizer");

  app.add_option("--metrics", options.metrics,
                 "write one JSON object for each step, and a last one, to this file")
      ->type_name("FILE")
      ->group("Output");
}

int run(CLI::App& app, int argc, char** argv, const std::function<void()>& program) {
  try {
    app.parse(argc, argv);
    program();
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}

}  // namespace ringtape::apps
