// Freed memory: the allocator keeps it, empty_cache() gives it back to the system, and zero_grad() frees
// none.
#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/numbers.h"
#include "nn/arena.h"
#include "nn/layers.h"

namespace {

using namespace ringtape;

struct Options {
  std::vector<std::int64_t> lengths = {100, 90, 110, 100, 95, 105};
  std::int64_t multiple = 1;
};

std::string text_of(std::size_t bytes) {
  return bytes_text(static_cast<double>(bytes));
}

void print_stats(const std::string& what) {
  const MemoryStats stats = memory_stats(Device());
  fmt::print("  {:<44} {:>9}  {:>9}  {:>9}\n", what, text_of(stats.live), text_of(stats.reserved),
             text_of(stats.peak));
}

void show_cache() {
  constexpr std::int64_t kMiB = 1 << 18;  // floats
  fmt::print("  {:<44} {:>9}  {:>9}  {:>9}\n", "", "live", "reserved", "peak");
  Tensor x = empty({8 * kMiB});
  print_stats("a tensor of 8 MiB");
  x = {};
  print_stats("freed");
  x = empty({8 * kMiB});
  print_stats("another of 8 MiB");
  x = empty({6 * kMiB});
  print_stats("one of 6 MiB in its place");
  empty_cache(Device());
  print_stats("empty_cache(), with the 6 MiB in use");
  x = {};
  empty_cache(Device());
  print_stats("freed, and empty_cache() again");
}

void show_gradients() {
  manual_seed(0);
  Sequential model;
  model.push_back(std::make_shared<Linear>(512, 512));
  ParameterArena arena(model, Device());
  const Tensor x = randn({4, 512});
  fmt::print("\nGradients of a layer of 512 x 512\n  {:<28} {:>12}  {:>8}  {}\n", "", "bytes", "defined",
             "first element in memory");
  const auto print = [&](const char* when) {
    const std::size_t bytes = memory_stats(Device()).live_by_category[MemoryCategory::gradients];
    fmt::print("  {:<28} {:>12}  {:>8}  {:.4f}\n", when, text_of(bytes),
               arena.entries()[0].tensor->grad().defined() ? "yes" : "no",
               arena.gradients().data<float>()[0]);
  };
  const auto backward = [&](double factor) { scale(mean(model(x)), factor).backward(); };
  backward(1000);
  print("backward");
  backward(1000);
  print("backward again");
  arena.zero_grad();
  print("zero_grad()");
  backward(1000);
  print("backward");
}

/// Activations of sequences of several lengths, one after the other, as an update would allocate them.
void show_lengths(const Options& options) {
  empty_cache(Device());
  reset_peak_memory(Device());
  const MemoryStats before = memory_stats(Device());
  fmt::print("\nSequences of 1024 floats a token, one after the other, rounded up to a multiple of {}\n",
             options.multiple);
  fmt::print("  length  allocated   reserved\n");
  for (const std::int64_t length : options.lengths) {
    const std::int64_t rounded = (length + options.multiple - 1) / options.multiple * options.multiple;
    const Tensor activations = empty({rounded, 1024});
    fmt::print("  {:>6}  {:>9}  {:>9}\n", length, text_of(memory_stats(Device()).live - before.live),
               text_of(memory_stats(Device()).reserved - before.reserved));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app(
      "Freed memory, and how much of it the allocator keeps.\n"
      "Example: memory_kept --lengths 10,20,30 --multiple 32");
  app.option("--lengths", options.lengths, "tokens of sequences that come one after the other");
  app.option("--multiple", between(options.multiple, 1, 4096), "round lengths up to a multiple of this");
  return app.run(argc, argv, [&] {
    for (const std::int64_t length : options.lengths)
      check(length >= 1 && length <= 65536, "--lengths: expected 1 to 65536 tokens, found {}", length);
    show_cache();
    show_gradients();
    show_lengths(options);
  });
}
