#include "train/metrics.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "core/memory.h"
#include "core/numbers.h"
#include "core/quote.h"

namespace ringtape {
namespace {

// On the CPU results are available at once; on a GPU a flush every 128 steps costs almost no time.
std::int64_t capacity_on(Device device) {
  return device.is_cpu() ? 1 : 128;
}

void put(const Tensor& rows, std::size_t row, const Tensor& scalar) {
  if (!scalar.defined()) return;
  const Tensor slot = rows.alias({}, static_cast<std::int64_t>(row));
  copy_bytes(slot.raw(), slot.device(), scalar.raw(), scalar.device(), slot.bytes());
}

/// Whether this can be an incomplete line of a killed run.
bool begins_record(std::string_view text) {
  for (std::string_view start : {std::string_view("{\"step\":"), std::string_view("{\"event\":")}) {
    if (text.substr(0, start.size()) == start.substr(0, text.size())) return true;
  }
  return false;
}

/// The step of a record; nothing for any other line.
std::optional<std::int64_t> step_of(const std::string& line) {
  try {
    const Json record = Json::parse(line);
    const Json* const step = record.find("step");
    return step == nullptr ? std::nullopt : std::optional(step->as_int64());
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The length in bytes of the records of the steps up to `step`. The file is truncated to it: before the
/// first later record, an incomplete line, or the last line of a run that ended. Throws Error for a file with
/// any other line, as it is not a metrics file.
std::uintmax_t bytes_up_to(const std::string& path, std::int64_t step) {
  std::ifstream file(path, std::ios::binary);
  std::uintmax_t bytes = 0;
  bool is_before_cut = true;
  std::int64_t number = 1;
  for (std::string line; std::getline(file, line); ++number) {
    const bool is_complete = !file.eof();
    const std::optional<std::int64_t> step_of_line = step_of(line);
    const bool is_step = step_of_line.has_value();
    const bool is_event = line.starts_with("{\"event\":");
    check(is_complete ? is_step || is_event : begins_record(line),
          "--metrics: {} cannot be continued: its line {} is {}, expected the record of a step", path, number,
          quote(line));
    is_before_cut = is_before_cut && is_complete && is_step && *step_of_line <= step;
    if (is_before_cut) bytes += line.size() + 1;
  }
  return bytes;
}

/// Cuts off what follows the record of the step that a run continues from. Whether there is anything to
/// continue.
bool cut_off_after(const std::string& path, std::int64_t step) {
  if (step == 0 || !std::filesystem::is_regular_file(path)) return false;
  std::filesystem::resize_file(path, bytes_up_to(path, step));
  return true;
}

}  // namespace

StepLog::StepLog(Device device)
    : device_(device),
      losses_(empty({capacity_on(device)}, DType::f32, device)),
      norms_(empty({capacity_on(device)}, DType::f32, device)),
      correct_(empty({capacity_on(device)}, DType::f32, device)) {}

void StepLog::add(const StepRecord& known, const Tensor& loss, const Tensor& grad_norm,
                  const Tensor& correct) {
  put(losses_, pending_.size(), loss);
  put(norms_, pending_.size(), grad_norm);
  put(correct_, pending_.size(), correct);
  pending_.push_back(known);
  if (!grad_norm.defined()) pending_.back().grad_norm = std::nan("");
  if (!correct.defined()) pending_.back().correct = -1;
}

bool StepLog::is_full() const {
  return static_cast<std::int64_t>(pending_.size()) == losses_.elements();
}

std::vector<StepRecord> StepLog::take() {
  const auto losses = losses_.to_vector<float>();
  const auto norms = norms_.to_vector<float>();
  const auto correct = correct_.to_vector<float>();
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    StepRecord& record = pending_[i];
    record.loss = without_nan_sign(losses[i]);
    if (!std::isnan(record.grad_norm)) record.grad_norm = without_nan_sign(norms[i]);
    if (record.correct >= 0) record.correct = static_cast<std::int64_t>(correct[i]);
  }
  return std::exchange(pending_, {});
}

MetricsFile::MetricsFile(const std::string& path, std::optional<std::int64_t> resumed_step)
    : JsonLines("--metrics", path, cut_off_after(path, resumed_step.value_or(0))) {}

}  // namespace ringtape
