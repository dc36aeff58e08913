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

/// x + residual, rounded, to `sum`.
template <class T>
__device__ void add_rows(const T* x, const T* residual, T* sum, std::int64_t columns) {
  for_each_vec_in_block<T>(columns, [=](std::int64_t i, auto lanes) {
    auto values = load_accumulate<lanes>(x + i);
    const auto added = load_accumulate<lanes>(residual + i);
    for (int k = 0; k < lanes; ++k) values[k] += added[k];
    store_result(sum + i, values, false);
  });
}

template <class T>
__global__ void norm_forward(NormRows<T> p, const T* residual, T* sum, const T* bias, T* y) {
  using A = accumulate_t<T>;
  const A scale = A{1} / static_cast<A>(p.columns);
  const BlockShare share = share_of_block(p.rows);
  for (std::int64_t row = share.first; row < share.end; row += share.step) {
    const std::int64_t first = row * p.columns;
    const T* x = p.x + first;
    if (residual != nullptr) {
      add_rows(x, residual + first, sum + first, p.columns);
      x = sum + first;
    }
    A mean = 0;
    if (p.mean != nullptr) {
      mean = scale *
             row_sum<T>(p.columns, [=](std::int64_t i, auto lanes) { return load_accumulate<lanes>(x + i); });
    }
    const A variance = scale * row_sum<T>(p.columns, [=](std::int64_t i, auto lanes) {
                         auto values = load_accumulate<lanes>(x + i);
                         for (int k = 0; k < lanes; ++k) values[k] = (values[k] - mean) * (values[k] - mean);
                         return values;
                       });
    const A rstd = A{1} / sqrt(variance + p.eps);
    T* const to = y + first;
    for_each_vec_in_block<T>(p.columns, [=](std::int64_t i, auto lanes) {
      auto values = load_accumulate<lanes>(x + i);
      const auto weight = load_accumulate<lanes>(p.weight + i);
      for (int k = 0; k < lanes; ++k) values[k] = (values[k] - mean) * rstd * weight[k];
      if (bias != nullptr) {
        const auto added = load_accumulate<lanes>(bias + i);
        for (int k = 0; k < lanes; ++k) values[k] += added[k];
      }
      store_result(to + i, values, false);
    });
    if (threadIdx.x == 0) {
      if (p.mean != nullptr) p.mean[row] = mean;
      p.rstd[row] = rstd;
    }
  }
}

template <class T>
__global__ void norm_backward(NormRows<T> p, const T* dy, T* dx, bool accumulate,
                              accumulate_t<T>* weight_partial, accumulate_t<T>* bias_partial) {
  using A = accumulate_t<T>;
  const A scale = A{1} / static_cast<A>(p.columns);
  A* const weight_sums = weight_partial == nullptr ? nullptr : dynamic_shared<A>();
  A* const bias_sums =
      bias_partial == nullptr ? nullptr : dynamic_shared<A>() + (weight_partial == nullptr ? 0 : p.columns);
  const auto clear = [&](A* sums) {
    if (sums == nullptr) return;
    for_each_vec_in_block<T>(p.columns, [=](std::int64_t i, auto lanes) {
      for (int k = 0; k < lanes; ++k) sums[i + k] = 0;
    });
  };
  clear(weight_sums);
  clear(bias_sums);

  const BlockShare share = share_of_block(p.rows);
  for (std::int64_t row = share.first; row < share.end; row += share.step) {
    const std::int64_t first = row * p.columns;
    const T* const x = p.x + first;
    const T* const g = dy + first;
    const A mean = p.mean == nullptr ? A{0} : p.mean[row];
    const A rstd = p.rstd[row];
    LaneSum<A> sum, sum_with_normed;
    for_each_vec_in_block<T>(p.columns, [&](std::int64_t i, auto lanes, int slot) {
      const auto values = load_accumulate<lanes>(x + i);
      const auto gradient = load_accumulate<lanes>(g + i);
      const auto weight = load_accumulate<lanes>(p.weight + i);
      for (int k = 0; k < lanes; ++k) {
        const A normed = (values[k] - mean) * rstd;
        if (weight_sums != nullptr) weight_sums[i + k] += gradient[k] * normed;
        if (bias_sums != nullptr) bias_sums[i + k] += gradient[k];
        sum.add(slot + k, gradient[k] * weight[k]);
        sum_with_normed.add(slot + k, gradient[k] * weight[k] * normed);
      }
    });
    if (dx == nullptr) continue;
    const A mean_of_both = scale * block_sum(sum_with_normed.total());
    const A mean_of_gradient = p.mean == nullptr ? A{0} : scale * block_sum(sum.total());
    T* const to = dx + first;
    for_each_vec_in_block<T>(p.columns, [=](std::int64_t i, auto lanes) {
      auto values = load_accumulate<lanes>(x + i);
      const auto gradient = load_accumulate<lanes>(g + i);
      const auto weight = load_accumulate<lanes>(p.weight + i);
      for (int k = 0; k < lanes; ++k) {
        const A normed = (values[k] - mean) * rstd;
        values[k] = rstd * (gradient[k] * weight[k] - mean_of_gradient - normed * mean_of_both);
      }
      store_result(to + i, values, accumulate);
    });
  }

  const auto write = [&](const A* sums, A* partial) {
    if (sums == nullptr) return;
    A* const to = partial + std::int64_t{blockIdx.x} * p.columns;
    for_each_vec_in_block<T>(p.columns, [=](std::int64_t i, auto lanes) {
      for (int k = 0; k < lanes; ++k) to[i + k] = sums[i + k];
    });
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
                   bool accumulate, void* weight_partial, void* bias_partial) {
  const int partials = (weight_partial == nullptr ? 0 : 1) + (bias_partial == nullptr ? 0 : 1);
  RINGTAPE_DISPATCH_FLOATING(problem.dtype, T, {
    using A = accumulate_t<T>;
    LaunchShape shape = row_shape<T>(norm_backward_blocks(problem.rows), problem.columns);
    shape.shared_bytes = static_cast<std::size_t>(partials * problem.columns) * sizeof(A);
    launch(norm_backward<T>, shape, stream, rows_of<T>(problem), static_cast<const T*>(dy),
           static_cast<T*>(dx), accumulate, static_cast<A*>(weight_partial), static_cast<A*>(bias_partial));
  });
}

}  // namespace ringtape::RINGTAPE_TARGET
