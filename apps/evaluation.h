#pragma once

#include <cstdint>

#include "apps/run_log.h"
#include "apps/training.h"
#include "dist/communicator.h"
#include "nn/module.h"

namespace ringtape::apps {

/// Tests the weights on the task's test samples, `batch_size` at a time; the model computes in `dtype`. Each
/// rank takes its part of the samples, and all of them get the result.
TestResult evaluate(const Task& task, Module& model, DType dtype, std::int64_t batch_size,
                    Communicator& ranks);

}  // namespace ringtape::apps
