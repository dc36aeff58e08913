// From a thread to a block: which thread computes which element, and how the threads of a block add up.
#include "lessons/02-kernel/kernel.h"

#include <fmt/format.h>

#include <string>

#include "autograd/creation.h"
#include "cli/command_line.h"
#include "kernels/simt/thread_order.h"

namespace {

using namespace ringtape;

void show_elements() {
  constexpr int kElements = 10, kThreads = 4, kBlocks = (kElements + kThreads - 1) / kThreads;
  const Tensor x = arange(0, kElements), y = zeros({kElements});
  const Tensor block = zeros({kElements}, DType::i32), thread = zeros({kElements}, DType::i32);
  lesson_double(Stream::current({}), kBlocks, kThreads, kElements, x.data<float>(), y.data<float>(),
                block.data<std::int32_t>(), thread.data<std::int32_t>());
  fmt::print("y = 2 x for {} elements by {} blocks of {} threads: {} threads\n", kElements, kBlocks, kThreads,
             kBlocks * kThreads);
  fmt::print("  element  block  thread   y\n");
  for (int i = 0; i < kElements; ++i) {
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

void show_sums() {
  constexpr int kBlocks = 2, kThreads = 8;
  const Tensor x = arange(1, kBlocks * kThreads + 1);
  fmt::print("\nSums of 1 to 8 and of 9 to 16, by {} blocks of {} threads, in 3 halvings\n", kBlocks,
             kThreads);
  fmt::print("  {:<42} {:>4} {:>4}\n", "right", 36, 100);
  for (const bool with_barriers : {true, false}) {
    for (const auto order : {simt::ThreadOrder::forward, simt::ThreadOrder::reversed}) {
      const simt::ThreadOrderScope scope(order);
      const char* first = order == simt::ThreadOrder::forward ? "thread 0 first" : "thread 7 first";
      print_sums(fmt::format("{} barriers, {}", with_barriers ? "with" : "without", first), x, kBlocks,
                 with_barriers);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app("Which thread computes what, and what barriers are for.\nExample: kernel");
  return app.run(argc, argv, [] {
    show_elements();
    show_sums();
  });
}
