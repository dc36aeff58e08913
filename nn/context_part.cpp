#include "nn/context_part.h"

#include <algorithm>

namespace ringtape {

std::vector<TokenRun> ContextPart::runs(std::int64_t own, std::int64_t first, std::int64_t count) const {
  const std::int64_t size = own / 2;  // of a chunk
  std::vector<TokenRun> runs;
  for (const int half : {0, 1}) {
    const std::int64_t begin = std::max(first, half * size);
    const std::int64_t end = std::min(first + count, (half + 1) * size);
    if (begin < end) runs.push_back({chunk(half) * size + begin - half * size, end - begin});
  }
  return runs;
}

Tensor ContextPart::positions(std::int64_t own, Device device) const {
  Tensor& last = last_positions;
  if (last.defined() && last.size(0) == own && last.device() == device) return last;
  std::vector<std::int32_t> positions;
  for (const TokenRun& run : runs(own)) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      positions.push_back(static_cast<std::int32_t>(run.first + i));
    }
  }
  last = copy_to(from_vector(positions, {own}), device);
  return last;
}

}  // namespace ringtape
