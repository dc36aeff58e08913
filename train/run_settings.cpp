#include <utility>

#include "nn/compute_dtype.h"
#include "nn/model_file.h"
#include "train/option_list.h"
#include "train/training_run.h"

// The settings in a run's checkpoints.
namespace ringtape {

/// The warm-up of a run of `steps` steps, as a number of steps, however --warmup states it.
std::string Trainer::Run::warmup_text(std::int64_t steps) const {
  RunLength length = length_;
  length.steps = steps;
  return fmt::format("{}", warmup_steps(options_.schedule, options_.data.batch_size, length));
}

/// The settings that a resumed run must have in common with its checkpoint.
TrainingSettings Trainer::Run::checkpoint_settings() const {
  if (options_.checkpoint.folder.empty()) return {};
  TrainingSettings settings;
  TrainerOptions options = options_;
  OptimizerOptions& o = options.optimizer;
  for (const auto& [value, otherwise] : {std::pair(&o.weight_decay, o.kind->defaults.weight_decay),
                                         {&o.momentum, o.kind->defaults.momentum},
                                         {&o.beta1, o.kind->defaults.beta1},
                                         {&o.beta2, o.kind->defaults.beta2}}) {
    if (*value == otherwise) value->reset();  // as if it had not been set
  }
  for (const auto& [name, value] : values_of(options, {Effect::result})) settings["--" + name] = value;
  for (const auto& [name, value] : task_.settings) settings[name] = value;
  settings["--lr"] = fmt::format("{}", learning_rate_);
  settings[Checkpointing::kWarmup] = warmup_text(length_.steps);
  settings["--dtype"] = name_of(arena_->compute_dtype());  // auto may select another dtype on another machine
  if (arena_->trained_elements() < arena_->parameter_elements()) {
    std::vector<NamedParameter> frozen = model_->named_parameters();
    std::erase_if(frozen, [](const NamedParameter& each) { return each.tensor->requires_grad(); });
    settings["frozen weights"] = fmt::format("CRC-32 {:08x}", checksum_of(frozen));
  }
  settings["data"] =
      fmt::format("{} samples with the CRC-32 {:08x}", task_.train->size(), task_.train->checksum());
  if (depends_on_length(options_.schedule)) {
    settings[Checkpointing::kStepsInAll] = fmt::format("{}", length_.steps);
  }
  if (options_.optimizer.clip_each_micro_batch) {
    settings["--micro-batch"] = fmt::format("{}", options_.accumulation.micro_batch);
    settings["ranks"] = fmt::format("{}", data_ranks());
  }
  return settings;
}

}  // namespace ringtape
