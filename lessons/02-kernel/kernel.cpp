// From a thread to a block: which thread computes which element, and how the threads of a block add up.
#include "lessons/02-kernel/kernel.h"

#include <fmt/format.h>

#include <string>

#include "autograd/creation.h"
#include "cli/command_line.h"
#include "kernels/simt/thread_order.h"

namespace {

using namespace ringtape;

struct Options {
  int elements = 10, threads = 4;
  int summed = 8;  ///< values, and threads, in each of the two blocks that add up
};

void show_elements(int elements, int threads) {
  const int blocks = (elements + threads - 1) / threads;
  const Tensor x = arange(0, elements), y = zeros({elements});
  const Tensor block = zeros({elements}, DType::i32), thread = zeros({elements}, DType::i32);
  lesson_double(Stream::current({}), blocks, threads, elements, x.data<float>(), y.data<float>(),
                block.data<std::int32_t>(), thread.data<std::int32_t>());
  fmt::print("y = 2 x for {} elements by {} blocks of {} threads: {} threads\n", elements, blocks, threads,
             blocks * threads);
  fmt::print("  element  block  thread   y\n");
  for (int i = 0; i < elements; ++i) {
    fmt::print("  {:>7}  {:>5}  {:>6}  {:>2}\n", i, block.data<std::int32_t>()[i],
               thread.data<std::int32_t>()[i], y.data<float>()[i]);
  }
}

void print_sums(const std::string& when, const Tensor& x, int blocks, bool with_barriers) {
  const Tensor sums = zeros({blocks});
  const int threads = static_cast<int>(x.elements()) / blocks;
  lesson_block_sum(Stream::current({}), blocks, threads, with_barriers, x.data<float>(), sums.data<float>());
  fmt::print("  {:<42} {:>4} {:>4}\n", when, sums.data<float>()[0], sums.data<float>()[1]);
}

void show_sums(int threads) {
  constexpr int kBlocks = 2;
  const Tensor x = arange(1, kBlocks * threads + 1);
  int halvings = 0;
  for (int half = threads / 2; half > 0; half /= 2) ++halvings;
  fmt::print("\nSums of 1 to {0} and of {1} to {2}, by {3} blocks of {0} threads, in {4} halvings\n", threads,
             threads + 1, 2 * threads, kBlocks, halvings);
  const int first = threads * (threads + 1) / 2;
  fmt::print("  {:<42} {:>4} {:>4}\n", "right", first, first + threads * threads);
  for (const bool with_barriers : {true, false}) {
    for (const auto order : {simt::ThreadOrder::forward, simt::ThreadOrder::reversed}) {
      const simt::ThreadOrderScope scope(order);
      const int goes_first = order == simt::ThreadOrder::forward ? 0 : threads - 1;
      print_sums(fmt::format("{} barriers, thread {} first", with_barriers ? "with" : "without", goes_first),
                 x, kBlocks, with_barriers);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app("Which thread computes what, and what barriers are for.\nExample: kernel --summed 6");
  app.option("--elements", between(options.elements, 1, 1000), "elements to double");
  app.option("--threads", between(options.threads, 1, 1024), "threads of a block that doubles");
  app.option("--summed", between(options.summed, 1, 1024), "values, and threads, of a block that adds up");
  return app.run(argc, argv, [&] {
    show_elements(options.elements, options.threads);
    show_sums(options.summed);
  });
}
