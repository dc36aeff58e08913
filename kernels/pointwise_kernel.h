#pragma once

#include <math.h>  // overloads for float and double in the global namespace

#include <type_traits>

#include "kernels/common/store_result.h"
#include "kernels/pointwise.h"

/// The kernel of all pointwise operations. Its arithmetic for an element is a struct:
///
///   struct Multiply {
///     __device__ static auto of(auto a, auto b) { return a * b; }
///   };
///
/// The values are float, and double where the elements are.
namespace ringtape::RINGTAPE_TARGET {

/// PointwiseArguments for elements of type T.
template <class T>
struct PointwiseOperands {
  const T *a, *b, *y, *dy;
  accumulate_t<T> alpha;
};

/// Elements i to i + W - 1 of an operand.
template <Operand kOperand, int W, class T>
__device__ inline Vec<accumulate_t<T>, W> load_operand(const PointwiseOperands<T>& from, std::int64_t i) {
  Vec<accumulate_t<T>, W> values;
  if constexpr (kOperand == Operand::alpha) {
    for (int k = 0; k < W; ++k) values[k] = from.alpha;
  } else {
    const T* memory = kOperand == Operand::a   ? from.a
                      : kOperand == Operand::b ? from.b
                      : kOperand == Operand::y ? from.y
                                               : from.dy;
    values = to_accumulate(load_vec<W>(memory + i));
  }
  return values;
}

/// Function::of() of each lane.
template <class Function, class A, int W, class... More>
__device__ inline Vec<A, W> lane_by_lane(const Vec<A, W>& first, const More&... more) {
  Vec<A, W> results;
  for (int k = 0; k < W; ++k) results[k] = Function::of(first[k], more[k]...);
  return results;
}

/// result[i] (+)= Function::of(the operands at i)
template <class Function, class T, Operand... kReads>
__global__ void pointwise(PointwiseOperands<T> from, T* result, std::int64_t n, bool accumulate) {
  // Two loops: the CPU's compiler does not move the decision out of a long loop, and leaves that scalar.
  const auto run = [=](auto adds) {
    for_each_vec<T>(n, [=](std::int64_t i, auto lanes) {
      store_result(result + i, lane_by_lane<Function>(load_operand<kReads, lanes>(from, i)...),
                   decltype(adds)::value);
    });
  };
  accumulate ? run(std::true_type{}) : run(std::false_type{});
}

/// Launches the kernel for n elements of the dtype.
template <class Function, Operand... kReads>
void launch_pointwise(const Stream& stream, DType dtype, const PointwiseArguments& arguments,
                      std::int64_t n) {
  RINGTAPE_DISPATCH_FLOATING(dtype, T, {
    const auto elements = [](const void* memory) { return static_cast<const T*>(memory); };
    const PointwiseOperands<T> from{elements(arguments.a), elements(arguments.b), elements(arguments.y),
                                    elements(arguments.dy), static_cast<accumulate_t<T>>(arguments.alpha)};
    launch(pointwise<Function, T, kReads...>, elementwise_shape<T>(n), stream, from,
           static_cast<T*>(arguments.result), n, arguments.accumulate);
  });
}

/// Part of a row of kernels/pointwise.cu: the function, its operands in the order of its parameters, and its
/// FLOPs for an element.
template <class Function, Operand... kReads>
constexpr PointwiseKernel kernel(int flops) {
  return {launch_pointwise<Function, kReads...>, flops, {kReads...}, sizeof...(kReads)};
}

}  // namespace ringtape::RINGTAPE_TARGET
