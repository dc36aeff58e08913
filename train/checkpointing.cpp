#include "train/checkpointing.h"

#include <utility>

#include "core/error.h"
#include "io/parse.h"
#include "train/console.h"

namespace ringtape {

Checkpointing::Checkpointing(const CheckpointOptions& options, TrainingSettings settings,
                             WarmupOfLength warmup, bool is_first_rank)
    : options_(options), settings_(std::move(settings)), warmup_(std::move(warmup)) {
  if (options.folder.empty() || !is_first_rank) return;
  try {
    folder_.emplace(options.folder, options.keep);
  } catch (const Error& error) {
    fail("--checkpoint: {}", error.what());
  }
  check(options.resume || folder_->is_empty(),
        "--checkpoint: {} already holds checkpoints: continue them with --resume, or choose another folder",
        options.folder);
}

std::optional<Checkpoint> Checkpointing::resume(const std::vector<NamedTensor>& tensors) {
  if (!folder_ || !options_.resume) return std::nullopt;
  std::optional<Checkpoint> checkpoint = folder_->newest();
  for (const std::string& reason : folder_->damaged()) {
    warn("a damaged checkpoint is skipped: {}", reason);
  }
  if (!checkpoint) return std::nullopt;
  expect_settings(*checkpoint);  // first: an error about a flag is clearer than one about shapes
  checkpoint->load_into(tensors);
  default_generator() = checkpoint->random();
  return checkpoint;
}

/// Throws Error if the checkpoint was made with other settings.
void Checkpointing::expect_settings(const Checkpoint& checkpoint) const {
  TrainingSettings expected = settings_;
  const TrainingSettings& found = checkpoint.settings();
  const auto before = found.find(kStepsInAll);
  const auto now = expected.find(kStepsInAll);
  const auto warmup = found.find(kWarmup);
  if (now != expected.end() && before != found.end() && now->second != before->second) {
    // Of another training the length does not matter: what differs besides it is named first.
    TrainingSettings of_same_length = expected;
    of_same_length[kStepsInAll] = before->second;
    if (warmup != found.end()) of_same_length[kWarmup] = warmup->second;
    checkpoint.expect_settings(of_same_length);
    check(
        options_.change_length,
        "{}: the run had {} steps, now it has {}, and its schedule depends on that: with --change-length it "
        "continues with the schedule of the new length; under --schedule constant or step the length may "
        "change freely with a number as --warmup, here {}",
        options_.folder, before->second, now->second, warmup == found.end() ? "0" : warmup->second);
  }
  // If one of the two schedules does not depend on the length, the other settings tell whether they agree.
  expected.erase(kStepsInAll);
  if (before != found.end()) expected[kStepsInAll] = before->second;
  if (options_.change_length && warmup_ && before != found.end()) {
    expected[kWarmup] = warmup_(parse_int64(before->second).value_or(0));
  }
  checkpoint.expect_settings(expected);
}

bool Checkpointing::is_due(std::int64_t step, std::int64_t steps) const {
  return !options_.folder.empty() && (step % options_.every == 0 || step == steps);
}

void Checkpointing::save(const TrainingPosition& position, std::vector<NamedTensor> tensors,
                         std::vector<NamedTensor> history) {
  if (!folder_) return;
  CheckpointContents state;
  state.position = position;
  state.random = default_generator();
  state.settings = settings_;
  state.tensors = std::move(tensors);
  state.history = std::move(history);
  failure_.clear();
  try {
    folder_->save(state);
  } catch (const OldCheckpointError& error) {
    warn("{}", error.what());
  } catch (const Error& error) {
    failure_ = error.what();
    warn("{}", error.what());
  }
}

}  // namespace ringtape
