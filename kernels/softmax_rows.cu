#include "kernels/common/kernel.h"

#include "kernels/common/rows.h"
#include "kernels/common/store_result.h"
#include "kernels/softmax.h"
#include "kernels/softmax_rows.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

template <class T>
__global__ void softmax_forward(const T* all_x, T* all_y, std::int64_t rows, std::int64_t columns) {
  using A = accumulate_t<T>;
  const BlockShare share = share_of_block(rows);
  for (std::int64_t row = share.first; row < share.end; row += share.step) {
    const RowsInPasses<T, 1> x(columns, all_x + row * columns);
    T* const y = all_y + row * columns;
    const A max = row_max(x);
    const A scale = A{1} / x.sum([=](const auto& values, int k) { return softmax_exp(values[0][k] - max); });
    x.for_each([=](std::int64_t i, auto lanes, int, const auto& values) {
      Vec<A, lanes> result;
      for (int k = 0; k < lanes; ++k) result[k] = scale * softmax_exp(values[0][k] - max);
      store_result(y + i, result, false);
    });
  }
}

template <class T>
__global__ void __launch_bounds__(kMaxThreadsOfTwoRows)
    softmax_backward(const T* all_y, const T* all_dy, T* all_dx, std::int64_t rows, std::int64_t columns,
                     bool accumulate) {
  using A = accumulate_t<T>;
  const BlockShare share = share_of_block(rows);
  for (std::int64_t row = share.first; row < share.end; row += share.step) {
    const RowsInPasses<T, 2> both(columns, all_y + row * columns, all_dy + row * columns);  // y, dy
    T* const dx = all_dx + row * columns;
    const A product = both.sum([](const auto& values, int k) { return values[0][k] * values[1][k]; });
    both.for_each([=](std::int64_t i, auto lanes, int, const auto& values) {
      Vec<A, lanes> result;
      for (int k = 0; k < lanes; ++k) result[k] = values[0][k] * (values[1][k] - product);
      store_result(dx + i, result, accumulate);
    });
  }
}

}  // namespace

void softmax_forward(const Stream& stream, DType dtype, const void* x, void* y, std::int64_t rows,
                     std::int64_t columns) {
  RINGTAPE_DISPATCH_FLOATING(dtype, T,
                             launch(softmax_forward<T>, rows_shape<T>(rows, columns), stream,
                                    static_cast<const T*>(x), static_cast<T*>(y), rows, columns));
}

void softmax_backward(const Stream& stream, DType dtype, const void* y, const void* dy, void* dx,
                      std::int64_t rows, std::int64_t columns, bool accumulate) {
  RINGTAPE_DISPATCH_FLOATING(dtype, T,
                             launch(softmax_backward<T>, rows_shape<T>(rows, columns, kMaxThreadsOfTwoRows),
                                    stream, static_cast<const T*>(y), static_cast<const T*>(dy),
                                    static_cast<T*>(dx), rows, columns, accumulate));
}

}  // namespace ringtape::RINGTAPE_TARGET
