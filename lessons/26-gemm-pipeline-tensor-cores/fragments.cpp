// Copies that run while a warp computes, and which lanes hold which elements of a tensor core's matrices.
#include "lessons/26-gemm-pipeline-tensor-cores/fragments.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "autograd/creation.h"
#include "cli/command_line.h"
#include "core/numbers.h"

namespace {

using namespace ringtape;

constexpr int kLanes = 32;

struct Options {
  int steps = 8;
  int lane = 5;
  bool all = false;
};

void show_pipeline(int steps) {
  const int n = 128 * steps;
  const Tensor x = ones({n}), sum = zeros({1});
  fmt::print("The sum of {} ones in {} steps, whose floats are copied while the step before is added up\n", n,
             steps);
  for (const bool waits : {true, false}) {
    lesson_pipeline(Stream::current({}), waits, n, x.data<float>(), sum.data<float>());
    fmt::print("  {:<48} {:g}\n", waits ? "waits for a step's copies" : "does not wait",
               without_nan_sign(sum.item()));
  }
}

/// The elements that each lane holds, as row x 16 + column.
using Held = std::vector<std::vector<int>>;

/// A 16 x 16 matrix whose element i is i, which bf16 represents exactly up to 256.
std::vector<bfloat16> numbered() {
  std::vector<bfloat16> result;
  for (int i = 0; i < 256; ++i) result.push_back(on_cpu::to_bfloat16(static_cast<float>(i)));
  return result;
}

Held loaded(bool transposed) {
  const std::vector<bfloat16> matrix = numbered();
  std::vector<unsigned> registers(kLanes * 4);
  lesson_load(Stream::current({}), transposed, matrix.data(), registers.data());
  Held result(kLanes);
  for (std::size_t i = 0; i < registers.size(); ++i) {
    for (const unsigned bits : {registers[i] & 0xffff, registers[i] >> 16}) {
      const bfloat16 element{static_cast<std::uint16_t>(bits)};
      result[i / 4].push_back(static_cast<int>(on_cpu::to_float(element)));
    }
  }
  return result;
}

Held multiplied() {
  const std::vector<bfloat16> matrix = numbered();
  std::vector<bfloat16> unit(256, on_cpu::to_bfloat16(0));
  for (std::size_t i = 0; i < 16; ++i) unit[17 * i] = on_cpu::to_bfloat16(1);
  std::vector<float> held(kLanes * 4);
  lesson_multiply(Stream::current({}), unit.data(), matrix.data(), held.data());
  Held result(kLanes);
  for (std::size_t i = 0; i < held.size(); ++i) result[i / 4].push_back(static_cast<int>(held[i]));
  return result;
}

/// Which lane holds each element of the first `columns` columns.
void draw(const std::string& title, const Held& held, int rows, int columns) {
  std::array<int, 256> lane_of;
  for (std::size_t lane = 0; lane < held.size(); ++lane)
    for (const int element : held[lane]) lane_of[static_cast<std::size_t>(element)] = static_cast<int>(lane);
  fmt::print("\n{}\n", title);
  for (int row = 0; row < rows; ++row) {
    fmt::print("  row {:>2} ", row);
    for (int column = 0; column < columns; ++column)
      fmt::print(" {:>2}", lane_of[static_cast<std::size_t>(16 * row + column)]);
    fmt::print("\n");
  }
}

void show_lane(const std::string& name, const Held& held, int lane, std::size_t count) {
  fmt::print("  {}", name);
  const std::vector<int>& elements = held[static_cast<std::size_t>(lane)];
  for (std::size_t i = 0; i < count; ++i) fmt::print("  [{}][{}]", elements[i] / 16, elements[i] % 16);
  fmt::print("\n");
}

void show_fragments(const Options& options) {
  const Held a = loaded(false), b = loaded(true), c = multiplied();
  const int rows = options.all ? 16 : 3;
  draw("The lane that holds each element of A, 16 x 16", a, rows, 16);
  draw("of B, 16 x 8, of which k is the row", b, rows, 8);
  draw("and of C = A B, 16 x 8", c, rows, 8);
  fmt::print("\nLane {} holds, in this order,\n", options.lane);
  show_lane("A", a, options.lane, 8);
  show_lane("B", b, options.lane, 4);
  show_lane("C", c, options.lane, 4);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app(
      "Asynchronous copies with and without a wait, and the fragments of a tensor core's product.\n"
      "Example: fragments --lane 31 --all");
  app.option("--steps", between(options.steps, 1, 1024), "steps of 128 floats that are copied and added up");
  app.option("--lane", between(options.lane, 0, kLanes - 1), "the lane whose elements are listed");
  app.option("--all", options.all, "all 16 rows of the matrices");
  return app.run(argc, argv, [&] {
    show_pipeline(options.steps);
    show_fragments(options);
  });
}
