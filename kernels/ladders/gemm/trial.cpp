#include "kernels/ladders/gemm/trial.h"

#include <cmath>
#include <memory>

#include "core/half.h"
#include "core/philox.h"
#include "core/tensor.h"
#include "kernels/gemm.h"

namespace ringtape::ladders {
namespace {

constexpr RungOf<GemmProblem> kRungs[] = {
    {{"naive", "a thread for each element"}, gemm_naive},
    {{"coalesced", "lanes of a warp along a row"}, gemm_coalesced},
    {{"shared", "tiles in shared memory"}, gemm_shared},
    {{"tile 1D", "8 elements for each thread"}, gemm_tile_1d},
    {{"tile 2D", "8 x 8 elements for each thread"}, gemm_tile_2d},
    {{"vectorised", "16 bytes an instruction"}, gemm_vectorised},
    {{"double-buffered", "copies under way while it computes (cp.async)"}, gemm_double_buffered},
    {{"warp tile", "a square for each warp, 8 x 16 for each thread"}, gemm_warp_tile},
    {{"tensor core", "bf16, ldmatrix and mma", DType::bf16}, gemm_tensor_core},
};

/// The matrices, in the two dtypes of the rungs. The f32 values are exact in bf16, so that all rungs compute
/// the same product.
struct Matrices {
  Matrices(int n, Device device)
      : size(n),
        a(values(1)),
        b(values(2)),
        a32(from_vector(a, {n, n}, device)),
        b32(from_vector(b, {n, n}, device)),
        a16(from_vector(rounded(a), {n, n}, device)),
        b16(from_vector(rounded(b), {n, n}, device)),
        c(empty({n, n}, DType::f32, device)) {}

  int size;
  std::vector<float> a, b;
  Tensor a32, b32, a16, b16, c;

  std::size_t elements() const { return static_cast<std::size_t>(size) * static_cast<std::size_t>(size); }

 private:
  std::vector<float> values(std::uint64_t seed) const {
    std::vector<float> result(elements());
    for (std::size_t i = 0; i < result.size(); ++i) {
      const float uniform = on_cpu::uniform_float(on_cpu::philox4x32_10(seed, i, 0).x);
      result[i] = on_cpu::to_float(on_cpu::to_bfloat16(0.25f + uniform));  // sums that do not cancel
    }
    return result;
  }
  static std::vector<bfloat16> rounded(const std::vector<float>& values) {
    std::vector<bfloat16> result;
    for (const float value : values) result.push_back(on_cpu::to_bfloat16(value));
    return result;
  }
};

/// The largest error of some thousand elements of C, as a multiple of the rounding bound: (k + 4) 2^-24 of
/// the sum of the magnitudes, for any order of the sum.
double largest_error(const Matrices& m) {
  const std::vector<double> c = m.c.to_doubles();
  const auto n = static_cast<std::size_t>(m.size);
  const std::size_t step = n <= 256 ? 1 : c.size() / 4096 + 1;  // no factor of n: visits every column
  double worst = 0;
  for (std::size_t i = 0; i < c.size(); i += step) {
    double sum = 0;
    for (std::size_t k = 0; k < n; ++k) {
      sum += static_cast<double>(m.a[i / n * n + k]) * static_cast<double>(m.b[k * n + i % n]);
    }
    const double error = std::abs(c[i] - sum) / ((static_cast<double>(n) + 4) * 0x1p-24 * sum);
    if (!(error <= worst)) worst = std::isnan(error) ? INFINITY : error;
  }
  return worst;
}

}  // namespace

std::span<const RungOf<GemmProblem>> gemm_rungs() {
  return kRungs;
}

Trial gemm_trial(int size, Device device) {
  const auto m = std::make_shared<Matrices>(size, device);
  Trial trial;
  for (const auto& [rung, launch] : kRungs) trial.rungs.push_back(rung);
  const double n = size;
  trial.flops = 2 * n * n * n;
  const std::size_t bytes = m->elements() * sizeof(float);
  trial.memory = {{"a", m->a32.raw(), bytes, true},
                  {"b", m->b32.raw(), bytes, true},
                  {"a in bf16", m->a16.raw(), bytes / 2, true},
                  {"b in bf16", m->b16.raw(), bytes / 2, true},
                  {"c", m->c.raw(), bytes, false}};
  trial.run = [m](const Stream& stream, int version) {
    const bool low = kRungs[version - 1].rung.inputs == DType::bf16;
    const GemmProblem problem{low ? m->a16.raw() : m->a32.raw(),
                              low ? m->b16.raw() : m->b32.raw(),
                              static_cast<float*>(m->c.raw()),
                              m->size,
                              m->size,
                              m->size};
    kRungs[version - 1].launch(stream, problem);
  };
  trial.error = [m] { return largest_error(*m); };
  if (vendor_gemm_name(device) != "none") {
    trial.vendor_name = vendor_gemm_name(device);
    trial.vendor = [m](const Stream& stream, int version) {
      const bool low = kRungs[version - 1].rung.inputs == DType::bf16;
      GemmArgs args;
      args.m = args.n = args.k = m->size;
      args.a = low ? m->a16.raw() : m->a32.raw();
      args.b = low ? m->b16.raw() : m->b32.raw();
      args.c = m->c.raw();
      args.dtype = low ? DType::bf16 : DType::f32;
      gemm(stream, args);
    };
  }
  return trial;
}

}  // namespace ringtape::ladders
