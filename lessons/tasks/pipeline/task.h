#pragma once

#include <algorithm>
#include <vector>

/// A forward or a backward pass of one micro-batch.
struct Pass {
  bool is_forward;
  int micro_batch;
};

/// The order in which a stage of a pipeline makes its passes, by 1F1B: stages are numbered 0 (the first
/// layers) to stages - 1, micro-batches 0 to micro_batches - 1.
extern "C" void one_forward_one_backward(int stage, int stages, int micro_batches, std::vector<Pass>& order);
