#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "dist/communicator.h"
#include "nn/module.h"
#include "train/task.h"

namespace ringtape {

/// What an evaluation found.
struct EvaluationResult {
  double loss;      ///< mean over the non-ignored targets
  double accuracy;  ///< share of correct predictions, in [0, 1]; NaN for a task that counts none
};

/// Evaluates the model on the task's test samples, `batch_size` at a time; the model computes in `dtype`.
/// Each rank takes its part of the samples, and all of them get the result.
EvaluationResult evaluate(const Task& task, Module& model, DType dtype, std::int64_t batch_size,
                          Communicator& comm);

}  // namespace ringtape
