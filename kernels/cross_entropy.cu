#include "kernels/common/kernel.h"

#include "kernels/common/grid_sum.h"
#include "kernels/cross_entropy.h"
#include "kernels/cross_entropy_few_classes.h"
#include "kernels/cross_entropy_many_classes.h"

// There is a kernel for few classes and one for many. Either does the forward, the backward or both. Two more
// count the correct rows alone.

namespace ringtape::RINGTAPE_TARGET {
namespace {

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

// ---- launching ----

void check_target_dtype(const char* operation, DType dtype) {
  if (dtype != DType::i32 && dtype != DType::i64) fail_unsupported_dtype(operation, dtype);
}

template <class T>
void start_count(const Stream& stream, const CrossEntropyProblem& problem, const T* logits, float* correct,
                 bool accumulate) {
  const auto start = [&](auto kernel, const LaunchShape& shape) {
    launch(kernel, shape, stream, problem, logits, reduce_scratch(stream), correct, accumulate);
  };
  if (problem.classes <= kMaxClassesOfThread) {
    const unsigned blocks = blocks_for(ceil_div(problem.rows, kRowsPerBlock));
    start(count_correct_thread_per_row<T>, {blocks, kGpuGeometry ? kRowsPerBlock : 1u});
  } else {
    start(count_correct_block_per_row<T>, block_per_row_shape<T>(stream, problem));
  }
}

template <class T, Pass pass>
void run(const Stream& stream, const CrossEntropyProblem& problem, const Buffers<T>& buffers) {
  if (problem.classes <= kMaxClassesOfThread) {
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
  // A separate launch: in the loop over long rows it would cost registers, and so occupancy.
  if (pass != Pass::backward && problem.correct != nullptr) {
    start_count<T>(stream, problem, buffers.logits, problem.correct, false);
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
  RINGTAPE_DISPATCH_FLOATING(problem.dtype, T, {
    start_count<T>(stream, problem, static_cast<const T*>(logits), correct, accumulate);
  });
}

}  // namespace ringtape::RINGTAPE_TARGET
