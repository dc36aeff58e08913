#include "kernels/common/kernel.h"

#include <math.h>

#include "kernels/common/rows.h"
#include "kernels/rotary.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

template <class A>
__global__ void rotary_table(A* cosines, A* sines, std::int64_t n, std::int64_t first_position,
                             std::int64_t half, double base) {
  for_each_vec<A>(n, [=](std::int64_t i, auto lanes) {
    for (int k = 0; k < lanes; ++k) {
      const std::int64_t position = first_position + (i + k) / half;
      const double exponent = static_cast<double>((i + k) % half) / static_cast<double>(half);
      const float frequency = 1.0f / static_cast<float>(::pow(base, exponent));
      const double angle = static_cast<float>(position) * frequency;
      cosines[i + k] = static_cast<A>(::cos(angle));
      sines[i + k] = static_cast<A>(::sin(angle));
    }
  });
}

/// Calls body(at, i, lanes) for the elements `at` to at + lanes - 1 of a row that are in the first half of a
/// head, at the positions from i on in that half.
template <class T, class Body>
__device__ void for_each_in_first_half(std::int64_t heads, std::int64_t half, const Body& body) {
  if constexpr (kGpuGeometry) {
    // One loop over all heads, as a head alone has fewer vectors than the block has threads.
    const auto length = static_cast<unsigned>(half), n = static_cast<unsigned>(heads) * length;
    const auto run = [&](auto lanes) {
      const unsigned step = static_cast<unsigned>(block_threads()) * lanes;
#pragma unroll 1
      for (unsigned number = static_cast<unsigned>(thread_rank()) * lanes; number < n; number += step) {
        const unsigned before = number / length * length;  // in the first halves of earlier heads
        body(number + before, number - before, lanes);
      }
    };
    if (length % kVecLanes<T> == 0) {
      run(Lanes<kVecLanes<T>>{});
    } else {
      run(Lanes<1>{});
    }
  } else {
    for (std::int64_t head = 0; head < heads; ++head) {
      for_each_vec_in_block<T>(half,
                               [=](std::int64_t i, auto lanes) { body(2 * head * half + i, i, lanes); });
    }
  }
}

template <class T>
__global__ void rotary(RotaryProblem p, const T* all_x, T* all_y, accumulate_t<T> sign) {
  using A = accumulate_t<T>;
  const std::int64_t half = p.head_size / 2, turning = p.heads * p.head_size;
  const BlockShare share = share_of_block(p.rows);
  for (std::int64_t row = share.first; row < share.end; row += share.step) {
    const T* const x = all_x + row * p.columns;
    T* const y = all_y + row * p.columns;
    const std::int64_t position = static_cast<unsigned>(row) % static_cast<unsigned>(p.sequence);
    const A* const cosines = static_cast<const A*>(p.cosines) + position * half;
    const A* const sines = static_cast<const A*>(p.sines) + position * half;
    for_each_in_first_half<T>(p.heads, half, [=](std::int64_t at, std::int64_t i, auto lanes) {
      const auto low = load_vec<lanes>(x + at), high = load_vec<lanes>(x + at + half);
      const auto cosine = load_vec<lanes>(cosines + i), sine = load_vec<lanes>(sines + i);
      Vec<T, lanes> new_low, new_high;
      for (int k = 0; k < lanes; ++k) {
        const A a = to_accumulate(low[k]), b = to_accumulate(high[k]), s = sign * sine[k];
        new_low[k] = from_accumulate<T>(a * cosine[k] - b * s);
        new_high[k] = from_accumulate<T>(b * cosine[k] + a * s);
      }
      store_vec(y + at, new_low);
      store_vec(y + at + half, new_high);
    });
    if (x == y) continue;
    for_each_vec_in_block<T>(p.columns - turning, [=](std::int64_t i, auto lanes) {
      store_vec(y + turning + i, load_vec<lanes>(x + turning + i));
    });
  }
}

}  // namespace

void rotary_table(const Stream& stream, DType dtype, void* cosines, void* sines, std::int64_t sequence,
                  std::int64_t first_position, std::int64_t head_size, double base) {
  const std::int64_t half = head_size / 2, n = sequence * half;
  RINGTAPE_DISPATCH_FLOATING(dtype, T, {
    using A = accumulate_t<T>;
    launch(rotary_table<A>, elementwise_shape<A>(n), stream, static_cast<A*>(cosines), static_cast<A*>(sines),
           n, first_position, half, base);
  });
}

void rotary(const Stream& stream, const RotaryProblem& problem, const void* x, void* y, bool inverse) {
  RINGTAPE_DISPATCH_FLOATING(problem.dtype, T, {
    using A = accumulate_t<T>;
    launch(rotary<T>, rows_shape<T>(problem.rows, problem.columns), stream, problem, static_cast<const T*>(x),
           static_cast<T*>(y), inverse ? A{-1} : A{1});
  });
}

}  // namespace ringtape::RINGTAPE_TARGET
