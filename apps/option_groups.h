#pragma once

#include "apps/options.h"

/// Groups of the training programs' flags, for add_train_options().
namespace ringtape::apps {

void add_checkpoint_flags(CLI::App& app, TrainOptions& options);
void add_rank_flags(CLI::App& app, TrainOptions& options);
void add_output_flags(CLI::App& app, TrainOptions& options);

}  // namespace ringtape::apps
