#include "kernels/common/kernel.h"
//
#include "kernels/peak.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

/// The contents of a register; on a CPU, of a vector register.
#if defined(__CUDACC__)
using Register = float;
__device__ inline float first_of(float value) {
  return value;
}
#else
#if defined(__AVX512F__)
typedef float Register __attribute__((vector_size(64)));
#elif defined(__AVX__)
typedef float Register __attribute__((vector_size(32)));
#else
typedef float Register __attribute__((vector_size(16)));
#endif
inline float first_of(const Register& value) {
  return value[0];
}
#endif

/// Ten independent chains of multiply-adds: enough to fill two units with a latency of four or five cycles,
/// and few enough for sixteen registers. Each starts from a different value that is unknown to the compiler,
/// which would merge equal chains into one.
__global__ void multiply_add(int rounds, float start, float factor, float* out) {
  Register a = Register{} + start;
  Register b = a + 1.0f, c = a + 2.0f, d = a + 3.0f, e = a + 4.0f, f = a + 5.0f, g = a + 6.0f, h = a + 7.0f,
           i = a + 8.0f, j = a + 9.0f;
  const Register scale = Register{} + factor;
  const Register one = Register{} + 1.0f;
  for (int round = 0; round < rounds; ++round) {
    a = a * scale + one;
    b = b * scale + one;
    c = c * scale + one;
    d = d * scale + one;
    e = e * scale + one;
    f = f * scale + one;
    g = g * scale + one;
    h = h * scale + one;
    i = i * scale + one;
    j = j * scale + one;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = first_of(a + b + c + d + e + f + g + h + i + j);
}
constexpr int kChains = 10;  // of multiply_add

}  // namespace

void peak_multiply_add(const Stream& stream, int blocks, int threads, int rounds, float* out, double* flops) {
  launch(multiply_add, {static_cast<unsigned>(blocks), static_cast<unsigned>(threads)}, stream, rounds, 1.0f,
         0.999f, out);
  constexpr int kLanes = sizeof(Register) / sizeof(float);
  *flops = 2.0 * kChains * kLanes * rounds * blocks * threads;
}

}  // namespace ringtape::RINGTAPE_TARGET
