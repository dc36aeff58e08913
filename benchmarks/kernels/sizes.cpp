#include "benchmarks/kernels/sizes.h"

#include <fmt/format.h>

namespace ringtape::kernel_cases {
namespace {

/// Lengths of GPT-2's 148 parameters (124M).
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

NamedSize matrix(std::int64_t rows, std::int64_t columns, DType dtype = DType::f32) {
  return {fmt::format("{} x {} {}", rows, columns, name_of(dtype)),
          {.rows = rows, .columns = columns, .dtype = dtype}};
}

}  // namespace

std::vector<NamedSize> sizes_of(Measured measured, bool on_gpu) {
  const std::int64_t large = std::int64_t{1} << (on_gpu ? 28 : 24), rows = large / 1024;
  switch (measured) {
    case Measured::no:
      return {};
    case Measured::elements:
      return {{fmt::format("{} f32", large), {.rows = large}}};
    case Measured::converted:
      return {{fmt::format("{}", large), {.rows = large}}};
    case Measured::parts_of_rows:
      return {{fmt::format("{} rows f32", rows), {.rows = rows, .columns = 512}}};
    case Measured::matrix:
      return {matrix(rows, 1024)};
    case Measured::biases:
      if (on_gpu) return {matrix(128, 1024), matrix(16384, 1024), matrix(rows, 1024)};
      return {matrix(128, 1024), matrix(rows, 1024)};  // 16384 rows
    case Measured::logits: {
      const std::int64_t many = on_gpu ? 65536 : 8192, few = on_gpu ? 8192 : 256;
      return {matrix(64, 10), matrix(std::int64_t{1} << 20, 10), matrix(many, 1000), matrix(few, 50304),
              matrix(few, 50304, DType::bf16)};
    }
    case Measured::parameters:
      return {{fmt::format("1 x {}", large), {.lengths = {large}}},
              {"1000 x 1000", {.lengths = std::vector<std::int64_t>(1000, 1000)}},
              {"148 of GPT-2", {.lengths = gpt2_lengths()}}};
  }
  return {};
}

}  // namespace ringtape::kernel_cases
