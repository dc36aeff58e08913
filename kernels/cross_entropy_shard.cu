#include "kernels/common/kernel.h"

#include "kernels/common/grid_sum.h"
#include "kernels/common/rows.h"
#include "kernels/common/store_result.h"
#include "kernels/cross_entropy_shard.h"
#include "kernels/softmax.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

__device__ std::int64_t target_of(const CrossEntropyShard& p, std::int64_t row) {
  return p.target_dtype == DType::i64 ? static_cast<const std::int64_t*>(p.targets)[row]
                                      : static_cast<const std::int32_t*>(p.targets)[row];
}

/// Whether the row has a loss; invalid targets count as ignored.
__device__ bool counts(const CrossEntropyShard& p, std::int64_t target) {
  return target != p.ignore_index && target >= 0 && target < p.all_classes;
}

template <class T>
__global__ void cross_entropy_shard_statistics(CrossEntropyShard p, const T* logits,
                                               accumulate_t<T>* statistics) {
  using A = accumulate_t<T>;
  const BlockShare share = share_of_block(p.rows);
  for (std::int64_t row = share.first; row < share.end; row += share.step) {
    const RowsInPasses<T, 1> x(p.classes, logits + row * p.classes);
    const A max = row_max(x);
    const A sum = x.sum([=](const auto& values, int k) { return softmax_exp(values[0][k] - max); });
    if (threadIdx.x != 0) continue;
    const std::int64_t target = target_of(p, row), own = target - p.first_class;
    const bool is_own = counts(p, target) && own >= 0 && own < p.classes;
    A* const to = statistics + 3 * row;
    to[0] = max;
    to[1] = sum;
    to[2] = is_own ? to_accumulate(logits[row * p.classes + own]) : A{0};
  }
}

template <class A>
__global__ void cross_entropy_shard_loss(CrossEntropyShard p, const A* statistics, int ranks, A* stats,
                                         A* loss, ReduceScratch* scratch) {
  LaneSum<double> sum_of_losses;
  for_each_vec<A>(p.rows, [&](std::int64_t first, auto lanes, int slot) {
    for (int lane = 0; lane < lanes; ++lane) {
      const std::int64_t row = first + lane;
      A max = kLowest<A>, sum = 0, logit = 0;
      for (int r = 0; r < ranks; ++r) max = maximum(max, statistics[3 * (r * p.rows + row)]);
      for (int r = 0; r < ranks; ++r) {
        const A* const of_rank = statistics + 3 * (r * p.rows + row);
        sum += of_rank[1] * softmax_exp(of_rank[0] - max);
        logit += of_rank[2];
      }
      store_aligned(stats + 2 * row, Vec<A, 2>{{max, sum}});
      const std::int64_t target = target_of(p, row);
      if (counts(p, target)) {
        sum_of_losses.add(slot + lane, natural_log(sum) - (logit - max));
      } else if (target != p.ignore_index) {
        atomicExch(p.invalid_target, static_cast<int>(row + 1));
      }
    }
  });
  double total;
  if (grid_sum(block_sum(sum_of_losses.total()), scratch, total) && threadIdx.x == 0) {
    *loss = static_cast<A>(total / p.divisor);
  }
}

template <class T>
__global__ void cross_entropy_shard_backward(CrossEntropyShard p, const T* logits,
                                             const accumulate_t<T>* stats, const accumulate_t<T>* grad_loss,
                                             T* dlogits, bool accumulate) {
  using A = accumulate_t<T>;
  const BlockShare share = share_of_block(p.rows);
  for (std::int64_t row = share.first; row < share.end; row += share.step) {
    const std::int64_t target = target_of(p, row), own = target - p.first_class;
    const A scale = *grad_loss / static_cast<A>(p.divisor);
    const A max = stats[2 * row], inverse = A{1} / stats[2 * row + 1];
    const RowsInPasses<T, 1> x(p.classes, logits + row * p.classes);
    T* const to = dlogits + row * p.classes;
    if (!counts(p, target)) {  // not a factor of 0: its logits may be infinite, and 0 times NaN is NaN
      if (accumulate) continue;
      x.for_each([=](std::int64_t i, auto lanes, int, const auto&) { store_vec(to + i, Vec<T, lanes>{}); });
      continue;
    }
    x.for_each([=](std::int64_t i, auto lanes, int, const auto& values) {
      Vec<A, lanes> result;
      for (int k = 0; k < lanes; ++k) {
        result[k] = scale * (softmax_exp(values[0][k] - max) * inverse - (i + k == own ? A{1} : A{0}));
      }
      store_result(to + i, result, accumulate);
    });
  }
}

}  // namespace

void cross_entropy_shard_statistics(const Stream& stream, const CrossEntropyShard& problem,
                                    const void* logits, void* statistics) {
  RINGTAPE_DISPATCH_FLOATING(
      problem.dtype, T,
      launch(cross_entropy_shard_statistics<T>, rows_shape<T>(problem.rows, problem.classes), stream, problem,
             static_cast<const T*>(logits), static_cast<accumulate_t<T>*>(statistics)));
}

void cross_entropy_shard_loss(const Stream& stream, const CrossEntropyShard& problem, const void* statistics,
                              int ranks, void* stats, void* loss) {
  RINGTAPE_DISPATCH_FLOATING(problem.dtype, T, {
    using A = accumulate_t<T>;
    launch(cross_entropy_shard_loss<A>, grid_sum_shape<A>(problem.rows), stream, problem,
           static_cast<const A*>(statistics), ranks, static_cast<A*>(stats), static_cast<A*>(loss),
           reduce_scratch(stream));
  });
}

void cross_entropy_shard_backward(const Stream& stream, const CrossEntropyShard& problem, const void* logits,
                                  const void* stats, const void* grad_loss, void* dlogits, bool accumulate) {
  RINGTAPE_DISPATCH_FLOATING(problem.dtype, T, {
    using A = accumulate_t<T>;
    launch(cross_entropy_shard_backward<T>, rows_shape<T>(problem.rows, problem.classes), stream, problem,
           static_cast<const T*>(logits), static_cast<const A*>(stats), static_cast<const A*>(grad_loss),
           static_cast<T*>(dlogits), accumulate);
  });
}

}  // namespace ringtape::RINGTAPE_TARGET
