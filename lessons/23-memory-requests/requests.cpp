// The cost of one memory instruction of a warp: the sectors of global memory that it touches, or the cycles
// that the banks of shared memory need.
#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "cli/command_line.h"
#include "core/error.h"
#include "kernels/analysis/request.h"

namespace {

using namespace ringtape;
using analysis::Request;

constexpr int kBanks = 32, kBankBytes = 4;

struct Options {
  std::vector<std::int64_t> strides = {0, 1, 2, 4, 8, 32, 33};
  std::int64_t bytes = 4;   ///< for each lane
  std::int64_t offset = 0;  ///< floats before lane 0's element
  std::int64_t rows = 4;    ///< of the pictures of banks
  bool lanes = false;       ///< show each lane's bank
};

/// Lane i accesses `bytes` bytes, i x stride elements of that size after the first lane's.
Request request_of(const Options& options, std::int64_t stride) {
  Request request;
  request.lanes = 0xffffffff;
  request.bytes = static_cast<int>(options.bytes);
  for (int lane = 0; lane < 32; ++lane) {
    request.address[lane] = static_cast<std::uint64_t>(4 * options.offset + options.bytes * stride * lane);
  }
  return request;
}

void show_costs(const Options& options) {
  fmt::print("A warp reads {} bytes a lane, lane i those at i x stride:\n", options.bytes);
  fmt::print("          global memory                     shared memory\n");
  fmt::print("  stride  sectors  bytes moved  bytes used  cycles  conflicts\n");
  for (const std::int64_t stride : options.strides) {
    const Request request = request_of(options, stride);
    const int sectors = analysis::sectors(request), moved = sectors * analysis::kSectorBytes;
    const int used = analysis::distinct_bytes(request), cycles = analysis::bank_cycles(request);
    fmt::print("  {:>6}  {:>7}  {:>11}  {:>10}  {:>6}  {:>9}\n", stride, sectors, moved, used, cycles,
               cycles - analysis::phases(request));
  }
}

/// The bank of each lane's float.
void show_lanes(const Options& options) {
  fmt::print("\nThe bank of the float that each lane reads, lanes 0 to 31:\n");
  for (const std::int64_t stride : options.strides) {
    fmt::print("  stride {:>4} ", stride);
    for (std::int64_t lane = 0; lane < 32; ++lane) {
      fmt::print(" {:>2}", (options.offset + lane * stride) * 4 / kBankBytes % kBanks);
    }
    fmt::print("\n");
  }
}

/// The banks of the first elements of a tile whose rows are `stride` floats long, of which the lanes read a
/// column.
void show_banks(std::int64_t stride, std::int64_t rows) {
  fmt::print("\nThe banks of a tile with rows of {} floats; lane i reads row i of a column:\n", stride);
  for (std::int64_t row = 0; row < rows; ++row) {
    fmt::print("  row {:>2} ", row);
    for (std::int64_t column = 0; column < 8; ++column) {
      fmt::print("  {:>2}", (row * stride + column) * 4 / kBankBytes % kBanks);
    }
    fmt::print("  ...\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app(
      "The cost of one memory instruction of a warp.\n"
      "Example: requests --strides 1,2,3 --bytes 16");
  app.option("--strides", options.strides, "distances between the lanes' elements");
  app.option("--bytes", options.bytes, "bytes of an element: 4, 8 or 16");
  app.option("--offset", between(options.offset, 0, 1024), "floats before the first lane's element");
  app.option("--rows", between(options.rows, 0, 32), "rows of the pictures of banks; 0: no pictures");
  app.option("--lanes", options.lanes, "show the bank of each lane's float");
  return app.run(argc, argv, [&] {
    check(options.bytes == 4 || options.bytes == 8 || options.bytes == 16,
          "--bytes must be 4, 8 or 16, found {}", options.bytes);
    for (const std::int64_t stride : options.strides)
      check(stride >= 0 && stride <= 4096, "--strides: expected 0 to 4096, found {}", stride);
    check(options.bytes == 4 || !options.lanes, "--lanes shows floats: expected --bytes 4, found {}",
          options.bytes);
    show_costs(options);
    if (options.lanes) show_lanes(options);
    if (options.bytes > 4 || options.rows == 0) return;  // the pictures are of floats
    for (const std::int64_t stride : options.strides)
      if (stride >= kBanks) show_banks(stride, options.rows);
  });
}
