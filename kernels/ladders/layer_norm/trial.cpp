#include "kernels/ladders/layer_norm/trial.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/philox.h"
#include "core/tensor.h"

namespace ringtape::ladders {
namespace {

constexpr RungOf<LayerNormProblem> kRungs[] = {
    {{"naive", "a thread for each row"}, layer_norm_naive},
    {{"block per row", "lanes of a warp along a row"}, layer_norm_block_per_row},
    {{"one pass", "mean and variance in one pass"}, layer_norm_one_pass},
    {{"vectorised", "16 bytes an instruction"}, layer_norm_vectorised},
    {{"registers", "the row kept in registers"}, layer_norm_registers},
};

/// Rows whose means lie between -8 and 8 and whose deviation is near 1.
struct Data {
  Data(int n, Device device)
      : size(n),
        x(uniform(n * n, 1, -1.75f, 1.75f)),
        w(uniform(n, 2, 0.5f, 1.5f)),
        b(uniform(n, 3, -1, 1)),
        in(from_vector(shifted(), {n, n}, device)),
        weight(from_vector(w, {n}, device)),
        bias(from_vector(b, {n}, device)),
        out(empty({n, n}, DType::f32, device)),
        mean(empty({n}, DType::f32, device)),
        rstd(empty({n}, DType::f32, device)) {}

  int size;
  std::vector<float> x, w, b;
  Tensor in, weight, bias, out, mean, rstd;

 private:
  static std::vector<float> uniform(int count, std::uint64_t seed, float low, float high) {
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = low + (high - low) * on_cpu::uniform_float(on_cpu::philox4x32_10(seed, i, 0).x);
    }
    return numbers;
  }
  const std::vector<float>& shifted() {
    const auto n = static_cast<std::size_t>(size);
    const std::vector<float> means = uniform(size, 4, -8, 8);
    for (std::size_t i = 0; i < n * n; ++i) x[i] += means[i / n];
    return x;
  }
};

/// The error of all results over the rounding bound. With u = 2^-24 and n columns, a sum is off by n u of its
/// terms' magnitudes. The largest difference from the mean is below 3.5 and that from the shift of rung 3
/// below 3.5 too, the deviation near 1; so the mean is off by 4 n u + |mean| u, the variance by 2 * 3.5^2 n
/// u, and rstd by half of that: 16 n u of a result of up to 3.5 * 1.5, and |mean| u.
double largest_error(const Data& data) {
  const std::vector<double> out = data.out.to_doubles(), means = data.mean.to_doubles(),
                            rstds = data.rstd.to_doubles();
  const auto n = static_cast<std::size_t>(data.size);
  const double unit = static_cast<double>(n + 16) * 0x1p-24;
  double worst = 0;
  const auto compare = [&](double got, double expected, double allowed) {
    const double error = std::abs(got - expected) / allowed;
    if (!(error <= worst)) worst = std::isnan(error) ? INFINITY : error;
  };
  for (std::size_t row = 0; row < n; ++row) {
    const float* x = data.x.data() + row * n;
    double mean = 0, variance = 0;
    for (std::size_t j = 0; j < n; ++j) mean += static_cast<double>(x[j]) / static_cast<double>(n);
    for (std::size_t j = 0; j < n; ++j) {
      variance +=
          (static_cast<double>(x[j]) - mean) * (static_cast<double>(x[j]) - mean) / static_cast<double>(n);
    }
    const double rstd = 1 / std::sqrt(variance + 1e-5);
    compare(means[row], mean, unit * (4 + std::abs(mean)));
    compare(rstds[row], rstd, unit * 16 * rstd);
    for (std::size_t j = 0; j < n; ++j) {
      const double normed = (static_cast<double>(x[j]) - mean) * rstd;
      compare(out[row * n + j], normed * data.w[j] + data.b[j],
              unit * (16 * std::abs(normed) + 4 + std::abs(mean)) * 1.5 * rstd);
    }
  }
  return worst;
}

}  // namespace

Trial layer_norm_trial(int size, Device device) {
  const auto data = std::make_shared<Data>(size, device);
  Trial trial;
  for (const auto& [rung, launch] : kRungs) trial.rungs.push_back(rung);
  const std::size_t row_bytes = static_cast<std::size_t>(size) * sizeof(float);
  const std::size_t bytes = row_bytes * static_cast<std::size_t>(size);
  trial.bytes = 2 * static_cast<double>(bytes);
  trial.memory = {
      {"in", data->in.raw(), bytes, true},          {"weight", data->weight.raw(), row_bytes, true},
      {"bias", data->bias.raw(), row_bytes, true},  {"mean", data->mean.raw(), row_bytes, false},
      {"rstd", data->rstd.raw(), row_bytes, false}, {"out", data->out.raw(), bytes, false}};
  trial.run = [data](const Stream& stream, int version) {
    const auto floats = [](const Tensor& tensor) { return static_cast<float*>(tensor.raw()); };
    kRungs[version - 1].launch(
        stream,
        LayerNormProblem{floats(data->in), floats(data->weight), floats(data->bias), floats(data->out),
                         floats(data->mean), floats(data->rstd), data->size, data->size});
  };
  trial.error = [data] { return largest_error(*data); };
  return trial;
}

}  // namespace ringtape::ladders
