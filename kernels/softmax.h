#pragma once

#include "kernels/common/kernel.h"

#include <cfloat>
#include <cmath>
#include <type_traits>

#include "kernels/common/math.h"
#include "kernels/common/rows.h"

/// The arithmetic of softmax cross-entropy for one row of logits: the softmax in one pass over them (Milakov
/// and Gimelshein, "Online normalizer calculation for softmax", 2018), the loss, and the gradient. The
/// kernels are in kernels/cross_entropy.cu.
namespace ringtape::RINGTAPE_TARGET {

/// The statistics of a row x for the loss: its maximum m, the sum of exp(x - m) and, for label smoothing, of
/// x - m.
template <class A>
struct Softmax {
  A max;
  A sum;
  A shifted_sum;

  /// Loss of the row whose target has this logit.
  __device__ A loss(A target_logit, A classes, A smoothing) const {
    const A log_sum = natural_log(sum);
    const A likelihood = (1 - smoothing) * (log_sum - (target_logit - max));
    if (smoothing == 0) return likelihood;
    return likelihood + smoothing / classes * (classes * log_sum - shifted_sum);
  }
};

/// The lowest finite value: -inf - lowest is -inf, where -inf - -inf would be NaN.
template <class A>
inline constexpr A kLowest = static_cast<A>(sizeof(A) == 8 ? -DBL_MAX : -FLT_MAX);

/// The largest element of a row; every thread of the block gets it.
template <class T>
__device__ accumulate_t<T> row_max(const RowsInPasses<T, 1>& x) {
  using A = accumulate_t<T>;
  A largest[kSlots];
  for (int s = 0; s < kSlots; ++s) largest[s] = kLowest<A>;
  x.for_each([&](std::int64_t, auto lanes, int slot, const auto& values) {
    for (int k = 0; k < lanes; ++k) largest[slot + k] = larger_logit(largest[slot + k], values[0][k]);
  });
  for (int s = 1; s < kSlots; ++s) largest[0] = larger_logit(largest[0], largest[s]);
  return block_max(largest[0]);
}

/// e(x): exp(x - max) times a factor that is the same for all logits x <= max of a softmax.
template <class A>
struct ExpOfDifference {
  A max;
  /// The lowest max: with -inf, a row of -inf would have a sum of NaN instead of 0.
  static constexpr A kLowestMax = kLowest<A>;

  __device__ A operator()(A x) const { return softmax_exp(x - max); }
  /// The factor for a sum of e(x) under a lower max.
  __device__ A from(const ExpOfDifference& lower) const { return softmax_exp(lower.max - max); }
  __device__ A factor() const { return 1; }
};

/// The same on the GPU in one multiply-add and one instruction for the power: e(x) = 2^(x log2(e) - r) with r
/// = max log2(e), rounded. The factor is e(max): 1 but for the rounding of r. It cancels where e(x) is
/// divided by a sum of e(x), and has the range of a float for a max between -2^30 and 2^30.
class ExpInOneStep {
 public:
  static constexpr float kLowestMax = -0x1p30f;

  // fmaf, because the compiler might fuse a plain product into another multiply-add, without rounding it.
  __device__ explicit ExpInOneStep(float max) : max_(max), reference_(fmaf(max, kLog2OfE, 0.0f)) {}

  __device__ float operator()(float x) const { return power_of_two(fmaf(x, kLog2OfE, -reference_)); }
  __device__ float from(const ExpInOneStep& lower) const {
    return power_of_two(lower.reference_ - reference_);
  }
  __device__ float factor() const { return (*this)(max_); }

 private:
  static constexpr float kLog2OfE = 1.44269504f;
  float max_, reference_;
};

/// The form for rows of many logits.
template <class A>
using ExpBelow =
    std::conditional_t<kGpuGeometry && std::is_same_v<A, float>, ExpInOneStep, ExpOfDifference<A>>;

/// The softmax of the logits seen so far. On the CPU it has slots, each for every kSoftmaxSlots-th logit, so
/// that the compiler can vectorise.
inline constexpr int kSoftmaxSlots = kGpuGeometry ? 1 : 32;

template <class A>
class RunningSoftmax {
 public:
  __device__ RunningSoftmax() {
    for (int s = 0; s < kSoftmaxSlots; ++s) max_[s] = ExpBelow<A>::kLowestMax;
  }

  /// Adds N logits: 1, or a multiple of kSoftmaxSlots.
  template <int N>
  __device__ void add(const A (&logits)[N], bool smoothing) {
    constexpr int kUsed = minimum(N, kSoftmaxSlots);
    A larger[kUsed];
    for (int s = 0; s < kUsed; ++s) larger[s] = max_[s];
    for (int i = 0; i < N; i += kUsed) {
      for (int s = 0; s < kUsed; ++s) larger[s] = larger_logit(larger[s], logits[i + s]);
    }
    if (smoothing) {
      for (int s = 0; s < kUsed; ++s) shifted_sum_[s] = shifted_to(larger[s], s);
      for (int i = 0; i < N; i += kUsed) {
        for (int s = 0; s < kUsed; ++s) shifted_sum_[s] += logits[i + s] - larger[s];
      }
      for (int s = 0; s < kUsed; ++s) seen_[s] += N / kUsed;
    }
    for (int s = 0; s < kUsed; ++s) {
      sum_[s] *= ExpBelow<A>{larger[s]}.from(ExpBelow<A>{max_[s]});
      max_[s] = larger[s];
    }
    for (int i = 0; i < N; i += kUsed) {
      for (int s = 0; s < kUsed; ++s) sum_[s] += ExpBelow<A>{larger[s]}(logits[i + s]);
    }
  }

  /// The softmax of the logits of all threads of the block; every thread gets the result.
  __device__ Softmax<A> of_block(bool smoothing) const {
    A max = max_[0], sum = 0, shifted_sum = 0;
    for (int s = 1; s < kSoftmaxSlots; ++s) max = larger_logit(max, max_[s]);
    max = block_max(max);
    const ExpBelow<A> exp_below{max};
    for (int s = 0; s < kSoftmaxSlots; ++s) sum += sum_[s] * exp_below.from(ExpBelow<A>{max_[s]});
    sum = block_sum(sum) / exp_below.factor();
    if (sum == 0) sum = static_cast<A>(NAN);  // no logit is above the least max
    if (smoothing) {
      for (int s = 0; s < kSoftmaxSlots; ++s) shifted_sum += shifted_to(max, s);
      shifted_sum = block_sum(shifted_sum);
    }
    return {max, sum, shifted_sum};
  }

 private:
  /// The slot's sum of x - m for a larger m.
  __device__ A shifted_to(A larger, int s) const {
    return seen_[s] > 0 ? shifted_sum_[s] - seen_[s] * (larger - max_[s]) : 0;
  }

  A max_[kSoftmaxSlots];
  A sum_[kSoftmaxSlots] = {};
  A shifted_sum_[kSoftmaxSlots] = {};
  A seen_[kSoftmaxSlots] = {};
};

/// Gradient of a row: scale * (softmax - (1 - e) * onehot(target) - e / classes).
template <class A, class Exp>
struct RowGradient {
  Exp exp_below;
  A softmax_scale;  // scale / sum of e(x)
  A everywhere;     // scale * e / classes
  A at_target;      // scale * (1 - e)

  __device__ RowGradient(A row_max, A row_sum, A scale, A classes, A smoothing)
      : exp_below{row_max},
        softmax_scale(scale / (row_sum * exp_below.factor())),
        everywhere(scale * smoothing / classes),
        at_target(scale * (1 - smoothing)) {}

  __device__ A operator()(A logit) const { return softmax_scale * exp_below(logit) - everywhere; }
};

}  // namespace ringtape::RINGTAPE_TARGET
