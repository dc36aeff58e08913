// The CPU executor's behaviour for kernels with bugs. The kernels are in this file, because only the CPU can
// run them.
#include "kernels/common/kernel.h"

#include <atomic>
#include <csignal>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/error_of.h"
#include "tests/support/thread_orders.h"

namespace ringtape::on_cpu {
namespace {

using test::error_of;
using test::for_each_thread_order;
using test::run_in_child;

const Stream& stream() {
  static const Stream cpu = Stream::current({});
  return cpu;
}

std::string location(int line) {
  return std::string(__FILE__) + ":" + std::to_string(line);
}

// ---- barriers ----

constexpr int kFirstBarrier = __LINE__ + 4, kSecondBarrier = __LINE__ + 6;

__global__ void two_barriers(unsigned split) {
  if (threadIdx.x < split) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST_CASE("simt: threads that wait at different barriers are an error that names both", "[simt]") {
  for_each_thread_order([] {
    const std::string text = error_of([] { launch(two_barriers, {{2, 3}, 64}, stream(), 5u); });
    CHECK_THAT(text, ContainsSubstring("block (0, 0, 0)"));
    CHECK_THAT(text, ContainsSubstring(location(kFirstBarrier)));
    CHECK_THAT(text, ContainsSubstring(location(kSecondBarrier)));
    CHECK_NOTHROW(launch(two_barriers, {4, 64}, stream(), 0u));
    CHECK_NOTHROW(launch(two_barriers, {4, 64}, stream(), 64u));
  });
}

constexpr int kBlockBarrier = __LINE__ + 4, kWarpBarrier = __LINE__ + 6;

__global__ void barrier_and_shuffle(int* out) {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    *out = __shfl_sync(0xffffffffu, 1, 0);
    if (threadIdx.x == 40) __syncwarp();
    __syncthreads();
  }
}

TEST_CASE("simt: a deadlock is an error that names the locations", "[simt]") {
  for_each_thread_order([] {
    int out = 0;
    const std::string text = error_of([&] { launch(barrier_and_shuffle, {1, 64}, stream(), &out); });
    CHECK_THAT(text,
               ContainsSubstring(location(kBlockBarrier)) || ContainsSubstring(location(kWarpBarrier + 2)));
    CHECK_THAT(text, ContainsSubstring("wait"));
  });
}

__global__ void lane_leaves(int* out) {
  if (threadIdx.x == 3) return;
  out[threadIdx.x] = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x), 3);
}

TEST_CASE("simt: a shuffle that names a lane that has returned", "[simt]") {
  for_each_thread_order([] {
    std::vector<int> out(32, 7);
    const std::string text = error_of([&] { launch(lane_leaves, {1, 32}, stream(), out.data()); });
#if defined(RINGTAPE_CHECK)
    CHECK_THAT(text, ContainsSubstring("names lane 3, which has returned"));
#else
    CHECK(text.empty());
    for (int lane = 0; lane < 32; ++lane) CHECK(out[lane] == (lane == 3 ? 7 : -1));
#endif
  });
}

__global__ void lanes_write_and_read(int* out) {
  if (threadIdx.x == 3) return;
  out[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncwarp();
  const int other = out[threadIdx.x == 0 ? 19 : 0];
  __syncwarp();
  out[threadIdx.x] += 100 * other;
}

TEST_CASE("simt: __syncwarp waits for the lanes that have not returned and exist", "[simt]") {
  for_each_thread_order([] {
    std::vector<int> out(20, -1);
    launch(lanes_write_and_read, {1, 20}, stream(), out.data());
    for (int lane = 0; lane < 20; ++lane) {
      CHECK(out[lane] == (lane == 3 ? -1 : lane + (lane == 0 ? 1900 : 0)));
    }
  });
}

__global__ void lanes_of_other_groups(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  const unsigned mask = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  out[lane] = __shfl_xor_sync(mask, lane, 16 * (lane % 2));
}

TEST_CASE("simt: a shuffle from a lane outside the mask gives ones in every bit, not a usable value",
          "[simt]") {
  for_each_thread_order([] {
    std::vector<int> out(32, 7);
    launch(lanes_of_other_groups, {1, 32}, stream(), out.data());
    for (int lane = 0; lane < 32; ++lane) CHECK(out[lane] == (lane % 2 == 0 ? lane : -1));
  });
}

__global__ void wrong_mask(int* out) {
  *out = __shfl_sync(0x0000ffffu, 1, 0);
}

TEST_CASE("simt: a lane outside its own mask", "[simt]") {
  for_each_thread_order([] {
    int out = 0;
    CHECK_THAT(error_of([&] {
                 launch(wrong_mask, {1, 32}, stream(), &out);
               }),
               ContainsSubstring("mask 0x0000ffff, which does not contain it"));
  });
}

__global__ void sum_without_some(float* out) {
  if (threadIdx.x >= 40) return;
  *out = block_sum(1.0f);
}

TEST_CASE("simt: block_sum needs every thread of the block", "[simt]") {
  float out = 0;
  // Which of the two is noticed first depends on the threads' order.
  CHECK_THAT(error_of([&] {
               launch(sum_without_some, {1, 64}, stream(), &out);
             }),
             ContainsSubstring("24 of 64 threads have returned, but the others wait at") ||
                 ContainsSubstring(", which has returned or does not exist"));
}

// ---- a missing barrier ----

// Thread i reads what its left and right neighbours wrote; without a barrier some order must give a wrong
// result.
__global__ void neighbours(bool with_barrier, const int* in, int* out) {
  int* values = dynamic_shared<int>();
  values[threadIdx.x] = 0;
  __syncthreads();
  values[threadIdx.x] = in[threadIdx.x];
  if (with_barrier) __syncthreads();
  const unsigned left = threadIdx.x == 0 ? blockDim.x - 1 : threadIdx.x - 1;
  out[threadIdx.x] = values[left];
}

TEST_CASE("simt: a missing barrier shows under some order of the threads", "[simt]") {
  constexpr int kThreads = 96;
  const std::vector<int> ones(kThreads, 1);
  int wrong_orders[2] = {0, 0};
  for (const bool with_barrier : {false, true}) {
    for_each_thread_order([&] {
      std::vector<int> out(kThreads, -1);
      launch(neighbours, {1, kThreads, sizeof(int) * kThreads}, stream(), with_barrier, ones.data(),
             out.data());
      wrong_orders[with_barrier] += out != ones;
    });
  }
  CHECK(wrong_orders[false] >= 2);
  CHECK(wrong_orders[true] == 0);
}

/// Between its write and its read of another warp's value a thread waits for its own warp only.
__global__ void next_warp(bool with_barrier, const int* in, int* out) {
  int* values = dynamic_shared<int>();
  values[threadIdx.x] = 0;
  __syncthreads();
  values[threadIdx.x] = in[threadIdx.x];
  if (with_barrier) __syncthreads();
  __syncwarp();
  out[threadIdx.x] = values[(threadIdx.x + 32) % blockDim.x];
}

TEST_CASE("simt: a barrier of a warp does not hide that one of the block is missing", "[simt]") {
  constexpr int kThreads = 96;
  const std::vector<int> ones(kThreads, 1);
  const simt::ThreadOrderScope scope(simt::ThreadOrder::reversed);
  for (const bool with_barrier : {false, true}) {
    std::vector<int> out(kThreads, -1);
    launch(next_warp, {1, kThreads, sizeof(int) * kThreads}, stream(), with_barrier, ones.data(), out.data());
    CHECK((out == ones) == with_barrier);
  }
}

// ---- two threads of the host ----

__global__ void through_shared(int value, int* out) {
  __shared__ int values[64];
  values[threadIdx.x] = value;
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = values[blockDim.x - 1 - threadIdx.x];
}

TEST_CASE("simt: threads of the host launch at the same time, each with its own shared memory", "[simt]") {
  constexpr int kBlocks = 20, kThreads = 64, kLaunches = 200, kHostThreads = 3;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> host;
  for (int value = 1; value <= kHostThreads; ++value) {
    host.emplace_back([&wrong, value] {
      const std::vector<int> expected(kBlocks * kThreads, value);
      for (int i = 0; i < kLaunches; ++i) {
        std::vector<int> out(kBlocks * kThreads);
        launch(through_shared, {kBlocks, kThreads}, stream(), value, out.data());
        wrong += out != expected;
      }
    });
  }
  for (std::thread& each : host) each.join();
  CHECK(wrong == 0);
}

__global__ void record_order(int* order, int* count) {
  order[(*count)++] = static_cast<int>(threadIdx.x);
  __syncthreads();
  order[(*count)++] = static_cast<int>(threadIdx.x);
}

TEST_CASE("simt: threads take their turns in the order asked for, before and after a barrier", "[simt]") {
  const auto order_of = [](simt::ThreadOrder order, std::uint64_t seed) {
    const simt::ThreadOrderScope scope(order, seed);
    std::vector<int> turns(8, -1);
    int count = 0;
    launch(record_order, {1, 4}, stream(), turns.data(), &count);
    return turns;
  };
  using simt::ThreadOrder;
  CHECK(order_of(ThreadOrder::forward, 0) == std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3});
  CHECK(order_of(ThreadOrder::reversed, 0) == std::vector<int>{3, 2, 1, 0, 3, 2, 1, 0});
  const std::vector<int> shuffled = order_of(ThreadOrder::shuffled, 1);
  CHECK(std::is_permutation(shuffled.begin(), shuffled.begin() + 4, std::vector<int>{0, 1, 2, 3}.begin()));
  CHECK(std::equal(shuffled.begin(), shuffled.begin() + 4, shuffled.begin() + 4));
  CHECK(order_of(ThreadOrder::shuffled, 1) == shuffled);
}

// ---- exceptions ----

struct CountsItself {
  explicit CountsItself(int* count) : count_(count) { __atomic_fetch_add(count_, 1, __ATOMIC_RELAXED); }
  ~CountsItself() { __atomic_fetch_add(count_, -1, __ATOMIC_RELAXED); }
  int* count_;
};

__global__ void throws_between_barriers(unsigned thrower, int* alive, int* max_alive) {
  const CountsItself self(alive);
  __syncthreads();
  *max_alive = *alive;
  if (threadIdx.x == thrower) throw std::out_of_range("planted");
  __syncthreads();
}

TEST_CASE("simt: an exception unwinds the waiting threads and comes out of launch", "[simt]") {
  for_each_thread_order([] {
    for (const unsigned thrower : {0u, 17u, 63u}) {
      int alive = 0, max_alive = 0;
      CHECK_THROWS_AS(launch(throws_between_barriers, {1, 64}, stream(), thrower, &alive, &max_alive),
                      std::out_of_range);
      CHECK(max_alive == 64);
      CHECK(alive == 0);
      alive = 0;
      CHECK_NOTHROW(launch(throws_between_barriers, {1, 64}, stream(), 64u, &alive, &max_alive));
      CHECK(alive == 0);
    }
  });
}

__global__ void throws_block_number() {
  if (blockIdx.x >= 3) throw std::out_of_range(std::to_string(blockIdx.x));
}

TEST_CASE("simt: the error of a launch is that of the first block that fails", "[simt]") {
  for (int run = 0; run < 20; ++run) CHECK_THROWS_WITH(launch(throws_block_number, {1000, 4}, stream()), "3");
}

__global__ void launches() {
  launch(throws_block_number, {1, 1}, stream());
}

TEST_CASE("simt: launches that are refused", "[simt]") {
  CHECK_THAT(error_of([] {
               launch(throws_block_number, {1, {33, 32}}, stream());
             }),
             ContainsSubstring("33 x 32 x 1") && ContainsSubstring("1024"));
  CHECK_THAT(error_of([] {
               launch(throws_block_number, {{1, 65536}, 1}, stream());
             }),
             ContainsSubstring("1 x 65536 x 1") && ContainsSubstring("65535"));
  CHECK_THAT(error_of([] { launch(launches, {1, 1}, stream()); }), ContainsSubstring("inside a kernel"));
}

// ---- memory ----

// Not inlined and not a tail call, so that every level takes its kilobyte of stack.
__attribute__((noinline)) int recurse(int depth) {
  volatile char frame[1024];
  frame[0] = static_cast<char>(depth);
  return depth == 0 ? frame[0] : recurse(depth - 1) + frame[0];
}

__global__ void recurses(int depth, int* out) {
  __syncthreads();
  *out = recurse(depth);
}

TEST_CASE("simt: a thread that overflows its stack meets the guard page", "[simt]") {
  int out = 0;
  launch(recurses, {1, 4}, stream(), 20, &out);
  const auto ending = run_in_child([&] { launch(recurses, {1, 4}, stream(), 10000, &out); });
  CHECK((ending.by_signal && ending.code == SIGSEGV));
}

#if defined(RINGTAPE_CHECK)

// The index arrives as an argument so that the compiler cannot know it.
__global__ void static_array(int index, float* out) {
  __shared__ float values[24];
  values[index] = 1;
  *out = values[0];
}

// The compiler does not know the size of the array, so only AddressSanitizer detects the overflow.
__attribute__((noipa)) void write_at(float* values, int index) {
  values[index] = 1;
}

__global__ void static_memory(int index, float* out) {
  __shared__ float values[24];
  write_at(values, index);
  *out = values[0];
}

__global__ void dynamic_memory(int index, float* out) {
  dynamic_shared<float>()[index] = 1;
  *out = dynamic_shared<float>()[0];
}

TEST_CASE("simt: check builds find a planted overflow of shared memory", "[simt]") {
  float out = 0;
  const LaunchShape shape{1, 32, 24 * sizeof(float)};
  for (const auto kernel : {static_array, static_memory, dynamic_memory}) {
    CHECK(run_in_child([&] { launch(kernel, shape, stream(), 23, &out); }).code == 0);
  }
  const auto of_array = run_in_child([&] { launch(static_array, shape, stream(), 24, &out); });
  CHECK_THAT(of_array.text, ContainsSubstring("out of bounds"));
#if defined(__SANITIZE_ADDRESS__)
  const auto of_static = run_in_child([&] { launch(static_memory, shape, stream(), 24, &out); });
  CHECK_THAT(of_static.text, ContainsSubstring("global-buffer-overflow"));
  const auto of_dynamic = run_in_child([&] { launch(dynamic_memory, shape, stream(), 24, &out); });
  CHECK_THAT(of_dynamic.text, ContainsSubstring("heap-buffer-overflow"));
#else
  WARN("skipped: overflows through a pointer are found by builds with AddressSanitizer");
#endif
}

__global__ void reads_first(float* out) {
  __shared__ float fixed[4];
  float* dynamic = dynamic_shared<float>();
  out[2 * blockIdx.x] = fixed[threadIdx.x];
  out[2 * blockIdx.x + 1] = dynamic[threadIdx.x];
  fixed[threadIdx.x] = dynamic[threadIdx.x] = 1;
}

TEST_CASE("simt: check builds give every block shared memory full of NaN", "[simt]") {
  std::vector<float> out(6, 0.0f);
  launch(reads_first, {3, 1, sizeof(float)}, stream(), out.data());
  for (const float value : out) CHECK(std::isnan(value));
}

#endif

}  // namespace
}  // namespace ringtape::on_cpu
