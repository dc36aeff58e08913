// Every kernel but GEMM: the bytes it must move, the time that a copy of as many takes, the time of the
// kernel and the ratio of the two. On the CPU some rows name a second time: a plain vectorised OpenMP loop
// for the same work. The rows are made in kernels/, a file for each family.
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "benchmarks/kernels/rows.h"
#include "cli/command_line.h"

namespace {

using namespace ringtape;
using namespace ringtape::benchmarks;

/// Lengths of GPT-2's 148 parameters (124M), as torch.nn.Module.parameters() would list them.
std::vector<std::int64_t> gpt2_lengths() {
  constexpr std::int64_t kWidth = 768, kVocabulary = 50257, kContext = 1024, kLayers = 12;
  std::vector<std::int64_t> lengths = {kVocabulary * kWidth, kContext * kWidth};
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    for (const auto& [in, out] : {std::pair(kWidth, 3 * kWidth), std::pair(kWidth, kWidth),
                                  std::pair(kWidth, 4 * kWidth), std::pair(4 * kWidth, kWidth)}) {
      lengths.insert(lengths.end(), {in * out, out});
    }
    lengths.insert(lengths.end(), 4, kWidth);  // two normalisations
  }
  lengths.insert(lengths.end(), 2, kWidth);
  return lengths;
}

void measure(const std::string& device_name, const std::string& json) {
  const Device device = Device::parse(device_name);
  Table table(device, json);
  const std::int64_t large = device.is_cpu() ? std::int64_t{1} << 24 : std::int64_t{1} << 28;
  measure_elementwise(table, large);
  measure_random(table, large);
  measure_compression(table, large);
  measure_reductions(table, large);
  measure_biases(table, 128, 1024);
  measure_biases(table, large / 1024, 1024);
  measure_mse(table, large);
  measure_cross_entropy(table, 64, 10, DType::f32);
  measure_cross_entropy(table, std::int64_t{1} << 20, 10, DType::f32);
  measure_cross_entropy(table, device.is_cpu() ? 8192 : 65536, 1000, DType::f32);
  measure_cross_entropy(table, device.is_cpu() ? 256 : 8192, 50304, DType::f32);
  measure_cross_entropy(table, device.is_cpu() ? 256 : 8192, 50304, DType::bf16);
  measure_arena(table, fmt::format("1 x {}", large), {large});
  measure_arena(table, "1000 x 1000", std::vector<std::int64_t>(1000, 1000));
  measure_arena(table, "148 of GPT-2", gpt2_lengths());
  table.results().save();
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app("Times of Ringtape's kernels beside what the memory allows.");
  std::string device = "auto", json;
  app.option("--device", device, "auto, cpu, cuda or cuda:N");
  app.file("--json", json, kJsonHelp);
  return app.run(argc, argv, [&] { measure(device, json); });
}
