#include "kernels/ladders/attention/trial.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/half.h"
#include "core/philox.h"
#include "core/tensor.h"

namespace ringtape::ladders {
namespace {

constexpr RungOf<LadderAttention> kRungs[] = {
    {{"naive", "scores, softmax and sum in three kernels"}, attention_naive},
    {{"fused", "a block for each query, its scores in shared memory"}, attention_fused},
    {{"online", "64 queries share tiles of keys, maximum and sum so far"}, attention_online},
    {{"vectorised", "16 bytes an instruction, four keys at a time"}, attention_vectorised},
    {{"tensor core", "bf16, ldmatrix and mma, weights stay in registers", DType::bf16},
     attention_tensor_core},
};

constexpr std::int64_t kHeads = 4, kWidth = kLadderHeadWidth;

/// q, k and v, in the two dtypes of the rungs. The f32 values are exact in bf16, so that all rungs compute
/// the same.
struct Data {
  Data(int n, Device device)
      : tokens(n),
        q(values(1)),
        k(values(2)),
        v(values(3)),
        out(empty({kHeads, n, kWidth}, DType::f32, device)),
        scores(empty({kHeads, n, n}, DType::f32, device)) {
    for (const std::vector<float>* from : {&q, &k, &v}) {
      std::vector<bfloat16> rounded;
      for (const float value : *from) rounded.push_back(on_cpu::to_bfloat16(value));
      inputs32.push_back(from_vector(*from, {kHeads, n, kWidth}, device));
      inputs16.push_back(from_vector(rounded, {kHeads, n, kWidth}, device));
    }
  }

  std::int64_t tokens;
  std::vector<float> q, k, v;
  std::vector<Tensor> inputs32, inputs16;
  Tensor out, scores;
  bool weights_are_bf16 = false;  // of the last run

 private:
  std::vector<float> values(std::uint64_t seed) const {
    std::vector<float> result(static_cast<std::size_t>(kHeads * tokens * kWidth));
    for (std::size_t i = 0; i < result.size(); ++i) {
      const float uniform = on_cpu::uniform_float(on_cpu::philox4x32_10(seed, i, 0).x);
      result[i] = on_cpu::to_float(on_cpu::to_bfloat16(4 * uniform - 2));
    }
    return result;
  }
};

/// The largest error of a few hundred rows, over the rounding bound. A score is off by at most e = 66 * 2^-24
/// times the sum of its terms' magnitudes, so exp by 2 e + 32 * 2^-24 times its value, and sums of `count`
/// terms by 2 * count * 2^-24; weights in bf16 are off by 2^-8.
double largest_error(const Data& data) {
  const std::vector<double> out = data.out.to_doubles();
  const std::int64_t rows = kHeads * data.tokens, step = rows <= 1024 ? 1 : rows / 512 + 1;
  double worst = 0;
  for (std::int64_t row = 0; row < rows; row += step) {
    const std::int64_t query = row % data.tokens;
    const float* q = data.q.data() + row * kWidth;
    const float* k = data.k.data() + (row - query) * kWidth;
    const float* v = data.v.data() + (row - query) * kWidth;
    std::vector<double> weights;
    double total = 0, largest = 0;
    for (std::int64_t j = 0; j <= query; ++j) {
      double score = 0, magnitude = 0;
      for (std::int64_t d = 0; d < kWidth; ++d) {
        const double product = static_cast<double>(q[d]) * static_cast<double>(k[j * kWidth + d]);
        score += product / 8;
        magnitude += std::abs(product) / 8;
      }
      largest = std::max(largest, magnitude);
      weights.push_back(std::exp(score));
      total += weights.back();
    }
    const double bound = (2 * 66 * largest + 32 + 2 * static_cast<double>(query + 1)) * 0x1p-24 +
                         (data.weights_are_bf16 ? 0x1p-8 : 0);
    for (std::int64_t d = 0; d < kWidth; ++d) {
      double expected = 0, magnitude = 0;
      for (std::int64_t j = 0; j <= query; ++j) {
        const double term =
            weights[static_cast<std::size_t>(j)] / total * static_cast<double>(v[j * kWidth + d]);
        expected += term;
        magnitude += std::abs(term);
      }
      const double error =
          std::abs(out[static_cast<std::size_t>(row * kWidth + d)] - expected) / (bound * magnitude);
      if (!(error <= worst)) worst = std::isnan(error) ? INFINITY : error;
    }
  }
  return worst;
}

}  // namespace

Trial attention_trial(int size, Device device) {
  const auto data = std::make_shared<Data>(size, device);
  Trial trial;
  for (const auto& [rung, launch] : kRungs) trial.rungs.push_back(rung);
  const double n = size;
  trial.flops = 2 * static_cast<double>(kHeads * kWidth) * n * (n + 1);
  const auto bytes = static_cast<std::size_t>(kHeads * size * kWidth) * sizeof(float);
  const char* const names[] = {"q", "k", "v"};
  for (std::size_t i = 0; i < 3; ++i) {
    trial.memory.push_back({names[i], data->inputs32[i].raw(), bytes, true});
    trial.memory.push_back({std::string(names[i]) + " in bf16", data->inputs16[i].raw(), bytes / 2, true});
  }
  trial.memory.push_back(
      {"scores", data->scores.raw(),
       static_cast<std::size_t>(kHeads * size) * static_cast<std::size_t>(size) * sizeof(float), false});
  trial.memory.push_back({"out", data->out.raw(), bytes, false});
  trial.run = [data](const Stream& stream, int version) {
    data->weights_are_bf16 = kRungs[version - 1].rung.inputs == DType::bf16;
    const std::vector<Tensor>& in = data->weights_are_bf16 ? data->inputs16 : data->inputs32;
    kRungs[version - 1].launch(
        stream, LadderAttention{in[0].raw(), in[1].raw(), in[2].raw(), static_cast<float*>(data->out.raw()),
                                static_cast<float*>(data->scores.raw()), static_cast<int>(kHeads),
                                static_cast<int>(data->tokens)});
  };
  trial.error = [data] { return largest_error(*data); };
  return trial;
}

}  // namespace ringtape::ladders
