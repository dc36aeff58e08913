// The tiles of a matrix product, drawn from the accesses of a kernel of the GEMM ladder: which elements of A,
// B and C a block, one of its warps and one of its threads touch.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "core/error.h"
#include "core/numbers.h"
#include "io/file.h"
#include "lessons/touched.h"
#include "plot/canvas.h"

namespace {

using namespace ringtape;

struct Options {
  int rung = 3, size = 128, step = -1, thread = 0, cell = 8;
  std::vector<std::int64_t> block = {0, 0};
  std::string svg;
};

/// Who touches a square of `cell` x `cell` elements: the chosen thread if it does, else its warp, its block.
Toucher closest(const TouchedProduct& product, const TouchedMatrix& matrix, int row, int column, int cell) {
  Toucher by = Toucher::nobody;
  for (int r = row * cell; r < (row + 1) * cell; ++r) {
    for (int c = column * cell; c < (column + 1) * cell; ++c) {
      by = std::max(by, matrix.by[static_cast<std::size_t>(r) * static_cast<std::size_t>(product.size) +
                                  static_cast<std::size_t>(c)]);
    }
  }
  return by;
}

void print_pictures(const TouchedProduct& product, int cell) {
  const int cells = product.size / cell;
  fmt::print("A character is {0} x {0} elements: - the block, + the warp, # the thread\n\n", cell);
  for (const TouchedMatrix& matrix : product.matrices) fmt::print("  {:<{}}", matrix.name, cells);
  fmt::print("\n");
  for (int row = 0; row < cells; ++row) {
    for (const TouchedMatrix& matrix : product.matrices) {
      fmt::print("  ");
      for (int column = 0; column < cells; ++column)
        fmt::print("{}", ".-+#"[static_cast<int>(closest(product, matrix, row, column, cell))]);
    }
    fmt::print("\n");
  }
}

void print_counts(const TouchedProduct& product) {
  const double products = static_cast<double>(product.size) * product.size * product.size;
  fmt::print("\n     the block asks for  different elements  each   all blocks ask for\n");
  std::int64_t reads = 0;
  for (const TouchedMatrix& matrix : product.matrices) {
    fmt::print("  {}  {:>17}  {:>18}  {:>4}  {:>19}\n", matrix.name, matrix.block_accesses,
               matrix.block_elements, matrix.block_accesses / matrix.block_elements, matrix.all_accesses);
    if (matrix.name != "C") reads += matrix.all_accesses;
  }
  fmt::print("A multiply-add reads {:g} elements of global memory.\n", static_cast<double>(reads) / products);
}

/// Draws a matrix. Equal neighbours in a row, and equal rows, share a rectangle.
svg::Canvas draw(const TouchedProduct& product, const TouchedMatrix& matrix, double scale) {
  const int n = product.size;
  const char* const classes[] = {"", "band s0", "s0", "s1"};
  svg::Canvas canvas(n * scale, n * scale, matrix.name);
  canvas.rectangle(0, 0, n * scale, n * scale, "box");
  const auto row_of = [&](int row) { return matrix.by.begin() + static_cast<std::ptrdiff_t>(row) * n; };
  for (int row = 0, end = 0; row < n; row = end) {
    while (end < n && std::equal(row_of(row), row_of(row) + n, row_of(end))) ++end;
    for (int column = 0, next = 0; column < n; column = next) {
      const Toucher by = row_of(row)[column];
      while (next < n && row_of(row)[next] == by) ++next;
      if (by == Toucher::nobody) continue;
      canvas.rectangle(column * scale, row * scale, (next - column) * scale, (end - row) * scale,
                       classes[static_cast<int>(by)]);
    }
  }
  return canvas;
}

std::string to_svg(const TouchedProduct& product, const std::string& title) {
  constexpr double kSide = 256, kGap = 24, kTop = 60;
  svg::Canvas canvas(3 * kSide + 4 * kGap, kSide + kTop + kGap + 20, title);
  canvas.text(kGap, 24, title, "strong");
  double x = kGap;
  for (const TouchedMatrix& matrix : product.matrices) {
    canvas.text(x, kTop - 10, matrix.name);
    canvas.picture(x, kTop, draw(product, matrix, kSide / product.size));
    x += kSide + kGap;
  }
  x = kGap;
  const std::pair<const char*, const char*> legend[] = {
      {"band s0", "the block"}, {"s0", "its warp"}, {"s1", "the thread"}};
  for (const auto& [classes, text] : legend) {
    canvas.rectangle(x, kTop + kSide + 14, 14, 14, classes);
    canvas.text(x + 20, kTop + kSide + 26, text, "small");
    x += 110;
  }
  return canvas.file();
}

void show(const Options& options) {
  check(options.block.size() == 2 && options.block[0] >= 0 && options.block[1] >= 0,
        "--block: expected the block's two indices, such as 0,1");
  check(options.size % 128 == 0, "--size must be a multiple of 128, found {}", options.size);
  check(options.size % options.cell == 0, "--cell must divide {}, found {}", options.size, options.cell);
  const TouchedProduct product = watch_gemm(
      options.rung, options.size,
      {static_cast<int>(options.block[0]), static_cast<int>(options.block[1]), options.thread, options.step});
  const std::string title =
      fmt::format("Rung {} ({}), {} x {}: block {},{} of {} threads, warp {}, thread {}", options.rung,
                  product.rung, options.size, options.size, options.block[0], options.block[1],
                  product.threads, options.thread / 32, options.thread) +
      (options.step < 0 ? "; " + counted(product.steps, "step")
                        : fmt::format("; step {} of 0 to {}", options.step, product.steps - 1));
  fmt::print("{}\n", title);
  print_pictures(product, options.cell);
  print_counts(product);
  if (!options.svg.empty()) save_text(options.svg, to_svg(product, title));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app(
      "Which elements a kernel of the GEMM ladder touches, by running it.\n"
      "Example: tiles --rung 4 --thread 40 --step 1");
  app.option("--rung", options.rung, "rung of the ladder, 1 to 9");
  app.option("--size", between(options.size, 128, 512), "rows and columns, a multiple of 128");
  app.option("--block", options.block, "blockIdx.x and blockIdx.y");
  app.option("--thread", between(options.thread, 0, 1023), "a thread of the block; its warp is shown too");
  app.option("--step", between(options.step, -1, 1023), "one step along k; -1: all steps");
  app.option("--cell", between(options.cell, 1, 128),
             "a character stands for a square of this many rows and columns");
  app.option("--svg", format_file_value(options.svg, {".svg"}),
             "also draw the matrices, element by element, to this file");
  return app.run(argc, argv, [&] { show(options); });
}
