#pragma once

#include <cstddef>
#include <functional>
#include <vector>

/// The buckets of a model during one backward. Parameters and buckets are numbered from 0.
struct Buckets {
  std::vector<int> bucket_of;              ///< the bucket of each parameter
  std::vector<int> missing;                ///< for each bucket: how many of its gradients are not complete
  int next = 0;                            ///< the bucket to launch next
  std::function<void(int bucket)> launch;  ///< starts the all_reduce of a bucket
};

/// The hook: the gradient of `parameter` is complete.
extern "C" void gradient_complete(Buckets& buckets, int parameter);

/// Called when backward has ended. For parameters that it did not use the hook was not called; their
/// gradients are zeros.
extern "C" void backward_ended(Buckets& buckets);
