#pragma once

#include "kernels/common/kernel.h"

#include "kernels/common/grid_sum.h"
#include "kernels/cross_entropy.h"
#include "kernels/softmax.h"

/// Shared by the two kernels of cross-entropy (cross_entropy_few_classes.h, cross_entropy_many_classes.h):
/// the tensors of a pass, a row's target, and what is written for a row and for the whole batch. The
/// arithmetic of a row is in kernels/softmax.h.
namespace ringtape::RINGTAPE_TARGET {
namespace {

enum class Pass { forward, backward, fused };

constexpr int kIgnored = -1;
constexpr int kInvalid = -2;

/// The tensors that a pass reads and writes; tensors that it does not use are null.
template <class T>
struct Buffers {
  const T* logits;
  accumulate_t<T>* stats;
  accumulate_t<T>* row_loss;
  accumulate_t<T>* loss;
  const accumulate_t<T>* grad_loss;
  T* dlogits;
  bool accumulate;
  ReduceScratch* scratch;
};

/// The row's target, kIgnored or kInvalid.
__device__ std::int64_t target_of(const CrossEntropyProblem& problem, std::int64_t row) {
  const std::int64_t target = problem.target_dtype == DType::i64
                                  ? static_cast<const std::int64_t*>(problem.targets)[row]
                                  : static_cast<const std::int32_t*>(problem.targets)[row];
  if (target == problem.ignore_index) return kIgnored;
  return target >= 0 && target < problem.classes ? target : kInvalid;
}

/// The divisor of the sum of the rows' losses.
template <class A>
__device__ A divisor_of(const CrossEntropyProblem& problem) {
  const A given = static_cast<A>(problem.host_divisor);
  return problem.divisor == nullptr ? given : *problem.divisor * given;
}

/// The factor of a row's gradient: the upstream gradient over the divisor.
template <Pass pass, class T>
__device__ accumulate_t<T> gradient_scale(const CrossEntropyProblem& problem, const Buffers<T>& buffers) {
  accumulate_t<T> scale = 1;
  if constexpr (pass == Pass::backward) scale = buffers.grad_loss == nullptr ? 1 : *buffers.grad_loss;
  return scale / divisor_of<accumulate_t<T>>(problem);
}

/// Writes the loss from the sum of the rows' losses.
template <class T>
__device__ void store_loss(const CrossEntropyProblem& problem, const Buffers<T>& buffers, double sum) {
  *buffers.loss = static_cast<accumulate_t<T>>(sum / divisor_of<accumulate_t<T>>(problem));
}

/// Adds up the blocks' losses (in thread 0 of each) and writes the total.
template <class T>
__device__ void finish_loss(const CrossEntropyProblem& problem, const Buffers<T>& buffers,
                            double block_loss) {
  double total;
  if (grid_sum(block_loss, buffers.scratch, total) && threadIdx.x == 0) store_loss(problem, buffers, total);
}

/// Adds up the blocks' correct rows (in thread 0 of each) and writes the total.
__device__ void finish_count(double correct_rows, ReduceScratch* scratch, float* correct, bool accumulate) {
  double total;
  if (grid_sum(correct_rows, scratch, total) && threadIdx.x == 0) {
    *correct = static_cast<float>(total) + (accumulate ? *correct : 0);
  }
}

/// Whether class j keeps the target from being the first of the row's largest logits. A NaN does.
template <class A>
__device__ bool beats(A logit, int j, A target_logit, int target) {
  return !(logit < target_logit || (logit == target_logit && j >= target));
}

/// Writes the forward's results of a row; the fused pass has none.
template <Pass pass, class T>
__device__ void store_row(const Buffers<T>& buffers, std::int64_t row, accumulate_t<T> max,
                          accumulate_t<T> sum, accumulate_t<T> loss) {
  if constexpr (pass == Pass::fused) return;
  if (buffers.stats != nullptr) {
    store_vec(buffers.stats + 2 * row, Vec<accumulate_t<T>, 2>{{max, sum}});
  }
  if (buffers.row_loss != nullptr) buffers.row_loss[row] = loss;
}

/// The row's statistics for the backward.
template <class T>
__device__ Softmax<accumulate_t<T>> stored_row(const Buffers<T>& buffers, std::int64_t row) {
  const auto stats = load_vec<2>(buffers.stats + 2 * row);
  return {stats[0], stats[1], 0};
}

unsigned blocks_for(std::int64_t wanted) {
  return static_cast<unsigned>(
      minimum<std::int64_t>(maximum<std::int64_t>(wanted, 1), ReduceScratch::kMaxBlocks));
}

}  // namespace
}  // namespace ringtape::RINGTAPE_TARGET
