#include "kernels/ladders/softmax/trial.h"

#include <cmath>
#include <memory>

#include "core/philox.h"
#include "core/tensor.h"

namespace ringtape::ladders {
namespace {

constexpr RungOf<SoftmaxProblem> kRungs[] = {
    {{"naive", "a thread for each row"}, softmax_naive},
    {{"block per row", "lanes of a warp along a row"}, softmax_block_per_row},
    {{"online", "maximum and sum in one walk"}, softmax_online},
    {{"vectorised", "16 bytes an instruction, a cheaper exp"}, softmax_vectorised},
    {{"staged", "the row kept in shared memory"}, softmax_staged},
};

struct Data {
  Data(int n, Device device)
      : size(n),
        values(random()),
        classes_of_rows(random_targets()),
        logits(from_vector(values, {n, n}, device)),
        targets(from_vector(classes_of_rows, {n}, device)),
        loss(empty({n}, DType::f32, device)),
        gradient(empty({n, n}, DType::f32, device)) {}

  int size;
  std::vector<float> values;
  std::vector<std::int32_t> classes_of_rows;
  Tensor logits, targets, loss, gradient;

  std::size_t elements() const { return static_cast<std::size_t>(size) * static_cast<std::size_t>(size); }

 private:
  std::vector<float> random() const {
    std::vector<float> numbers(elements());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = 8 * on_cpu::uniform_float(on_cpu::philox4x32_10(1, i, 0).x) - 4;
    }
    return numbers;
  }
  std::vector<std::int32_t> random_targets() const {
    std::vector<std::int32_t> numbers;
    for (int row = 0; row < size; ++row) {
      const auto random = on_cpu::philox4x32_10(2, static_cast<std::uint64_t>(row), 0).x;
      numbers.push_back(static_cast<std::int32_t>(random % static_cast<unsigned>(size)));
    }
    return numbers;
  }
};

/// The error of loss and gradient over the rounding bound: 2^-24 for each term of the sum and 32 more for
/// exp, log and the rest, of the softmax and of the 1 subtracted at the target.
double largest_error(const Data& data) {
  const std::vector<double> loss = data.loss.to_doubles(), gradient = data.gradient.to_doubles();
  const auto n = static_cast<std::size_t>(data.size);
  const double allowed = (static_cast<double>(n) + 32) * 0x1p-24;
  double worst = 0;
  const auto compare = [&](double got, double expected, double magnitude) {
    const double error = std::abs(got - expected) / (allowed * magnitude);
    if (!(error <= worst)) worst = std::isnan(error) ? INFINITY : error;
  };
  for (std::size_t row = 0; row < n; ++row) {
    const float* x = data.values.data() + row * n;
    const auto target = static_cast<std::size_t>(data.classes_of_rows[row]);
    double sum = 0;
    for (std::size_t j = 0; j < n; ++j) sum += std::exp(static_cast<double>(x[j]));
    compare(loss[row], std::log(sum) - x[target], std::log(sum) + 4);
    for (std::size_t j = 0; j < n; ++j) {
      const double softmax = std::exp(static_cast<double>(x[j])) / sum, one = j == target ? 1 : 0;
      compare(gradient[row * n + j] * static_cast<double>(n), softmax - one, softmax + one);
    }
  }
  return worst;
}

}  // namespace

std::span<const RungOf<SoftmaxProblem>> softmax_rungs() {
  return kRungs;
}

Trial softmax_trial(int size, Device device) {
  const auto data = std::make_shared<Data>(size, device);
  Trial trial;
  for (const auto& [rung, launch] : kRungs) trial.rungs.push_back(rung);
  const std::size_t bytes = data->elements() * sizeof(float);
  const std::size_t row_bytes = static_cast<std::size_t>(size) * sizeof(float);
  trial.bytes = 2 * static_cast<double>(bytes);
  trial.memory = {{"logits", data->logits.raw(), bytes, true},
                  {"targets", data->targets.raw(), row_bytes, true},
                  {"loss", data->loss.raw(), row_bytes, false},
                  {"gradient", data->gradient.raw(), bytes, false}};
  trial.run = [data](const Stream& stream, int version) {
    kRungs[version - 1].launch(
        stream,
        SoftmaxProblem{static_cast<const float*>(data->logits.raw()),
                       static_cast<const int*>(data->targets.raw()), static_cast<float*>(data->loss.raw()),
                       static_cast<float*>(data->gradient.raw()), data->size, data->size});
  };
  trial.error = [data] { return largest_error(*data); };
  return trial;
}

}  // namespace ringtape::ladders
