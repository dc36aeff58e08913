#include "apps/checkpointing.h"

#include <cstdio>
#include <utility>

#include "core/error.h"

namespace ringtape::apps {

Checkpointing::Checkpointing(const TrainOptions& options, TrainingSettings settings, bool is_first_rank)
    : options_(options), settings_(std::move(settings)) {
  if (options.checkpoint.empty() || !is_first_rank) return;
  folder_.emplace(options.checkpoint, options.keep);
  check(options.resume || folder_->is_empty(),
        "{}: holds checkpoints already: continue them with --resume, or name another folder",
        options.checkpoint);
}

std::optional<Checkpoint> Checkpointing::resume(const std::vector<NamedTensor>& tensors) {
  if (!folder_ || !options_.resume) return std::nullopt;
  std::optional<Checkpoint> checkpoint = folder_->newest();
  for (const std::string& reason : folder_->damaged()) {
    std::fprintf(stderr, "warning: a damaged checkpoint is passed over: %s\n", reason.c_str());
  }
  if (!checkpoint) return std::nullopt;
  checkpoint->expect_settings(settings_);  // first, as a flag says more than the shapes that follow from it
  checkpoint->load_into(tensors);
  default_generator() = checkpoint->random();
  const TrainingPosition& position = checkpoint->position();
  fmt::print("resumed after step {}, epoch {}, {} samples into it\n", position.step, position.epoch + 1,
             position.samples);
  return checkpoint;
}

bool Checkpointing::is_due(std::int64_t step, std::int64_t updates) const {
  return !options_.checkpoint.empty() && (step % options_.every == 0 || step == updates);
}

void Checkpointing::save(const TrainingPosition& position, std::vector<NamedTensor> tensors,
                         std::vector<NamedTensor> history) {
  if (!folder_) return;
  TrainingState state;
  state.position = position;
  state.random = default_generator();
  state.settings = settings_;
  state.tensors = std::move(tensors);
  state.history = std::move(history);
  folder_->save(state);
}

}  // namespace ringtape::apps
