#include "kernels/ladders/transpose/trial.h"

#include <cmath>
#include <memory>

#include "core/memory.h"
#include "core/tensor.h"

namespace ringtape::ladders {
namespace {

constexpr RungOf<TransposeProblem> kRungs[] = {
    {{"naive", "a thread for each element"}, transpose_naive},
    {{"tile", "a tile in shared memory, whole rows on both sides"}, transpose_tile},
    {{"padded", "a tile without bank conflicts"}, transpose_padded},
    {{"vectorised", "16 bytes an instruction"}, transpose_vectorised},
    {{"swizzled", "no bank conflicts with 16 bytes either"}, transpose_swizzled},
};

struct Matrices {
  Matrices(int n, Device device)
      : size(n), values(elements()), in(filled(device)), out(empty({n, n}, DType::f32, device)) {}

  int size;
  std::vector<float> values;
  Tensor in, out;

  std::size_t elements() const { return static_cast<std::size_t>(size) * static_cast<std::size_t>(size); }

 private:
  /// All elements have different values, up to 2^24 of them.
  Tensor filled(Device device) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % (1u << 24));
    return from_vector(values, {size, size}, device);
  }
};

/// 0 where every element is in its place, else infinite: a transpose rounds nothing.
double largest_error(const Matrices& m) {
  const std::vector<double> out = m.out.to_doubles();
  const auto n = static_cast<std::size_t>(m.size);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] != static_cast<double>(m.values[i % n * n + i / n])) return INFINITY;
  }
  return 0;
}

}  // namespace

std::span<const RungOf<TransposeProblem>> transpose_rungs() {
  return kRungs;
}

Trial transpose_trial(int size, Device device) {
  const auto m = std::make_shared<Matrices>(size, device);
  Trial trial;
  for (const auto& [rung, launch] : kRungs) trial.rungs.push_back(rung);
  const std::size_t bytes = m->elements() * sizeof(float);
  trial.bytes = 2.0 * static_cast<double>(bytes);
  trial.memory = {{"in", m->in.raw(), bytes, true}, {"out", m->out.raw(), bytes, false}};
  trial.run = [m](const Stream& stream, int version) {
    kRungs[version - 1].launch(stream, TransposeProblem{static_cast<const float*>(m->in.raw()),
                                                        static_cast<float*>(m->out.raw()), m->size, m->size});
  };
  trial.error = [m] { return largest_error(*m); };
  return trial;
}

}  // namespace ringtape::ladders
