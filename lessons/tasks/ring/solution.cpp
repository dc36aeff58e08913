#include "lessons/tasks/ring/task.h"

#include <vector>

namespace {

/// Chunk `chunk` of the values; numbers outside of 0 to ranks - 1 wrap around.
std::span<float> chunk_of(const Ring& ring, std::span<float> values, int chunk) {
  const std::size_t size = values.size() / static_cast<std::size_t>(ring.ranks);
  const int number = (chunk % ring.ranks + ring.ranks) % ring.ranks;
  return values.subspan(static_cast<std::size_t>(number) * size, size);
}

}  // namespace

void reduce_scatter(const Ring& ring, std::span<float> values) {
  std::vector<float> received(values.size() / static_cast<std::size_t>(ring.ranks));
  for (int step = 0; step < ring.ranks - 1; ++step) {
    ring.exchange(chunk_of(ring, values, ring.rank - step), received);
    const std::span<float> sum = chunk_of(ring, values, ring.rank - step - 1);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += received[i];
  }
}

void all_gather(const Ring& ring, std::span<float> values) {
  for (int step = 0; step < ring.ranks - 1; ++step) {
    ring.exchange(chunk_of(ring, values, ring.rank + 1 - step), chunk_of(ring, values, ring.rank - step));
  }
}
