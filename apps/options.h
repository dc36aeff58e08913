#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ringtape::apps {

/// What the training programs can be told. The initial values are the defaults that --help shows.
struct TrainOptions {
  std::string device = "auto";
  std::string gemm = "default";
  std::uint64_t seed = 0;
  std::string data;

  std::vector<std::int64_t> hidden = {256};
  std::string load;
  std::string save;

  std::int64_t epochs = 3;
  std::int64_t max_steps = 0;  // 0: no limit
  std::int64_t batch_size = 64;
  std::int64_t micro_batch = 0;  // 0: the whole batch at once
  std::int64_t eval_batch_size = 1000;
  bool eval_only = false;

  std::string optimizer = "adam";
  std::optional<double> lr;
  std::optional<double> weight_decay;
  std::string schedule = "linear";
  double clip_norm = 0;  // 0: off

  std::string metrics;
  bool print_tape = false;
};

/// Refuses the empty text where a file or folder is to be named.
CLI::Validator file_name_check();

/// Adds the flags to a program's command line.
void add_train_options(CLI::App& app, TrainOptions& options);

/// Parses the command line, runs `program`, and turns what it throws into one line on standard error. Returns
/// the exit code: 0, 1 for an error, 2 for a wrong flag.
int run(CLI::App& app, int argc, char** argv, const std::function<void()>& program);

}  // namespace ringtape::apps
