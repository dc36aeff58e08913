#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/tensor.h"
#include "data/loader.h"
#include "train/task.h"

namespace ringtape {

/// Calls Task::prepare; its memory counts as data.
Tensor model_input(const Task& task, const Tensor& features, DType dtype);

/// Task::count_targets.
std::int64_t count_targets(const Task& task, const Batch& batch);

}  // namespace ringtape
