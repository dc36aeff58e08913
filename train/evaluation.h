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
  double accuracy;  ///< correct predictions per target, in [0, 1]; NaN unless Task::counts_correct
};

/// Evaluates the model on the task's test samples, `batch_size` at a time; the model computes in `dtype`. The
/// data ranks divide the samples, and every rank gets the result over all samples. All ranks must call it.
/// With a `pipeline`, `model` is this rank's stage.
EvaluationResult evaluate(const Task& task, Module& model, DType dtype, std::int64_t batch_size,
                          const Mesh& mesh, Pipeline* pipeline = nullptr);

}  // namespace ringtape
