#include "kernels/common/kernel.h"

#include "kernels/common/rows.h"
#include "kernels/common/store_result.h"
#include "kernels/norm.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

template <class T>
struct NormRows {
  std::int64_t rows, columns;
  accumulate_t<T> eps;
  const T* weight;
  const T* x;
  accumulate_t<T>* mean;
  accumulate_t<T>* rstd;
};

template <class T>
NormRows<T> rows_of(const NormProblem& p) {
  using A = accumulate_t<T>;
  return {p.rows,
          p.columns,
          static_cast<A>(p.eps),
          static_cast<const T*>(p.weight),
          static_cast<const T*>(p.x),
          static_cast<A*>(p.mean),
          static_cast<A*>(p.rstd)};
}

/// Blocks of norm_forward that a multiprocessor must hold: in f32 there are registers for two blocks of 512
/// threads, 32 warps, where the compiler's choice gives 20. 16-bit elements would spill.
template <class T>
constexpr int kBlocksOfForward = sizeof(T) == sizeof(float) ? 2 : 1;

template <class T>
__global__ void __launch_bounds__(kMaxRowThreads, kBlocksOfForward<T>)
    norm_forward(NormRows<T> p, const T* residual, T* sum, const T* bias, T* y) {
  using A = accumulate_t<T>;
  const A scale = A{1} / static_cast<A>(p.columns);
  const BlockShare share = share_of_block(p.rows);
  for (std::int64_t row = share.first; row < share.end; row += share.step) {
    const std::int64_t first = row * p.columns;
    RowsInPasses<T, 1> x(p.columns, p.x + first);
    if (residual != nullptr) x.add(residual + first, sum + first);
    A mean = 0;
    if (p.mean != nullptr) mean = scale * x.sum([](const auto& values, int k) { return values[0][k]; });
    const A variance = scale * x.sum([=](const auto& values, int k) {
      const A difference = values[0][k] - mean;
      return difference * difference;
    });
    const A rstd = A{1} / sqrt(variance + p.eps);
    T* const to = y + first;
    x.for_each([=](std::int64_t i, auto lanes, int, const auto& values) {
      auto result = load_accumulate<lanes>(p.weight + i);
      for (int k = 0; k < lanes; ++k) result[k] *= (values[0][k] - mean) * rstd;
      if (bias != nullptr) {
        const auto added = load_accumulate<lanes>(bias + i);
        for (int k = 0; k < lanes; ++k) result[k] += added[k];
      }
      store_result(to + i, result, false);
    });
    if (threadIdx.x == 0) {
      if (p.mean != nullptr) p.mean[row] = mean;
      p.rstd[row] = rstd;
    }
  }
}

/// A block of norm_backward has a thread for every kKeptVectors vectors of a row, up to kMaxRowThreads.
template <class T>
constexpr int kThreadsOfBackward = minimum<int>(kMaxRowThreads,
                                                ceil_div(kMaxNormColumns, 32 * kKeptVectors * kVecLanes<T>) *
                                                    32);

template <class T>
__global__ void __launch_bounds__(kThreadsOfBackward<T>)
    norm_backward(NormRows<T> p, const T* dy, T* dx, bool accumulate, accumulate_t<T>* weight_partial,
                  accumulate_t<T>* bias_partial) {
  using A = accumulate_t<T>;
  const A scale = A{1} / static_cast<A>(p.columns);
  A* const weight_sums = weight_partial == nullptr ? nullptr : dynamic_shared<A>();
  A* const bias_sums =
      bias_partial == nullptr ? nullptr : dynamic_shared<A>() + (weight_partial == nullptr ? 0 : p.columns);
  const auto clear = [&](A* sums) {
    if (sums == nullptr) return;
    for_each_vec_in_block<T>(p.columns,
                             [=](std::int64_t i, auto lanes) { store_vec(sums + i, Vec<A, lanes>{}); });
  };
  clear(weight_sums);
  clear(bias_sums);

  const BlockShare share = share_of_block(p.rows);
  for (std::int64_t row = share.first; row < share.end; row += share.step) {
    const std::int64_t first = row * p.columns;
    const RowsInPasses<T, 2> both(p.columns, p.x + first, dy + first);  // x, dy
    const A mean = p.mean == nullptr ? A{0} : p.mean[row];
    const A rstd = p.rstd[row];
    LaneSum<A> sum, sum_with_normed;
    both.for_each([&](std::int64_t i, auto lanes, int slot, const auto& values) {
      const auto weight = load_accumulate<lanes>(p.weight + i);
      Vec<A, lanes> of_weight;
      for (int k = 0; k < lanes; ++k) {
        const A normed = (values[0][k] - mean) * rstd;
        of_weight[k] = values[1][k] * normed;
        sum.add(slot + k, values[1][k] * weight[k]);
        sum_with_normed.add(slot + k, of_weight[k] * weight[k]);
      }
      if (weight_sums != nullptr) store_result(weight_sums + i, of_weight, true);
      if (bias_sums != nullptr) store_result(bias_sums + i, values[1], true);
    });
    if (dx == nullptr) continue;
    const A mean_of_both = scale * block_sum(sum_with_normed.total());
    const A mean_of_gradient = p.mean == nullptr ? A{0} : scale * block_sum(sum.total());
    T* const to = dx + first;
    both.for_each([=](std::int64_t i, auto lanes, int, const auto& values) {
      auto result = load_accumulate<lanes>(p.weight + i);
      for (int k = 0; k < lanes; ++k) {
        const A normed = (values[0][k] - mean) * rstd;
        result[k] = rstd * (values[1][k] * result[k] - mean_of_gradient - normed * mean_of_both);
      }
      store_result(to + i, result, accumulate);
    });
  }

  const auto write = [&](const A* sums, A* partial) {
    if (sums == nullptr) return;
    A* const to = partial + std::int64_t{blockIdx.x} * p.columns;
    for_each_vec_in_block<T>(
        p.columns, [=](std::int64_t i, auto lanes) { store_vec(to + i, load_vec<lanes>(sums + i)); });
  };
  write(weight_sums, weight_partial);
  write(bias_sums, bias_partial);
}

}  // namespace

void norm_forward(const Stream& stream, const NormProblem& problem, const void* residual, void* sum,
                  const void* bias, void* y) {
  RINGTAPE_DISPATCH_FLOATING(problem.dtype, T,
                             launch(norm_forward<T>, rows_shape<T>(problem.rows, problem.columns), stream,
                                    rows_of<T>(problem), static_cast<const T*>(residual),
                                    static_cast<T*>(sum), static_cast<const T*>(bias), static_cast<T*>(y)));
}

void norm_backward(const Stream& stream, const NormProblem& problem, const void* dy, void* dx,
                   bool accumulate, std::int64_t max_blocks, void* weight_partial, void* bias_partial) {
  const int partials = (weight_partial == nullptr ? 0 : 1) + (bias_partial == nullptr ? 0 : 1);
  RINGTAPE_DISPATCH_FLOATING(problem.dtype, T, {
    using A = accumulate_t<T>;
    const std::int64_t blocks = norm_backward_blocks(problem.rows, kGpuGeometry);
    LaunchShape shape =
        row_shape<T>(blocks < max_blocks ? blocks : max_blocks, problem.columns, kKeptVectors);
    shape.shared_bytes = static_cast<std::size_t>(partials * problem.columns) * sizeof(A);
    launch(norm_backward<T>, shape, stream, rows_of<T>(problem), static_cast<const T*>(dy),
           static_cast<T*>(dx), accumulate, static_cast<A*>(weight_partial), static_cast<A*>(bias_partial));
  });
}

}  // namespace ringtape::RINGTAPE_TARGET
