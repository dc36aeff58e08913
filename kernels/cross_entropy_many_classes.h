#pragma once

#include "kernels/common/kernel.h"

#include "kernels/common/store_result.h"
#include "kernels/cross_entropy_row.h"

/// Cross-entropy over many classes: a block computes one row.
namespace ringtape::RINGTAPE_TARGET {
namespace {

/// The offset of a row from the last 16-byte boundary, in elements of T.
template <class T>
__device__ int misalignment(const T* row) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(row) % 16 / sizeof(T));
}

/// Calls body(j, step, vectors, lanes), with row + j aligned for load_aligned<lanes>, until every class j of
/// a row has been visited by one thread of the block. The call covers `vectors` pieces of `lanes`
/// neighbouring classes, the next piece `step` classes on: on the GPU 16-byte vectors, two at a time to keep
/// enough loads in flight, and on the CPU pieces long enough for loops that the compiler vectorises. `row` is
/// where the row begins, for its alignment; the GPU visits the classes one by one unless `in_vectors`.
template <class T, class Body>
__device__ void for_each_in_row(const T* row, int classes, const Body& body, bool in_vectors = true) {
  constexpr int kWidth = kGpuGeometry ? kVecLanes<T> : kSoftmaxSlots;
  constexpr int kVectors = kGpuGeometry ? 2 : 8;
  const int rank = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  int head = 0;
  if constexpr (kGpuGeometry) {
    const int beyond = misalignment(row);
    if (!in_vectors) {
      head = classes;
    } else if (beyond > 0) {
      head = minimum(kWidth - beyond, classes);
    }
    for (int j = rank; j < head; j += threads) body(j, threads, Lanes<1>{}, Lanes<1>{});
  }
  const int step = threads * kWidth;
  int j = head + rank * kWidth;
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
  const int classes = static_cast<int>(problem.classes);
  const A smoothing = static_cast<A>(problem.label_smoothing);
  [[maybe_unused]] A scale = 0;
  if constexpr (pass != Pass::forward) scale = gradient_scale<pass>(problem, buffers);
  double loss_of_rows = 0;

  const BlockShare share = share_of_block(problem.rows);
  for (std::int64_t row = share.first; row < share.end; row += share.step) {
    const T* logits = buffers.logits + row * problem.classes;
    // The logits for the second pass: in shared memory, with the row's own offset from a 16-byte boundary, or
    // again from global memory. Each thread reads only elements that it wrote.
    [[maybe_unused]] T* staged = nullptr;
    static_assert(
        ReduceScratch::kMaxBlocks * sizeof(T) % 16 == 0,
        "the rows of one block must be equally far from a boundary: no barrier parts one row from the next");
    if constexpr (kStaged) staged = dynamic_shared<T>() + misalignment(logits);

    const int target = static_cast<int>(target_of(problem, row));
    const A target_logit = target < 0 ? A{0} : to_accumulate(logits[target]);
    [[maybe_unused]] Softmax<A> softmax{};
    if constexpr (pass == Pass::backward) {
      softmax = stored_row(buffers, row);
    } else if (target < 0) {
      if (threadIdx.x == 0) {
        if (target == kInvalid) atomicExch(problem.invalid_target, static_cast<int>(row + 1));
        store_row<pass>(buffers, row, A{0}, A{1}, A{0});
      }
    } else {
      RunningSoftmax<A> running;
      for_each_in_row(logits, classes, [&](int j, int step, auto vectors, auto lanes) {
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
      T* dlogits = buffers.dlogits + row * problem.classes;
      const bool accumulate = pass == Pass::backward && buffers.accumulate;
      const bool in_vectors = misalignment(dlogits) == misalignment(logits);
      if (target < 0) {
        const auto write_zeros = [=](int j, int step, auto vectors, auto lanes) {
          for (int v = 0; v < vectors; ++v) store_aligned(dlogits + j + v * step, Vec<T, lanes>{});
        };
        if (!accumulate) for_each_in_row(logits, classes, write_zeros, in_vectors);
        continue;
      }
      const RowGradient<A, ExpBelow<A>> gradient(softmax.max, softmax.sum, scale, static_cast<A>(classes),
                                                 smoothing);
      const auto write_gradients = [=](auto adds) {
        // Thread 0 writes the target's gradient, with the value from before another thread wrote its vector.
        const A before = adds ? to_accumulate(dlogits[target]) : A{0};
        if constexpr (pass == Pass::backward) {
          __syncthreads();
        }
        const auto write = [=](int j, int step, auto vectors, auto lanes) {
          Vec<T, lanes> read[vectors];
#pragma unroll
          for (int v = 0; v < vectors; ++v) read[v] = load_aligned<lanes>(source + j + v * step);
#pragma unroll
          for (int v = 0; v < vectors; ++v) {
            const auto logits_of_vector = to_accumulate(read[v]);
            Vec<A, lanes> values;
            for (int k = 0; k < lanes; ++k) values[k] = gradient(logits_of_vector[k]);
            store_result<true>(dlogits + j + v * step, values, adds != 0);
          }
        };
        for_each_in_row(logits, classes, write, in_vectors);
        __syncthreads();
        if (threadIdx.x == 0) {
          dlogits[target] = from_accumulate<T>(before + (gradient(target_logit) - gradient.at_target));
        }
      };
      // Two loops: a single loop would also spend instructions on reading old values where nothing is added.
      accumulate ? write_gradients(Lanes<1>{}) : write_gradients(Lanes<0>{});
    }
  }
  if constexpr (pass != Pass::backward) finish_loss(problem, buffers, loss_of_rows);
}

/// Counts the rows whose target is the largest logit.
template <class T>
__global__ void count_correct_block_per_row(CrossEntropyProblem problem, const T* logits,
                                            ReduceScratch* scratch, float* correct, bool accumulate) {
  const int classes = static_cast<int>(problem.classes);
  double correct_rows = 0;
  const BlockShare share = share_of_block(problem.rows);
  for (std::int64_t row = share.first; row < share.end; row += share.step) {
    const int target = static_cast<int>(target_of(problem, row));
    if (target < 0) continue;
    const T* values = logits + row * problem.classes;
    const auto target_logit = to_accumulate(values[target]);
    int beaten = 0;
    for_each_in_row(values, classes, [&](int j, int step, auto vectors, auto lanes) {
      for (int v = 0; v < vectors; ++v) {
        const auto read = load_aligned<lanes>(values + j + v * step);
        for (int k = 0; k < lanes; ++k) {
          beaten |= beats(to_accumulate(read[k]), j + v * step + k, target_logit, target);
        }
      }
    });
    if (block_max(beaten) == 0) correct_rows += 1;
  }
  finish_count(correct_rows, scratch, correct, accumulate);
}

/// Shared memory of a block that stages a row of `classes` logits.
template <class T>
std::size_t staging_bytes(std::int64_t classes) {
  return static_cast<std::size_t>(classes) * sizeof(T) + 16;
}

/// Shared memory in bytes: the maximum for the row of a block of the fused kernel, and the total of a
/// multiprocessor.
struct SharedMemory {
  std::size_t of_row, of_multiprocessor;
};

/// Shared memory per block besides the row: for the kernel's reductions, and reserved by CUDA.
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
  return {64 * 1024, 0};  // stays in the L2 cache
#endif
}

template <class T>
LaunchShape block_per_row_shape(const Stream& stream, const CrossEntropyProblem& problem,
                                std::size_t shared_bytes = 0) {
  if constexpr (!kGpuGeometry) return {blocks_for(problem.rows), 1u, shared_bytes};
  // Two vectors for each thread. A block that has a multiprocessor to itself may have 1024 threads.
  const bool alone =
      2 * (shared_bytes + kForReductions + kOfSystem) > shared_memory(stream).of_multiprocessor;
  const unsigned most = shared_bytes > 0 && alone ? 1024 : 512;
  const std::int64_t wanted = ceil_div(problem.classes, 2 * kVecLanes<T> * 32) * 32;
  return {blocks_for(problem.rows), static_cast<unsigned>(minimum<std::int64_t>(wanted, most)), shared_bytes};
}

}  // namespace
}  // namespace ringtape::RINGTAPE_TARGET
