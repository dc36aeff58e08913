#include "kernels/ladders/reduce/trial.h"

#include <cmath>
#include <memory>

#include "core/philox.h"
#include "core/tensor.h"

namespace ringtape::ladders {
namespace {

constexpr RungOf<ReduceProblem> kRungs[] = {
    {{"interleaved", "a tree in shared memory"}, reduce_interleaved},
    {{"packed", "the threads that add are neighbours"}, reduce_packed},
    {{"sequential", "and so are the floats: no bank conflicts"}, reduce_sequential},
    {{"first add", "4 elements for each thread"}, reduce_first_add},
    {{"shuffle", "registers within a warp, one barrier"}, reduce_shuffle},
    {{"single pass", "16 bytes an instruction, few blocks, one launch"}, reduce_single_pass},
};

struct Data {
  Data(std::int64_t count, bool with_squares, Device on)
      : n(count),
        squares(with_squares),
        device(on),
        values(random()),
        x(from_vector(values, {n}, device)),
        scratch(empty({n / 128}, DType::f32, device)),
        counter(from_vector(std::vector<std::int32_t>{0}, {1}, device)),
        result(empty({1}, DType::f32, device)) {}

  std::int64_t n;
  bool squares;
  Device device;
  std::vector<float> values;
  Tensor x, scratch, counter, result;

 private:
  std::vector<float> random() const {
    std::vector<float> numbers(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = 0.25f + on_cpu::uniform_float(on_cpu::philox4x32_10(1, i, 0).x);
    }
    return numbers;
  }
};

/// The error as a multiple of the rounding bound: 2^-24 for each addition on the longest path to the result.
/// These are at most n / 2^17 in a thread of the last rung, and less than 64 in trees.
double largest_error(const Data& data) {
  double sum = 0;
  for (const float value : data.values) sum += data.squares ? static_cast<double>(value) * value : value;
  const double additions = static_cast<double>(data.n) * 0x1p-17 + 64;
  return std::abs(data.result.to_doubles()[0] - sum) / (additions * 0x1p-24 * sum);
}

}  // namespace

std::span<const RungOf<ReduceProblem>> reduce_rungs() {
  return kRungs;
}

Trial reduce_trial(int size, bool squares, Device device) {
  const auto data = std::make_shared<Data>(std::int64_t{size} * size, squares, device);
  Trial trial;
  for (const auto& [rung, launch] : kRungs) trial.rungs.push_back(rung);
  const auto n = static_cast<std::size_t>(data->n);
  trial.bytes = static_cast<double>(n) * sizeof(float);
  trial.memory = {{"x", data->x.raw(), n * sizeof(float), true},
                  {"scratch", data->scratch.raw(), n / 128 * sizeof(float), false},
                  {"counter", data->counter.raw(), sizeof(unsigned), true},
                  {"result", data->result.raw(), sizeof(float), false}};
  trial.run = [data](const Stream& stream, int version) {
    kRungs[version - 1].launch(stream, ReduceProblem{static_cast<const float*>(data->x.raw()), data->n,
                                                     data->squares, static_cast<float*>(data->scratch.raw()),
                                                     static_cast<unsigned*>(data->counter.raw()),
                                                     static_cast<float*>(data->result.raw())});
  };
  trial.error = [data] { return largest_error(*data); };
  return trial;
}

}  // namespace ringtape::ladders
