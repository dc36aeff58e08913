#pragma once

#include "kernels/common/kernel.h"

#include "kernels/common/store_result.h"
#include "kernels/cross_entropy_row.h"

/// Cross-entropy over few classes: a block stages several whole rows in shared memory, and each thread
/// computes one row.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr std::int64_t kMaxClassesOfThread = 32;
constexpr int kRowsPerBlock = 128;  // of the kernel with one thread for each row
/// The classes of MNIST and of other data sets: for these the compiler keeps a row in registers. A kernel for
/// each number up to kMaxClassesOfThread would take nvcc several minutes.
constexpr int kTenClasses = 10;

/// A thread's row of `classes` logits in shared memory. kClasses is their number if it is known at compile
/// time, otherwise 0.
template <class T, int kClasses>
class RowOfThread {
 public:
  using A = accumulate_t<T>;

  __device__ RowOfThread(T* row, int classes, [[maybe_unused]] int number)
      : row_(row), classes_(classes), first_(0) {
    if constexpr (kGpuGeometry) {
      const int power_of_two = classes & -classes;
      first_ = number * power_of_two / 32 % classes;
    }
  }

  /// Calls body(j, logit) for every class. On the GPU the rows of a warp are contiguous in shared memory. If
  /// g is the largest power of 2 that divides the number of classes, every 32 / g-th row begins at the same
  /// bank. So each group of 32 / g rows begins one class after the group before: a warp's reads of f32 fall
  /// on 32 different banks.
  template <class Body>
  __device__ void for_each(const Body& body) const {
    if constexpr (kGpuGeometry) {
      int j = first_;
      for (int k = 0; k < classes_; ++k) {
        body(j, to_accumulate(row_[j]));
        j = j + 1 < classes_ ? j + 1 : 0;
      }
    } else {
#pragma GCC ivdep
      for (int j = 0; j < classes_; ++j) body(j, to_accumulate(row_[j]));
    }
  }

  /// Replaces each logit by value(logit).
  template <class Value>
  __device__ void replace(const Value& value) {
    for_each([&](int j, A logit) { row_[j] = from_accumulate<T>(value(logit)); });
  }

 private:
  T* row_;
  int classes_, first_;
};

/// The same in registers.
template <class T, int kClasses>
requires(kClasses > 0) class RowOfThread<T, kClasses> {
 public:
  using A = accumulate_t<T>;

  __device__ RowOfThread(T* row, int, int) : row_(row), logits_(to_accumulate(load_aligned<kClasses>(row))) {}

  template <class Body>
  __device__ void for_each(const Body& body) const {
#pragma unroll
    for (int j = 0; j < kClasses; ++j) body(j, logits_[j]);
  }

  template <class Value>
  __device__ void replace(const Value& value) {
    Vec<T, kClasses> replaced;
#pragma unroll
    for (int j = 0; j < kClasses; ++j) replaced[j] = from_accumulate<T>(value(logits_[j]));
    store_aligned(row_, replaced);
  }

 private:
  T* row_;
  Vec<A, kClasses> logits_;
};

template <class Row>
__device__ Softmax<typename Row::A> softmax_of(const Row& row, bool smoothing) {
  using A = typename Row::A;
  A max = kLowest<A>, sum = 0, shifted_sum = 0;
  row.for_each([&](int, A logit) { max = larger_logit(max, logit); });
  row.for_each([&](int, A logit) { sum += softmax_exp(logit - max); });
  if (smoothing) row.for_each([&](int, A logit) { shifted_sum += logit - max; });
  return {max, sum, shifted_sum};
}

/// Copies the block's rows, or adds them. With kClasses they begin at a multiple of 16 bytes, and the loads
/// of all of a thread's vectors are in flight together.
template <int kClasses, class T>
__device__ void copy_rows(const T* from, T* to, int rows, int classes, bool accumulate) {
  if constexpr (kClasses == 0) {
    for_each_vec_in_block<T>(rows * classes, [=](std::int64_t i, auto lanes) {
      const auto read = load_vec<lanes>(from + i);
      accumulate ? store_result(to + i, to_accumulate(read), true) : store_vec(to + i, read);
    });
  } else {
    constexpr int kWidth = kVecLanes<T>, kVectors = ceil_div(kClasses, kWidth);
    const int elements = rows * kClasses, rank = static_cast<int>(threadIdx.x);
    Vec<T, kWidth> read[kVectors];
    const auto for_each_vector = [&](const auto& body) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const int i = (rank + v * kRowsPerBlock) * kWidth;
        if (i + kWidth <= elements) body(i, read[v]);
      }
    };
    for_each_vector([=](int i, auto& vector) { vector = load_aligned<kWidth>(from + i); });
    if (accumulate) {
      for_each_vector([=](int i, auto& vector) {
        auto sums = to_accumulate(vector);
        const auto before = to_accumulate(load_aligned<kWidth>(to + i));
        for (int k = 0; k < kWidth; ++k) vector[k] = from_accumulate<T>(sums[k] + before[k]);
      });
    }
    for_each_vector([=](int i, const auto& vector) { store_aligned(to + i, vector); });
    static_assert(kRowsPerBlock * kClasses % kWidth == 0,
                  "only a group of fewer rows has elements beyond the vectors");
    const int last = elements / kWidth * kWidth + rank;
    if (rows < kRowsPerBlock && last < elements) {
      store_result(to + last, to_accumulate(load_aligned<1>(from + last)), accumulate);
    }
  }
}

template <class T, Pass pass, int kClasses>
__global__ void cross_entropy_thread_per_row(CrossEntropyProblem problem, Buffers<T> buffers) {
  using A = accumulate_t<T>;
  T* staged = dynamic_shared<T>();
  const int classes = kClasses > 0 ? kClasses : static_cast<int>(problem.classes);
  const A smoothing = static_cast<A>(problem.label_smoothing);
  [[maybe_unused]] A scale = 0;
  if constexpr (pass != Pass::forward) scale = gradient_scale<pass>(problem, buffers);
  double loss_of_rows = 0;
  [[maybe_unused]] int correct_rows = 0;

  const BlockShare share = share_of_block(ceil_div(problem.rows, kRowsPerBlock));
  for (std::int64_t group = share.first; group < share.end; group += share.step) {
    const std::int64_t first = group * kRowsPerBlock;
    const int rows = static_cast<int>(minimum<std::int64_t>(kRowsPerBlock, problem.rows - first));
    const T* logits = buffers.logits + first * classes;
    // Read together with the logits, not after the barrier.
    const int rank = static_cast<int>(threadIdx.x);
    [[maybe_unused]] int own_target = kIgnored;
    if constexpr (kGpuGeometry) {  // with as many threads as rows
      if (rank < rows) own_target = static_cast<int>(target_of(problem, first + rank));
    }
    copy_rows<kClasses>(logits, staged, rows, classes, false);
    __syncthreads();

    const auto compute = [&](int r, int target) {
      T* const of_row = staged + r * classes;
      if (target < 0) {
        if constexpr (pass != Pass::backward) {
          if (target == kInvalid) atomicExch(problem.invalid_target, static_cast<int>(first + r + 1));
          store_row<pass>(buffers, first + r, A{0}, A{1}, A{0});
        }
        if constexpr (pass != Pass::forward) {
          for (int j = 0; j < classes; ++j) of_row[j] = from_accumulate<T>(0);
        }
        return;
      }
      RowOfThread<T, kClasses> row(of_row, classes, r);
      Softmax<A> softmax;
      if constexpr (pass == Pass::backward) {
        softmax = stored_row(buffers, first + r);
      } else {
        softmax = softmax_of(row, smoothing > 0);
        const A loss = softmax.loss(to_accumulate(of_row[target]), static_cast<A>(classes), smoothing);
        store_row<pass>(buffers, first + r, softmax.max, softmax.sum, loss);
        loss_of_rows += loss;
        if (problem.correct != nullptr) {
          const A at_target = to_accumulate(of_row[target]);
          int beaten = 0;
          row.for_each([&](int j, A logit) { beaten |= beats<A>(logit, j, at_target, target); });
          correct_rows += 1 - beaten;
        }
      }
      if constexpr (pass != Pass::forward) {
        const RowGradient<A, ExpOfDifference<A>> gradient(softmax.max, softmax.sum, scale,
                                                          static_cast<A>(classes), smoothing);
        const A at_target = gradient(to_accumulate(of_row[target])) - gradient.at_target;
        row.replace(gradient);
        of_row[target] = from_accumulate<T>(at_target);
      }
    };
    if constexpr (kGpuGeometry) {
      if (rank < rows) compute(rank, own_target);
    } else {
      for (int r = rank; r < rows; r += static_cast<int>(blockDim.x)) {
        compute(r, static_cast<int>(target_of(problem, first + r)));
      }
    }
    __syncthreads();

    if constexpr (pass != Pass::forward) {
      T* dlogits = buffers.dlogits + first * classes;
      copy_rows<kClasses>(staged, dlogits, rows, classes, pass == Pass::backward && buffers.accumulate);
      __syncthreads();
    }
  }
  if constexpr (pass != Pass::backward) {
    const double loss = block_sum(loss_of_rows);
    if (problem.correct == nullptr) {
      finish_loss(problem, buffers, loss);
    } else {
      double totals[2];
      const bool is_last =
          grid_sums({loss, static_cast<double>(block_sum(correct_rows))}, buffers.scratch, totals);
      if (is_last && threadIdx.x == 0) {
        store_loss(problem, buffers, totals[0]);
        *problem.correct = static_cast<float>(totals[1]);
      }
    }
  }
}

/// Counts the rows whose target is the largest logit.
template <class T>
__global__ void count_correct_thread_per_row(CrossEntropyProblem problem, const T* logits,
                                             ReduceScratch* scratch, float* correct, bool accumulate) {
  const int classes = static_cast<int>(problem.classes);
  int correct_rows = 0;
  const BlockShare share = share_of_block(ceil_div(problem.rows, std::int64_t{blockDim.x}));
  for (std::int64_t group = share.first; group < share.end; group += share.step) {
    const std::int64_t row = group * blockDim.x + threadIdx.x;
    const int target = row < problem.rows ? static_cast<int>(target_of(problem, row)) : kIgnored;
    if (target < 0) continue;
    const T* values = logits + row * classes;
    const auto target_logit = to_accumulate(values[target]);
    int beaten = 0;
    for (int j = 0; j < classes; ++j) beaten |= beats(to_accumulate(values[j]), j, target_logit, target);
    correct_rows += 1 - beaten;
  }
  finish_count(block_sum(correct_rows), scratch, correct, accumulate);
}

template <class T>
LaunchShape thread_per_row_shape(const CrossEntropyProblem& problem) {
  // On the CPU one thread takes all rows of its block, so no thread waits.
  return {blocks_for(ceil_div(problem.rows, kRowsPerBlock)), kGpuGeometry ? kRowsPerBlock : 1u,
          static_cast<std::size_t>(kRowsPerBlock * problem.classes) * sizeof(T)};
}

}  // namespace
}  // namespace ringtape::RINGTAPE_TARGET
