#include "lessons/tasks/zero_slice/task.h"

Slice slice_of(std::int64_t elements, int rank, int ranks) {
  const std::int64_t first = elements * rank / ranks;
  const std::int64_t end = elements * (rank + 1) / ranks;
  return {first, end - first};
}

void zero_update(std::int64_t elements, int rank, int ranks, const Operations& operations) {
  operations.reduce_scatter();
  operations.optimizer(slice_of(elements, rank, ranks));
  operations.all_gather();
}
