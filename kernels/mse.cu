#include "kernels/common/kernel.h"

#include "kernels/common/grid_sum.h"
#include "kernels/common/store_result.h"
#include "kernels/mse.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

template <class T>
__global__ void mse_forward(const T* prediction, const T* target, std::int64_t n, double factor,
                            ReduceScratch* scratch, accumulate_t<T>* loss) {
  LaneSum<accumulate_t<T>> squares;
  for_each_vec<T>(n, [&](std::int64_t i, auto lanes, int slot) {
    const auto predictions = load_vec<lanes>(prediction + i);
    const auto targets = load_vec<lanes>(target + i);
    for (int k = 0; k < lanes; ++k) {
      const auto difference = to_accumulate(predictions[k]) - to_accumulate(targets[k]);
      squares.add(slot + k, difference * difference);
    }
  });
  double total;
  if (grid_sum(block_sum(static_cast<double>(squares.total())), scratch, total) && threadIdx.x == 0) {
    *loss = static_cast<accumulate_t<T>>(factor * total);
  }
}

template <class T, bool kAccumulate>
__global__ void mse_backward(const T* prediction, const T* target, const accumulate_t<T>* grad_loss,
                             std::int64_t n, accumulate_t<T> factor, T* dprediction) {
  const accumulate_t<T> slope = 2 * factor * *grad_loss;
  for_each_vec<T>(n, [=](std::int64_t i, auto lanes) {
    const auto predictions = load_vec<lanes>(prediction + i);
    const auto targets = load_vec<lanes>(target + i);
    Vec<accumulate_t<T>, lanes> gradients;
    for (int k = 0; k < lanes; ++k) {
      gradients[k] = slope * (to_accumulate(predictions[k]) - to_accumulate(targets[k]));
    }
    store_result(dprediction + i, gradients, kAccumulate);
  });
}

}  // namespace

void mse_forward(const Stream& stream, DType dtype, const void* prediction, const void* target,
                 std::int64_t n, double factor, void* loss) {
  RINGTAPE_DISPATCH_FLOATING(dtype, T,
                             launch(mse_forward<T>, grid_sum_shape<T>(n), stream,
                                    static_cast<const T*>(prediction), static_cast<const T*>(target), n,
                                    factor, reduce_scratch(stream), static_cast<accumulate_t<T>*>(loss)));
}

void mse_backward(const Stream& stream, DType dtype, const void* prediction, const void* target,
                  const void* grad_loss, std::int64_t n, double factor, void* dprediction, bool accumulate) {
  RINGTAPE_DISPATCH_FLOATING(dtype, T, {
    const T* predictions = static_cast<const T*>(prediction);
    const T* targets = static_cast<const T*>(target);
    const auto* upstream = static_cast<const accumulate_t<T>*>(grad_loss);
    const auto rounded_factor = static_cast<accumulate_t<T>>(factor);
    T* gradients = static_cast<T*>(dprediction);
    if (accumulate) {
      launch(mse_backward<T, true>, elementwise_shape<T>(n), stream, predictions, targets, upstream, n,
             rounded_factor, gradients);
    } else {
      launch(mse_backward<T, false>, elementwise_shape<T>(n), stream, predictions, targets, upstream, n,
             rounded_factor, gradients);
    }
  });
}

}  // namespace ringtape::RINGTAPE_TARGET
