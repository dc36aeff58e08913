#include "train/metrics.h"

#include <cmath>
#include <utility>

#include "core/memory.h"
#include "core/numbers.h"

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

}  // namespace

StepLog::StepLog(Device device)
    : device_(device),
      losses_(empty({capacity_on(device)}, DType::f32, device)),
      grad_norms_(empty({capacity_on(device)}, DType::f32, device)),
      correct_(empty({capacity_on(device)}, DType::f32, device)) {}

void StepLog::add(const StepRecord& known, const Tensor& loss, const Tensor& grad_norm,
                  const Tensor& correct) {
  put(losses_, pending_.size(), loss);
  put(grad_norms_, pending_.size(), grad_norm);
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
  const auto norms = grad_norms_.to_vector<float>();
  const auto correct = correct_.to_vector<float>();
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    StepRecord& record = pending_[i];
    record.loss = without_nan_sign(losses[i]);
    if (!std::isnan(record.grad_norm)) record.grad_norm = without_nan_sign(norms[i]);
    if (record.correct >= 0) record.correct = static_cast<std::int64_t>(correct[i]);
  }
  return std::exchange(pending_, {});
}

}  // namespace ringtape
