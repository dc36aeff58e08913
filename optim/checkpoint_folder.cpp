#include "optim/checkpoint_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <system_error>

#include "core/error.h"
#include "core/numbers.h"
#include "io/file.h"
#include "io/parse.h"

namespace ringtape {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-", kLock = "lock";

std::string json_name(std::int64_t step) {
  return fmt::format("{}{:012}.json", kPrefix, step);
}

std::string tensors_name(std::int64_t step) {
  return fmt::format("{}{:012}.safetensors", kPrefix, step);
}

/// The step of a checkpoint's file, including temporary names; nothing for any other name, as such a file
/// belongs to the user.
std::optional<std::int64_t> step_in(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view number = name.substr(kPrefix.size());
  const std::optional<std::int64_t> step =
      parse_int64(number.substr(0, number.find_first_not_of("0123456789")));
  if (!step) return std::nullopt;
  for (const std::string& file : {json_name(*step), tensors_name(*step)}) {
    if (name == file || AtomicFile::is_temporary_name(name, file)) return step;
  }
  return std::nullopt;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    names.push_back(entry.path().filename().string());
  }
  check(!error, "{}: cannot list the folder: {}", folder.string(), error.message());
  return names;
}

bool contains(const std::vector<std::int64_t>& steps, std::int64_t step) {
  return std::find(steps.begin(), steps.end(), step) != steps.end();
}

int lock_folder(const fs::path& folder) {
  const fs::path path = folder / kLock;
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  check(file >= 0, "{}: cannot write checkpoints there: {}", folder.string(), std::strerror(errno));
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) return file;
  const int reason = errno;
  ::close(file);
  check(reason != EWOULDBLOCK, "{}: another process keeps its checkpoints there", folder.string());
  fail("{}: cannot lock the folder: {}", folder.string(), std::strerror(reason));
}

}  // namespace

bool CheckpointFolder::has_own_name(const std::string& name) {
  return name == kLock || step_in(name).has_value();
}

CheckpointFolder::CheckpointFolder(const fs::path& folder, int keep) : folder_(folder), keep_(keep) {
  check(keep >= 1, "checkpoints: found {} to keep, expected at least 1", keep);
  std::error_code error;
  check(!fs::exists(folder, error) || fs::is_directory(folder, error),
        "{}: is not a folder, expected one for checkpoints", folder.string());
  const bool is_new = fs::create_directory(folder, error);
  check(!error, "{}: cannot make the folder of checkpoints: {}", folder.string(), error.message());
  if (is_new) flush_folder(folder / "..");
  lock_ = lock_folder(folder);
}

CheckpointFolder::~CheckpointFolder() {
  ::close(lock_);
}

std::vector<std::int64_t> CheckpointFolder::steps() const {
  std::vector<std::int64_t> steps;
  for (const std::string& name : names_in(folder_)) {
    const std::optional<std::int64_t> step = step_in(name);
    if (step && name == json_name(*step)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end(), std::greater<>());
  return steps;
}

std::vector<std::string> CheckpointFolder::tensors_without_json() const {
  const std::vector<std::int64_t> complete = steps();
  std::vector<std::string> names;
  for (const std::string& name : names_in(folder_)) {
    const std::optional<std::int64_t> step = step_in(name);
    if (step && name == tensors_name(*step) && !contains(complete, *step)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void CheckpointFolder::save(const CheckpointContents& state) const {
  try {
    save_checkpoint(folder_ / json_name(state.position.step), state);
  } catch (const Error& error) {
    fail("checkpoint of step {} was not saved, older ones are unchanged: {}", state.position.step,
         error.what());
  }
  remove_old(state.position.step);
}

void CheckpointFolder::remove_old(std::int64_t newest_step) const {
  const std::vector<std::int64_t> all = steps();
  std::vector<std::int64_t> kept;
  for (std::int64_t step : all) {
    if (step <= newest_step && kept.size() < static_cast<std::size_t>(keep_)) kept.push_back(step);
  }
  std::vector<std::string> old;
  for (const std::string& name : names_in(folder_)) {
    const std::optional<std::int64_t> step = step_in(name);
    if (!step) continue;
    const bool is_temporary = name != json_name(*step) && name != tensors_name(*step);
    if (is_temporary || (contains(all, *step) && !contains(kept, *step))) old.push_back(name);
  }
  // The tensors are removed before their JSON, so that a process killed between the two leaves a JSON, which
  // the next save removes, and no tensors without a JSON.
  std::sort(old.begin(), old.end(), std::greater<>());
  std::vector<std::int64_t> failed;
  std::string reason;
  for (const std::string& name : old) {
    const std::int64_t step = *step_in(name);
    if (contains(failed, step)) continue;
    std::error_code error;
    fs::remove(folder_ / name, error);
    if (!error) continue;
    failed.push_back(step);
    if (reason.empty()) reason = fmt::format("cannot remove the old {}: {}", name, error.message());
  }
  if (failed.empty()) return;
  throw OldCheckpointError(fmt::format("checkpoint of step {} was saved, but {} in {} stay: {}", newest_step,
                                       counted(std::ssize(failed), "old checkpoint"), folder_.string(),
                                       reason));
}

std::optional<Checkpoint> CheckpointFolder::newest() {
  damaged_.clear();
  std::optional<Checkpoint> whole;
  for (std::int64_t step : steps()) {
    try {
      whole.emplace(folder_ / json_name(step));
      break;
    } catch (const Error& error) {
      damaged_.push_back(error.what());
    }
  }
  check(whole || damaged_.empty(), "{}: found {} damaged and no complete one; the newest: {}",
        folder_.string(), counted(std::ssize(damaged_), "checkpoint"),
        damaged_.empty() ? "" : damaged_.front());
  for (const std::string& name : tensors_without_json()) {
    damaged_.push_back(
        fmt::format("{}: found no .json beside it, expected both files", (folder_ / name).string()));
  }
  return whole;
}

}  // namespace ringtape
