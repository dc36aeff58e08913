#include <cmath>
#include <vector>

#include "kernels/simt/observer.h"
#include "kernels/simt/thread_order.h"
#include "lessons/tasks/model.h"
#include "lessons/tasks/run_kernel.h"
#include "lessons/tasks/tests.h"
#include "optim/clip.h"

namespace ringtape::tasks {
namespace {

using Kernel = void(const float* x, float* sums);

/// The sums of blocks of that many threads, as the executor runs the kernel.
std::vector<float> sums_by(Kernel* kernel, const std::vector<float>& x, unsigned threads) {
  std::vector<float> sums(x.size() / threads, -1.0F);
  run_kernel(kernel, {static_cast<unsigned>(sums.size())}, {threads}, x.data(), sums.data());
  return sums;
}

/// Counts the barriers of all threads of a block, and the shuffles of its warps, while it exists.
class Exchanges : public simt::Observer {
 public:
  Exchanges() { simt::set_observer(this); }
  ~Exchanges() override { simt::set_observer(nullptr); }
  void block_arrived(simt::SourceLocation) override { ++barriers; }
  void warp_arrived(int, unsigned, bool orders_memory) override { shuffles += orders_memory ? 0 : 1; }

  int barriers = 0, shuffles = 0;
};

/// Whole numbers, so that no order of the additions rounds.
std::vector<float> numbers(std::size_t count) {
  std::vector<float> x;
  for (std::size_t i = 0; i < count; ++i) x.push_back(static_cast<float>(i % 7 + 1));
  return x;
}

float sum_of(const std::vector<float>& x, std::size_t first, std::size_t count) {
  float sum = 0;
  for (std::size_t i = first; i < first + count; ++i) sum += x[i];
  return sum;
}

void test_one_warp(Kernel* kernel) {
  const std::vector<float> x = numbers(32);
  const float found = sums_by(kernel, x, 32)[0], expected = sum_of(x, 0, 32);
  if (found == x[0]) wrong("one warp: the sum is {:g}, the first element alone", found);
  if (found != expected) {
    wrong(
        "one warp: the sum of 32 elements is {:g}, expected {:g}: are there five shuffles, with steps of 16, "
        "8, 4, 2 and 1, called by all 32 lanes, and does lane 0 alone write, which has the sum?",
        found, expected);
  }
}

void test_warps(Kernel* kernel, unsigned threads) {
  const std::vector<float> x = numbers(3 * threads);
  const std::vector<float> sums = sums_by(kernel, x, threads);
  for (std::size_t block = 0; block < sums.size(); ++block) {
    const float expected = sum_of(x, block * threads, threads);
    if (sums[block] == expected) continue;
    const simt::ThreadOrderScope other_order(simt::ThreadOrder::reversed);
    if (sums_by(kernel, x, threads)[block] == expected) {
      wrong(
          "a block of {} threads has the sum {:g}, and {:g}, which is right, if the last thread goes first: "
          "another warp's sum is read "
          "before it is written; between the two there has to be a __syncthreads()",
          threads, sums[block], expected);
    }
    if (sums[block] == sum_of(x, block * threads, 32)) {
      wrong(
          "a block of {} threads has {} warps, and the sum {:g} is that of only its first warp, expected "
          "{:g}",
          threads, threads / 32, sums[block], expected);
    }
    wrong(
        "block {} of {} threads: the sum is {:g}, expected {:g}: one warp adds up the warps' sums, and all "
        "32 of "
        "its lanes have to call each shuffle whose mask names them",
        block, threads, sums[block], expected);
  }
}

void test_order(Kernel* kernel, simt::ThreadOrder order, std::uint64_t seed, const char* name) {
  const simt::ThreadOrderScope scope(order, seed);
  const std::vector<float> x = numbers(4096);
  const std::vector<float> sums = sums_by(kernel, x, 256);
  for (std::size_t block = 0; block < sums.size(); ++block) {
    const float expected = sum_of(x, block * 256, 256);
    if (sums[block] != expected) {
      wrong(
          "with the threads in {} order block {} has the sum {:g}, expected {:g}: another warp's sum is read "
          "before it is written; "
          "between the two there has to be a __syncthreads()",
          name, block, sums[block], expected);
    }
  }
}

/// What an earlier block left in shared memory must not be added.
void test_leftovers(Kernel* kernel) {
  sums_by(kernel, std::vector<float>(1024, 1000.0F), 1024);
  const float found = sums_by(kernel, numbers(64), 64)[0], expected = sum_of(numbers(64), 0, 64);
  if (found != expected) {
    wrong(
        "a block of 64 threads, after one of 1024, has the sum {:g}, expected {:g}: with fewer than 32 warps "
        "the other words of shared "
        "memory hold anything",
        found, expected);
  }
}

/// That the sum comes about by shuffles and one barrier, and not by a thread that reads everything.
void test_exchanges(Kernel* kernel) {
  const Exchanges found;
  sums_by(kernel, numbers(256), 256);
  // Five steps in each of 8 warps, and for the sum of the 8 at least three.
  if (found.shuffles < 8 * 5 + 3) {
    wrong(
        "the sums are right, but the warps of a block of 256 threads make {} shuffles, expected 8 x 5 + 5 = "
        "45: five in each warp, and five for the sum of the warps' sums",
        found.shuffles);
  }
  if (found.barriers != 1) {
    wrong(
        "the sums are right, but a block of 256 threads waits at {} barriers, expected one: only the warps' "
        "sums go through shared memory",
        found.barriers);
  }
}

}  // namespace

void test_block_sum(const LearnersFile& file) {
  auto* const kernel = file.function<Kernel>("block_sum");
  test_one_warp(kernel);
  test_warps(kernel, 64);
  test_leftovers(kernel);
  test_order(kernel, simt::ThreadOrder::forward, 0, "forward");
  test_order(kernel, simt::ThreadOrder::reversed, 0, "reversed");
  for (const std::uint64_t seed : {std::uint64_t{1}, std::uint64_t{2}})
    test_order(kernel, simt::ThreadOrder::shuffled, seed, "shuffled");
  test_warps(kernel, 1024);
  test_exchanges(kernel);
}

void run_block_sum(const LearnersFile& file) {
  auto* const kernel = file.function<Kernel>("block_sum");
  SmallModel model;
  fmt::print("\nThe norm of a network's gradients, their squares added up in blocks of 128:\n");
  for (int step = 0; step < 3; ++step) {
    model.backward();
    std::vector<float> squares;
    for (const ArenaEntry& entry : model.arena.entries()) {
      for (const double g : entry.tensor->grad().to_doubles()) squares.push_back(static_cast<float>(g * g));
    }
    squares.resize((squares.size() + 127) / 128 * 128);
    double sum = 0;
    for (const float of_block : sums_by(kernel, squares, 128)) sum += of_block;
    const double expected = clip_grad_norm(model.arena, INFINITY).item();
    fmt::print("  yours {:.6f}, the library's {:.6f}\n", std::sqrt(sum), expected);
    if (!close(std::sqrt(sum), expected, 1e-5))
      wrong("the norm is {:.6f}, expected {:.6f}", std::sqrt(sum), expected);
    for (float& value : model.values()) value *= 0.5F;
    model.arena.bump_versions();
  }
}

}  // namespace ringtape::tasks
