#include "kernels/bias.h"

#include <algorithm>

#include "core/memory.h"

namespace ringtape {

void bias_gradient(const Stream& stream, DType dtype, const void* dy, void* d_bias, std::int64_t rows,
                   std::int64_t columns, bool accumulate) {
  constexpr std::int64_t kRowsOfOneStage = 1024;
  constexpr std::int64_t kMostChunks = 256;
  if (rows <= kRowsOfOneStage) {
    column_sums(stream, dtype, dy, d_bias, rows, columns, kRowsOfOneStage, accumulate);
    return;
  }
  const std::int64_t chunk_rows = std::max(kRowsOfOneStage, (rows + kMostChunks - 1) / kMostChunks);
  const std::int64_t chunks = (rows + chunk_rows - 1) / chunk_rows;
  const StreamScope scope(stream);  // the memory is used on this stream
  const DType sum_dtype = dtype == DType::f64 ? DType::f64 : DType::f32;
  const MemoryScope category(MemoryCategory::workspace);
  const auto partial_sums = allocate(stream.device(), chunks * columns * size_of(sum_dtype));
  column_sums(stream, dtype, dy, partial_sums.get(), rows, columns, chunk_rows, false);
  column_sums(stream, sum_dtype, partial_sums.get(), d_bias, chunks, columns, kMostChunks, accumulate);
}

}  // namespace ringtape
