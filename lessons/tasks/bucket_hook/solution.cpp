#include "lessons/tasks/bucket_hook/task.h"

void gradient_complete(Buckets& buckets, int parameter) {
  --buckets.missing[static_cast<std::size_t>(buckets.bucket_of[static_cast<std::size_t>(parameter)])];
  while (buckets.next < static_cast<int>(buckets.missing.size()) &&
         buckets.missing[static_cast<std::size_t>(buckets.next)] == 0) {
    buckets.launch(buckets.next++);
  }
}

void backward_ended(Buckets& buckets) {
  while (buckets.next < static_cast<int>(buckets.missing.size())) buckets.launch(buckets.next++);
}
