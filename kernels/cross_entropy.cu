#include "kernels/common/kernel.h"

#include "kernels/common/grid_sum.h"
#include "kernels/common/store_result.h"
#include "kernels/cross_entropy.h"
#include "kernels/softmax.h"

// There are two kernels. For few classes, a block stages several whole rows in shared memory, and each thread
// computes one row. For longer rows, a block computes one row. Either does the forward, the backward or both.
// The arithmetic of a row is in kernels/softmax.h.

namespace ringtape::RINGTAPE_TARGET {
namespace {

enum class Pass { forward, backward, fused };

constexpr std::int64_t kMostClassesOfThread = 32;
constexpr int kRowsPerBlock = 128;  // of the kernel with one thread for each row
/// The classes of MNIST and of other data sets: for these the compiler keeps a row in registers. A kernel for
/// each number up to kMostClassesOfThread would take nvcc several minutes.
constexpr int kTenClasses = 10;

constexpr int kIgnored = -1;
constexpr int kInvalid = -2;

/// The tensors that a pass reads and writes; those it does not use are null.
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

/// Whether class j keeps the target from being the first of the row's largest logits. A NaN does.
template <class A>
__device__ bool beats(A logit, std::int64_t j, A target_logit, std::int64_t target) {
  return !(logit < target_logit || (logit == target_logit && j >= target));
}

/// Writes the forward's results of a row, of which the fused pass has none.
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

// ---- one thread for each row ----

/// A thread's row of `classes` logits in shared memory; kClasses, where the compiler knows it, is their
/// number, and 0 elsewhere.
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
/// of all vectors of a thread are under way together.
template <int kClasses, class T>
__device__ void copy_rows(const T* from, T* to, int rows, int classes, bool accumulate) {
  if constexpr (kClasses == 0) {
    for_each_vec_in_block<T>(rows * classes, [=](std::int64_t i, auto lanes) {
      const auto read = load_vec<lanes>(from + i);
      accumulate ? store_result(to + i, to_accumulate(read), true) : store_vec(to + i, read);
    });
  } else {
    constexpr int kWidth = kVecLanes<T>, kVectors = static_cast<int>(ceil_div(kClasses, kWidth));
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
    // Read with the logits, and not after the barrier.
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
        const RowGradient<A> gradient(softmax.max, softmax.sum, scale, static_cast<A>(classes), smoothing);
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

// ---- one block for each row ----

/// The offset of a row from the last 16-byte boundary, in elements of T.
template <class T>
__device__ int misalignment(const T* row) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(row) % 16 / sizeof(T));
}

/// Calls body(j, step, vectors, lanes), with row + j aligned for load_aligned<lanes>, until every class j of
/// a row has been visited by one thread of the block. The call covers `vectors` pieces of `lanes`
/// neighbouring classes, the next piece `step` classes on: on the GPU 16-byte vectors, two at a time to keep
/// enough loads in flight, and on the CPU pieces long enough for loops that the compiler vectorises. `row` is
/// where the row begins, for its alignment.
template <class T, class Body>
__device__ void for_each_in_row(const T* row, std::int64_t classes, const Body& body) {
  constexpr int kWidth = kGpuGeometry ? kVecLanes<T> : kSoftmaxSlots;
  constexpr int kVectors = kGpuGeometry ? 2 : 8;
  const std::int64_t rank = threadIdx.x;
  const std::int64_t threads = blockDim.x;
  std::int64_t head = 0;
  if constexpr (kGpuGeometry) {
    const int beyond = misalignment(row);
    if (beyond > 0) head = minimum<std::int64_t>(kWidth - beyond, classes);
    for (std::int64_t j = rank; j < head; j += threads) body(j, threads, Lanes<1>{}, Lanes<1>{});
  }
  const std::int64_t step = threads * kWidth;
  std::int64_t j = head + rank * kWidth;
  for (; j + (kVectors - 1) * step + kWidth <= classes; j += kVectors * step) {
    body(j, step, Lanes<kVectors>{}, Lanes<kWidth>{});
  }
  for (; j + kWidth <= classes; j += step) body(j, step, Lanes<1>{}, Lanes<kWidth>{});
  j = head + (classes - head) / kWidth * kWidth + rank;
  for (; j < classes; j += threads) body(j, threads, Lanes<1>{}, Lanes<1>{});
}

template <class T, Pass pass, bool kStaged>
__global__ void __launch_bounds__(1024, 1)
    cross_entropy_block_per_row(CrossEntropyProblem problem, Buffers<T> buffers) {
  using A = accumulate_t<T>;
  const std::int64_t classes = problem.classes;
  const A smoothing = static_cast<A>(problem.label_smoothing);
  [[maybe_unused]] A scale = 0;
  if constexpr (pass != Pass::forward) scale = gradient_scale<pass>(problem, buffers);
  double loss_of_rows = 0;

  const BlockShare share = share_of_block(problem.rows);
  for (std::int64_t row = share.first; row < share.end; row += share.step) {
    const T* logits = buffers.logits + row * classes;
    // The logits for the second pass: in shared memory, with the row's own offset from a 16-byte boundary, or
    // again from global memory. Each thread reads only elements that it wrote.
    [[maybe_unused]] T* staged = nullptr;
    static_assert(
        ReduceScratch::kMaxBlocks * sizeof(T) % 16 == 0,
        "the rows of one block must be equally far from a boundary: no barrier parts one row from the next");
    if constexpr (kStaged) staged = dynamic_shared<T>() + misalignment(logits);

    const std::int64_t target = target_of(problem, row);
    [[maybe_unused]] Softmax<A> softmax{};
    if constexpr (pass == Pass::backward) {
      softmax = stored_row(buffers, row);
    } else if (target < 0) {
      if (threadIdx.x == 0) {
        if (target == kInvalid) atomicExch(problem.invalid_target, static_cast<int>(row + 1));
        store_row<pass>(buffers, row, A{0}, A{1}, A{0});
      }
    } else {
      const A target_logit = to_accumulate(logits[target]);
      RunningSoftmax<A> running;
      for_each_in_row(logits, classes, [&](std::int64_t j, std::int64_t step, auto vectors, auto lanes) {
        Vec<T, lanes> read[vectors];
        A values[vectors * lanes];
#pragma unroll
        for (int v = 0; v < vectors; ++v) read[v] = load_aligned<lanes>(logits + j + v * step);
#pragma unroll
        for (int v = 0; v < vectors; ++v) {
          if constexpr (kStaged) store_aligned(staged + j + v * step, read[v]);
          const auto logits_of_vector = to_accumulate(read[v]);
          for (int k = 0; k < lanes; ++k) values[v * lanes + k] = logits_of_vector[k];
        }
        running.add(values, smoothing > 0);
      });
      softmax = running.of_block(smoothing > 0);
      if (threadIdx.x == 0) {
        const A loss = softmax.loss(target_logit, static_cast<A>(classes), smoothing);
        store_row<pass>(buffers, row, softmax.max, softmax.sum, loss);
        loss_of_rows += loss;
      }
    }

    if constexpr (pass != Pass::forward) {
      const T* source = kStaged ? staged : logits;
      T* dlogits = buffers.dlogits + row * classes;
      const bool accumulate = pass == Pass::backward && buffers.accumulate;
      if (target < 0) {
        for_each_in_row(logits, classes, [=](std::int64_t j, std::int64_t step, auto vectors, auto lanes) {
          for (int v = 0; v < vectors; ++v) store_result(dlogits + j + v * step, Vec<A, lanes>{}, accumulate);
        });
        continue;
      }
      const RowGradient<A> gradient(softmax.max, softmax.sum, scale, static_cast<A>(classes), smoothing);
      for_each_in_row(logits, classes, [=](std::int64_t j, std::int64_t step, auto vectors, auto lanes) {
        Vec<T, lanes> read[vectors];
#pragma unroll
        for (int v = 0; v < vectors; ++v) read[v] = load_aligned<lanes>(source + j + v * step);
#pragma unroll
        for (int v = 0; v < vectors; ++v) {
          const std::int64_t begin = j + v * step;
          const auto logits_of_vector = to_accumulate(read[v]);
          Vec<A, lanes> values;
          for (int k = 0; k < lanes; ++k) values[k] = gradient(logits_of_vector[k]);
          if (target >= begin && target < begin + lanes) {
            for (int k = 0; k < lanes; ++k) {
              if (begin + k == target) values[k] -= gradient.at_target;
            }
          }
          store_result(dlogits + begin, values, accumulate);
        }
      });
    }
  }
  if constexpr (pass != Pass::backward) finish_loss(problem, buffers, loss_of_rows);
}

// ---- counting ----

template <class I>
__global__ void count_targets(const I* targets, std::int64_t rows, std::int64_t ignore_index,
                              ReduceScratch* scratch, float* count) {
  LaneSum<float> sum;
  for_each_vec<I>(rows, [&](std::int64_t i, auto lanes, int slot) {
    const auto values = load_vec<lanes>(targets + i);
    for (int k = 0; k < lanes; ++k) sum.add(slot + k, values[k] == ignore_index ? 0.0f : 1.0f);
  });
  double total;
  if (grid_sum(block_sum(static_cast<double>(sum.total())), scratch, total) && threadIdx.x == 0) {
    *count = static_cast<float>(total);
  }
}

template <class T>
__global__ void count_correct(CrossEntropyProblem problem, const T* logits, ReduceScratch* scratch,
                              float* correct, bool accumulate) {
  double correct_rows = 0;
  const BlockShare share = share_of_block(problem.rows);
  for (std::int64_t row = share.first; row < share.end; row += share.step) {
    const std::int64_t target = target_of(problem, row);
    if (target < 0) continue;
    const T* values = logits + row * problem.classes;
    const auto target_logit = to_accumulate(values[target]);
    int beaten = 0;
    for_each_in_row(values, problem.classes,
                    [&](std::int64_t j, std::int64_t step, auto vectors, auto lanes) {
                      for (int v = 0; v < vectors; ++v) {
                        const auto read = load_aligned<lanes>(values + j + v * step);
                        for (int k = 0; k < lanes; ++k) {
                          beaten |= beats(to_accumulate(read[k]), j + v * step + k, target_logit, target);
                        }
                      }
                    });
    if (block_max(beaten) == 0) correct_rows += 1;
  }
  double total;
  if (grid_sum(correct_rows, scratch, total) && threadIdx.x == 0) {
    *correct = static_cast<float>(total) + (accumulate ? *correct : 0);
  }
}

// ---- launching ----

unsigned blocks_for(std::int64_t wanted) {
  return static_cast<unsigned>(
      minimum<std::int64_t>(maximum<std::int64_t>(wanted, 1), ReduceScratch::kMaxBlocks));
}

template <class T>
LaunchShape thread_per_row_shape(const CrossEntropyProblem& problem) {
  // On the CPU one thread takes all rows of its block, so no thread waits.
  return {blocks_for(ceil_div(problem.rows, kRowsPerBlock)), kGpuGeometry ? kRowsPerBlock : 1u,
          static_cast<std::size_t>(kRowsPerBlock * problem.classes) * sizeof(T)};
}

/// Shared memory of a block that stages a row of `classes` logits.
template <class T>
std::size_t staging_bytes(std::int64_t classes) {
  return static_cast<std::size_t>(classes) * sizeof(T) + 16;
}

/// Shared memory in bytes: the most that a block of the fused kernel may use for its row, and what a
/// multiprocessor has.
struct SharedMemory {
  std::size_t of_row, of_multiprocessor;
};

/// Of the kernel besides the row, for reductions, and of the system for each block.
constexpr std::size_t kForReductions = 2048, kOfSystem = 1024;

SharedMemory shared_memory(const Stream& stream) {
#if defined(RINGTAPE_FOR_GPU)
  const auto attribute = [&](cudaDeviceAttr which) {
    int bytes = 0;
    const cudaError_t status = cudaDeviceGetAttribute(&bytes, which, stream.device().index);
    return status == cudaSuccess ? static_cast<std::size_t>(bytes) : 0;
  };
  const std::size_t of_block = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  return {of_block > kForReductions ? of_block - kForReductions : 0,
          attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor)};
#elif defined(RINGTAPE_ANALYSIS)
  static_cast<void>(stream);
  return {225 * 1024, 228 * 1024};  // as on an H100, which allows a block 227 KiB
#else
  static_cast<void>(stream);
  return {64 * 1024, 0};  // stays in the second-level cache
#endif
}

template <class T>
LaunchShape block_per_row_shape(const Stream& stream, const CrossEntropyProblem& problem,
                                std::size_t shared_bytes = 0) {
  if constexpr (!kGpuGeometry) return {blocks_for(problem.rows), 1u, shared_bytes};
  // Two vectors for each thread. A block that has a multiprocessor for itself takes all of its threads.
  const bool alone =
      2 * (shared_bytes + kForReductions + kOfSystem) > shared_memory(stream).of_multiprocessor;
  const unsigned most = shared_bytes > 0 && alone ? 1024 : 512;
  const std::int64_t wanted = ceil_div(problem.classes, 2 * kVecLanes<T> * 32) * 32;
  return {blocks_for(problem.rows), static_cast<unsigned>(minimum<std::int64_t>(wanted, most)), shared_bytes};
}

void check_target_dtype(const char* operation, DType dtype) {
  if (dtype != DType::i32 && dtype != DType::i64) fail_unsupported_dtype(operation, dtype);
}

template <class T, Pass pass>
void run(const Stream& stream, const CrossEntropyProblem& problem, const Buffers<T>& buffers) {
  if (problem.classes <= kMostClassesOfThread) {
    const auto start = [&](auto kernel) {
      launch(kernel, thread_per_row_shape<T>(problem), stream, problem, buffers);
    };
    const bool ten = kGpuGeometry && problem.classes == kTenClasses &&
                     is_aligned<Vec<T, kVecLanes<T>>>(buffers.logits) &&
                     is_aligned<Vec<T, kVecLanes<T>>>(buffers.dlogits);
    ten ? start(cross_entropy_thread_per_row<T, pass, kTenClasses>)
        : start(cross_entropy_thread_per_row<T, pass, 0>);
    return;
  }
  // In a launch of its own: in the loop over long rows it would take registers, and so blocks.
  if (pass != Pass::backward && problem.correct != nullptr) {
    launch(count_correct<T>, block_per_row_shape<T>(stream, problem), stream, problem, buffers.logits,
           buffers.scratch, problem.correct, false);
  }
  if constexpr (pass == Pass::fused) {
    const std::size_t bytes = staging_bytes<T>(problem.classes);
    if (bytes <= shared_memory(stream).of_row) {
      launch(cross_entropy_block_per_row<T, pass, true>, block_per_row_shape<T>(stream, problem, bytes),
             stream, problem, buffers);
      return;
    }
  }
  launch(cross_entropy_block_per_row<T, pass, false>, block_per_row_shape<T>(stream, problem), stream,
         problem, buffers);
}

}  // namespace

void count_targets(const Stream& stream, DType target_dtype, const void* targets, std::int64_t rows,
                   std::int64_t ignore_index, float* count) {
  check_target_dtype("count_targets", target_dtype);
  if (target_dtype == DType::i64) {
    launch(count_targets<std::int64_t>, grid_sum_shape<std::int64_t>(rows), stream,
           static_cast<const std::int64_t*>(targets), rows, ignore_index, reduce_scratch(stream), count);
  } else {
    launch(count_targets<std::int32_t>, grid_sum_shape<std::int32_t>(rows), stream,
           static_cast<const std::int32_t*>(targets), rows, ignore_index, reduce_scratch(stream), count);
  }
}

void cross_entropy_forward(const Stream& stream, const CrossEntropyProblem& problem, const void* logits,
                           void* stats, void* row_loss, void* loss) {
  check_target_dtype("cross_entropy_forward", problem.target_dtype);
  RINGTAPE_DISPATCH_FLOATING(problem.dtype, T, {
    using A = accumulate_t<T>;
    run<T, Pass::forward>(stream, problem,
                          {static_cast<const T*>(logits), static_cast<A*>(stats), static_cast<A*>(row_loss),
                           static_cast<A*>(loss), nullptr, nullptr, false, reduce_scratch(stream)});
  });
}

void cross_entropy_backward(const Stream& stream, const CrossEntropyProblem& problem, const void* logits,
                            const void* stats, const void* grad_loss, void* dlogits, bool accumulate) {
  check_target_dtype("cross_entropy_backward", problem.target_dtype);
  RINGTAPE_DISPATCH_FLOATING(problem.dtype, T, {
    using A = accumulate_t<T>;
    run<T, Pass::backward>(
        stream, problem,
        {static_cast<const T*>(logits), const_cast<A*>(static_cast<const A*>(stats)), nullptr, nullptr,
         static_cast<const A*>(grad_loss), static_cast<T*>(dlogits), accumulate, nullptr});
  });
}

void cross_entropy_fused(const Stream& stream, const CrossEntropyProblem& problem, void* logits, void* loss) {
  check_target_dtype("cross_entropy_fused", problem.target_dtype);
  RINGTAPE_DISPATCH_FLOATING(problem.dtype, T, {
    T* in_place = static_cast<T*>(logits);
    run<T, Pass::fused>(stream, problem,
                        {in_place, nullptr, nullptr, static_cast<accumulate_t<T>*>(loss), nullptr, in_place,
                         false, reduce_scratch(stream)});
  });
}

void count_correct(const Stream& stream, const CrossEntropyProblem& problem, const void* logits,
                   float* correct, bool accumulate) {
  check_target_dtype("count_correct", problem.target_dtype);
  RINGTAPE_DISPATCH_FLOATING(
      problem.dtype, T,
      launch(count_correct<T>, block_per_row_shape<T>(stream, problem), stream, problem,
             static_cast<const T*>(logits), reduce_scratch(stream), correct, accumulate));
}

}  // namespace ringtape::RINGTAPE_TARGET
