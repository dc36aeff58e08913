#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "dist/mesh.h"
#include "dist/pipeline.h"
#include "nn/module.h"
#include "train/task.h"

namespace ringtape {

/// The result of an evaluation.
struct EvaluationResult {
  double loss;      ///< mean over the non-ignored targets
  double accuracy;  ///< fraction of correct predictions, in [0, 1]; NaN unless Task::counts_correct
};

/// Evaluates the model on the task's test samples, `batch_size` at a time; the model computes in `dtype`.
/// Each rank evaluates its part of the samples, and all ranks get the result of all samples. With a
/// `pipeline` the model is a stage.
EvaluationResult evaluate(const Task& task, Module& model, DType dtype, std::int64_t batch_size,
                          const Mesh& mesh, Pipeline* pipeline = nullptr);

}  // namespace ringtape
