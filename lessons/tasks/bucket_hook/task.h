#pragma once

#include <cstddef>
#include <functional>
#include <vector>

/// The buckets of a model during one backward. Parameters and buckets are numbered from 0.
struct Buckets {
  std::vector<int> bucket_of;              ///< of each parameter
  std::vector<int> missing;                ///< of each bucket: how many of its gradients are not complete
  int next = 0;                            ///< the bucket that is launched next
  std::function<void(int bucket)> launch;  ///< starts the all_reduce of a bucket
};

/// The hook of a parameter: its gradient is complete.
extern "C" void gradient_complete(Buckets& buckets, int parameter);

/// Backward has ended. Parameters that it did not use have had no call of the hook; their gradients are
/// zeros.
extern "C" void backward_ended(Buckets& buckets);
