#include "train/model_input.h"

#include "autograd/ops.h"
#include "core/memory.h"
#include "trace/spans.h"

namespace ringtape {

Tensor model_input(const Task& task, const Tensor& features, DType dtype) {
  const MemoryScope scope(MemoryCategory::data);
  const SpanScope phase(SpanKind::phase, "data");
  const SpanScope span(SpanKind::operation, "prepare input");
  return task.prepare ? task.prepare(features, dtype) : to(features, dtype);
}

std::int64_t count_targets(const Task& task, const Batch& batch) {
  return task.count_targets ? task.count_targets(batch) : batch.size();
}

}  // namespace ringtape
