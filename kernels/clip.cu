#include "kernels/common/kernel.h"

#include <math.h>

#include <type_traits>

#include "kernels/clip.h"
#include "kernels/common/grid_sum.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr unsigned kTileThreads = kGpuGeometry ? 256 : 1;

/// Blocks that a multiprocessor can hold. With compute capability 8.0, 9.0 and 10.x it has 2,048 threads,
/// with others from 8.0 on 1,536.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 800 || __CUDA_ARCH__ / 100 == 9 || __CUDA_ARCH__ / 100 == 10
constexpr int kMaxBlocksHeld = 8;
#else
constexpr int kMaxBlocksHeld = 6;
#endif

/// The kinds of norm: each value becomes a term, Op combines the terms, and the norm is the root of the
/// result. kBlocksHeld is the number of blocks for which a multiprocessor has registers: with terms of a few
/// instructions, all blocks of a launch at once.
struct EuclideanNorm {
  static constexpr int kBlocksHeld = kMaxBlocksHeld;
  using Op = Sum;
  using Term = double;  // the square of a float above 1.8e19 or below 1e-23 leaves float's range
  __device__ Term term(float x) const { return static_cast<double>(x) * x; }
  __device__ double root(double total) const { return sqrt(total); }
};

struct AbsoluteNorm {
  static constexpr int kBlocksHeld = kMaxBlocksHeld;
  using Op = Sum;
  using Term = double;
  __device__ Term term(float x) const { return fabsf(x); }
  __device__ double root(double total) const { return total; }
};

/// The larger of two values; NaN if one of them is.
struct MaxOrNan {
  template <class T>
  RINGTAPE_HOST_DEVICE static T combine(T a, T b) {
    return a >= b || a != a ? a : b;
  }
};

struct MaximumNorm {
  static constexpr int kBlocksHeld = kMaxBlocksHeld;
  using Op = MaxOrNan;
  using Term = float;
  __device__ Term term(float x) const { return fabsf(x); }
  __device__ double root(double total) const { return total; }
};

template <class T>
RINGTAPE_HOST_DEVICE bool is_finite(T x) {
  return x - x == 0;
}

/// The terms are divided by the largest |x|, since |x|^p easily leaves the range of double.
struct PowerNorm {
  static constexpr int kBlocksHeld = 4;
  using Op = Sum;
  using Term = double;
  double p;
  const float* largest;  ///< on the device
  /// 1 where division by the largest is impossible: it is 0, infinite or NaN.
  __device__ double unit() const { return *largest > 0 && is_finite(*largest) ? *largest : 1; }
  __device__ Term term(float x) const { return pow(fabs(static_cast<double>(x)) / unit(), p); }
  __device__ double root(double total) const { return unit() * pow(total, 1 / p); }
};

__device__ float loss_scale_of(const float* loss_scale) {
  return loss_scale == nullptr ? 1.0f : *loss_scale;
}

template <class Norm>
__device__ void store_norm(const GradientNormProblem& problem, const Norm& kind, double total,
                           GradientNorm* result) {
  const float scale = loss_scale_of(problem.loss_scale);
  const float norm = static_cast<float>(kind.root(total) / scale);
  const float factor = is_finite(problem.max_norm) ? problem.max_norm / (norm + 1e-6f) : 1.0f;
  result->norm = norm;
  result->clip_factor = factor > 1 ? 1 : factor;
  result->nonfinite = is_finite(norm) ? 0 : 1;
}

/// Writes the norm to `result`, or with a `rank_total` the combined terms to `rank_total`.
template <class Norm>
__global__ void __launch_bounds__(kTileThreads, Norm::kBlocksHeld)
    gradient_norm(GradientNormProblem problem, Norm kind, double* rank_total, GradientNorm* result,
                  ReduceScratch* scratch) {
  using Op = typename Norm::Op;
  double of_block = 0;
  const BlockShare share = share_of_block(problem.tile_count);
  for (std::int64_t t = share.first; t < share.end; t += share.step) {
    const Tile tile = problem.tiles[t];
    if (problem.has_grad[tile.parameter] == 0) continue;
    const float* values = problem.gradients + tile.offset + tile.gradient_shift;
    LaneReduction<Op, typename Norm::Term> terms;
    const auto add_terms = [&](const auto& load) {
      for_each_vec_of<float, int>(tile.length, thread_rank(), block_threads(),
                                  [&](std::int64_t i, auto lanes, int slot) {
                                    const auto read = load(values + i, lanes);
                                    for (int k = 0; k < lanes; ++k) terms.add(slot + k, kind.term(read[k]));
                                  });
    };
    if (is_aligned<Vec<float, kVecLanes<float>>>(values)) {  // tested once, not for each vector
      add_terms([](const float* from, auto lanes) { return load_aligned<lanes>(from); });
    } else {
      add_terms([](const float* from, auto lanes) { return load_vec<lanes>(from); });
    }
    of_block = Op::combine(of_block, static_cast<double>(terms.total()));
  }
  double total;
  if (grid_reduce<Op>(block_reduce<Op>(of_block, SourceLocation::here()), scratch, total) &&
      threadIdx.x == 0) {
    if (rank_total == nullptr) {
      store_norm(problem, kind, total, result);
    } else {
      // A maximum over ranks may drop a NaN.
      *rank_total = std::is_same_v<Op, MaxOrNan> && total != total ? static_cast<double>(INFINITY) : total;
    }
  }
}

template <class Norm>
__global__ void norm_of_total(GradientNormProblem problem, Norm kind, const double* total,
                              GradientNorm* result) {
  store_norm(problem, kind, *total, result);
}

template <class Norm>
void launch_norm(const Stream& stream, const GradientNormProblem& problem, const Norm& kind,
                 double* rank_total, GradientNorm* result) {
  const std::int64_t blocks =
      minimum<std::int64_t>(maximum<std::int64_t>(problem.tile_count, 1), kMaxReductionBlocks);
  launch(gradient_norm<Norm>, {static_cast<unsigned>(blocks), kTileThreads}, stream, problem, kind,
         rank_total, result, reduce_scratch(stream));
}

__global__ void clip_in_memory(GradientNormProblem problem, const GradientNorm* result, float* gradients) {
  const Tile tile = problem.tiles[blockIdx.x];
  const float factor = result->clip_factor;
  if (problem.has_grad[tile.parameter] == 0 || factor == 1 || result->nonfinite != 0) return;
  float* const values = gradients + tile.offset + tile.gradient_shift;
  for_each_vec_in_block<float>(tile.length, [=](std::int64_t i, auto lanes) {
    auto read = load_vec<lanes>(values + i);
    for (int k = 0; k < lanes; ++k) read[k] *= factor;
    store_vec(values + i, read);
  });
}

__global__ void clip_to_limit(float* x, std::int64_t n, float limit, const float* loss_scale) {
  const float scaled = limit * loss_scale_of(loss_scale);
  for_each_vec<float>(n, [=](std::int64_t i, auto lanes) {
    auto values = load_vec<lanes>(x + i);
    for (int k = 0; k < lanes; ++k) {
      const float clipped = minimum(maximum(values[k], -scaled), scaled);
      values[k] = is_finite(values[k]) ? clipped : values[k];
    }
    store_vec(x + i, values);
  });
}

/// Calls body(kind) for the norm of this type. Types other than 1, 2 and infinity read the largest element
/// from `largest`.
template <class Body>
void with_norm(double type, const GradientNorm* largest, const Body& body) {
  if (type == 2) {
    body(EuclideanNorm{});
  } else if (type == 1) {
    body(AbsoluteNorm{});
  } else if (is_finite(type)) {
    body(PowerNorm{type, &largest->norm});
  } else {
    body(MaximumNorm{});
  }
}

}  // namespace

void gradient_norm(const Stream& stream, const GradientNormProblem& problem, GradientNorm* result) {
  const double p = problem.norm_type;
  if (p != 1 && p != 2 && is_finite(p)) {
    // The first launch writes the largest |x| as a norm, which the last block of the second launch replaces.
    GradientNormProblem as_in_memory = problem;
    as_in_memory.loss_scale = nullptr;
    launch_norm(stream, as_in_memory, MaximumNorm{}, nullptr, result);
  }
  with_norm(problem.norm_type, result,
            [&](const auto& kind) { launch_norm(stream, problem, kind, nullptr, result); });
}

void gradient_norm_total(const Stream& stream, const GradientNormProblem& problem, const GradientNorm* result,
                         double* total) {
  with_norm(problem.norm_type, result,
            [&](const auto& kind) { launch_norm(stream, problem, kind, total, nullptr); });
}

void gradient_norm_of_total(const Stream& stream, const GradientNormProblem& problem, const double* total,
                            GradientNorm* result) {
  with_norm(problem.norm_type, result, [&](const auto& kind) {
    launch(norm_of_total<std::decay_t<decltype(kind)>>, {1u, 1u}, stream, problem, kind, total, result);
  });
}

void clip_gradients(const Stream& stream, const GradientNormProblem& problem, const GradientNorm* result,
                    float* gradients) {
  launch(clip_in_memory, {static_cast<unsigned>(problem.tile_count), kTileThreads}, stream, problem, result,
         gradients);
}

void clip_value(const Stream& stream, float* x, std::int64_t n, float limit, const float* loss_scale) {
  launch(clip_to_limit, elementwise_shape<float>(n), stream, x, n, limit, loss_scale);
}

}  // namespace ringtape::RINGTAPE_TARGET
