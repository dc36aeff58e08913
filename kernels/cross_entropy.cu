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

constexpr std::int64_t kIgnored = -1;
constexpr std::int64_t kInvalid = -2;

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
  if constexpr (pass == Pass::backward) scale = *buffers.grad_loss;
  return scale / divisor_of<accumulate_t<T>>(problem);
}

/// Adds up the blocks' losses (in thread 0 of each) and writes the total.
template <class T>
__device__ void finish_loss(const CrossEntropyProblem& problem, const Buffers<T>& buffers,
                            double block_loss) {
  double total;
  if (grid_sum(block_loss, buffers.scratch, total) && threadIdx.x == 0) {
    *buffers.loss = static_cast<accumulate_t<T>>(total / divisor_of<accumulate_t<T>>(problem));
  }
}

/// Writes the forward's results of a row.
template <class T>
__device__ void store_row(const Buffers<T>& buffers, std::int64_t row, accumulate_t<T> max,
                          accumulate_t<T> sum, accumulate_t<T> loss) {
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

/// Calls body(j) for every class. On the GPU the rows of a warp are contiguous in shared memory. If g is the
/// largest power of 2 that divides the number of classes, every 32 / g-th row begins at the same bank. So
/// each group of 32 / g rows begins one class after the group before: a warp's reads of f32 fall on 32
/// different banks.
template <class Body>
__device__ void for_each_class(int classes, [[maybe_unused]] int row, const Body& body) {
  if constexpr (kGpuGeometry) {
    const int power_of_two = classes & -classes;
    int j = row * power_of_two / 32 % classes;
    for (int k = 0; k < classes; ++k) {
      body(j);
      j = j + 1 < classes ? j + 1 : 0;
    }
  } else {
#pragma GCC ivdep
    for (int j = 0; j < classes; ++j) body(j);
  }
}

/// Softmax of row r, in shared memory.
template <class T>
__device__ Softmax<accumulate_t<T>> softmax_of(const T* logits, int classes, int r, bool smoothing) {
  using A = accumulate_t<T>;
  A max = kLowest<A>, sum = 0, shifted_sum = 0;
  for_each_class(classes, r, [&](int j) { max = larger_logit(max, to_accumulate(logits[j])); });
  for_each_class(classes, r, [&](int j) { sum += softmax_exp(to_accumulate(logits[j]) - max); });
  if (smoothing) for_each_class(classes, r, [&](int j) { shifted_sum += to_accumulate(logits[j]) - max; });
  return {max, sum, shifted_sum};
}

template <class T, Pass pass>
__global__ void cross_entropy_thread_per_row(CrossEntropyProblem problem, Buffers<T> buffers) {
  using A = accumulate_t<T>;
  T* staged = dynamic_shared<T>();
  const int classes = static_cast<int>(problem.classes);
  const A smoothing = static_cast<A>(problem.label_smoothing);
  [[maybe_unused]] A scale = 0;
  if constexpr (pass != Pass::forward) scale = gradient_scale<pass>(problem, buffers);
  double loss_of_rows = 0;

  const BlockShare share = share_of_block(ceil_div(problem.rows, kRowsPerBlock));
  for (std::int64_t group = share.first; group < share.end; group += share.step) {
    const std::int64_t first = group * kRowsPerBlock;
    const int rows = static_cast<int>(minimum<std::int64_t>(kRowsPerBlock, problem.rows - first));
    const T* logits = buffers.logits + first * classes;
    for_each_vec_in_block<T>(rows * classes, [=](std::int64_t i, auto lanes) {
      store_vec(staged + i, load_vec<lanes>(logits + i));
    });
    __syncthreads();

    for (int r = static_cast<int>(threadIdx.x); r < rows; r += static_cast<int>(blockDim.x)) {
      T* row = staged + r * classes;
      const std::int64_t target = target_of(problem, first + r);
      if (target < 0) {
        if constexpr (pass != Pass::backward) {
          if (target == kInvalid) atomicExch(problem.invalid_target, static_cast<int>(first + r + 1));
          store_row(buffers, first + r, A{0}, A{1}, A{0});
        }
        if constexpr (pass != Pass::forward) {
          for (int j = 0; j < classes; ++j) row[j] = from_accumulate<T>(0);
        }
        continue;
      }
      Softmax<A> softmax;
      if constexpr (pass == Pass::backward) {
        softmax = stored_row(buffers, first + r);
      } else {
        softmax = softmax_of(row, classes, r, smoothing > 0);
        const A loss = softmax.loss(to_accumulate(row[target]), static_cast<A>(classes), smoothing);
        store_row(buffers, first + r, softmax.max, softmax.sum, loss);
        loss_of_rows += loss;
      }
      if constexpr (pass != Pass::forward) {
        const RowGradient<A> gradient(softmax.max, softmax.sum, scale, static_cast<A>(classes), smoothing);
        const A at_target = gradient(to_accumulate(row[target])) - gradient.at_target;
        for_each_class(classes, r,
                       [=](int j) { row[j] = from_accumulate<T>(gradient(to_accumulate(row[j]))); });
        row[target] = from_accumulate<T>(at_target);
      }
    }
    __syncthreads();

    if constexpr (pass != Pass::forward) {
      T* dlogits = buffers.dlogits + first * classes;
      const bool accumulate = pass == Pass::backward && buffers.accumulate;
      for_each_vec_in_block<T>(rows * classes, [=](std::int64_t i, auto lanes) {
        const auto read = load_vec<lanes>(staged + i);
        Vec<A, lanes> gradients;
        for (int k = 0; k < lanes; ++k) gradients[k] = to_accumulate(read[k]);
        store_result(dlogits + i, gradients, accumulate);
      });
      __syncthreads();
    }
  }
  if constexpr (pass != Pass::backward) finish_loss(problem, buffers, block_sum(loss_of_rows));
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
        store_row(buffers, row, A{0}, A{1}, A{0});
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
        store_row(buffers, row, softmax.max, softmax.sum, loss);
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
                              std::int64_t* correct, bool accumulate) {
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
                          const auto logit = to_accumulate(read[k]);
                          const bool later = j + v * step + k >= target;
                          // Negated, so that a NaN beats the target.
                          beaten |= !(logit < target_logit || (logit == target_logit && later));
                        }
                      }
                    });
    if (block_max(beaten) == 0) correct_rows += 1;
  }
  double total;
  if (grid_sum(correct_rows, scratch, total) && threadIdx.x == 0) {
    *correct = static_cast<std::int64_t>(total) + (accumulate ? *correct : 0);
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
    launch(cross_entropy_thread_per_row<T, pass>, thread_per_row_shape<T>(problem), stream, problem, buffers);
    return;
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
                   std::int64_t* correct, bool accumulate) {
  check_target_dtype("count_correct", problem.target_dtype);
  RINGTAPE_DISPATCH_FLOATING(
      problem.dtype, T,
      launch(count_correct<T>, block_per_row_shape<T>(stream, problem), stream, problem,
             static_cast<const T*>(logits), reduce_scratch(stream), correct, accumulate));
}

}  // namespace ringtape::RINGTAPE_TARGET
