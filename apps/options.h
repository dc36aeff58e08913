#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/command_line.h"
#include "dist/slow_link.h"

namespace ringtape::apps {

/// What the training programs can be told. The initial values are the defaults that --help shows.
struct TrainOptions {
  std::string device = "auto";
  std::string gemm = "default";
  bool graph = false;
  bool tf32 = false;
  std::uint64_t seed = 0;
  std::string recipe;
  std::string data;

  std::vector<std::int64_t> hidden = {256};
  std::string dtype = "f32";
  std::int64_t recompute = 0;  // layers in a segment
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
  double momentum = 0.9;
  std::optional<double> weight_decay;
  bool decay_biases = false;
  double clip_norm = 0;  // 0: off
  double clip_norm_type = 2;
  double clip_value = 0;  // 0: off
  bool clip_each_micro_batch = false;

  std::string schedule = "linear";
  double final_lr = 0;  // as a share of the rate
  double power = 2;
  std::int64_t step_epochs = 1;
  double gamma = 0.5;
  std::string warmup = "0";  // updates, or "auto"
  std::string warmup_shape = "linear";
  std::string lr_scaling = "none";
  std::int64_t base_batch = 64;
  bool print_schedule = false;

  std::string checkpoint;
  std::int64_t every = 500;
  int keep = 3;
  bool resume = false;

  double comm_timeout = 60;  // seconds
  double bucket_mib = 25;
  bool no_overlap = false;
  bool sync_each_micro_batch = false;
  int zero = 0;  // stage
  std::string slow_link;
  bool show_launch = false;

  std::string metrics;
  bool print_tape = false;
  std::string save_tape;
  std::string report;
  bool memory_report = false;
  std::string timeline;
  bool profile = false;
  std::string profile_steps;
  std::string sort = "self";

  std::map<std::string, std::string> settings;             // see settings_of()
  std::vector<std::pair<std::string, std::string>> given;  // flags of the command line and the recipe, values
  std::function<std::string()> describe_program;
};

/// Adds the flags to a program's command line.
void add_train_options(CLI::App& app, TrainOptions& options);

/// Adds --slow-link.
void add_slow_link_flag(CLI::App& app, std::string& link);
/// The link that the flag describes; none where it was not given.
std::optional<SlowLink> slow_link_of(const std::string& link);

/// Adds --recipe, for a program that has recipes.
void add_recipe_flag(CLI::App& app, TrainOptions& options);

}  // namespace ringtape::apps
