#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/tensor.h"
#include "data/loader.h"
#include "train/task.h"

namespace ringtape {

/// The model's input, by Task::prepare or its default; its memory counts as data.
Tensor model_input(const Task& task, const Tensor& features, DType dtype);

/// The number of non-ignored targets, by Task::count_targets or its default.
std::int64_t count_targets(const Task& task, const Batch& batch);

}  // namespace ringtape
