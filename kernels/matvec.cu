#include "kernels/common/kernel.h"

#include "kernels/common/rows.h"
#include "kernels/matvec.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

/// A block goes through rows of B, one after another.
template <class T, class Out>
__global__ void __launch_bounds__(kMaxThreadsOfTwoRows)
    matvec(const T* a, const T* b, std::int64_t ldb, const Out* bias, Out* c, std::int64_t rows,
           std::int64_t columns, accumulate_t<T> alpha, accumulate_t<T> beta) {
  const BlockShare share = share_of_block(rows);
  for (std::int64_t row = share.first; row < share.end; row += share.step) {
    const RowsInPasses<T, 2> factors(columns, a, b + row * ldb);
    accumulate_t<T> sum =
        alpha * factors.sum([](const auto& values, int k) { return values[0][k] * values[1][k]; });
    if (threadIdx.x != 0) continue;
    if (beta != 0) sum += beta * to_accumulate(c[row]);
    if (bias != nullptr) sum += to_accumulate(bias[row]);
    c[row] = from_accumulate<Out>(sum);
  }
}

template <class T, class Out>
void launch_matvec(const Stream& stream, const GemmArgs& args) {
  using A = accumulate_t<T>;
  launch(matvec<T, Out>, rows_shape<T>(args.n, args.k, kMaxThreadsOfTwoRows), stream,
         static_cast<const T*>(args.a), static_cast<const T*>(args.b), args.ldb,
         static_cast<const Out*>(args.bias), static_cast<Out*>(args.c), args.n, args.k,
         static_cast<A>(args.alpha), static_cast<A>(args.beta));
}

}  // namespace

void matvec(const Stream& stream, const GemmArgs& args) {
  RINGTAPE_DISPATCH_FLOATING(args.dtype, T, {
    if constexpr (sizeof(T) == 2) {
      if (args.out_dtype == DType::f32) return launch_matvec<T, float>(stream, args);
    }
    launch_matvec<T, T>(stream, args);
  });
}

}  // namespace ringtape::RINGTAPE_TARGET
