// cudaLaunchHostFunc: CUDA Runtime API reference, "Execution Control".
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/gpu_model/support.h"

namespace gpu_model::test {
namespace {

/// Queues `body`, which must outlive its call.
void call_in(cudaStream_t stream, std::function<void()>& body) {
  const auto call = [](void* function) { (*static_cast<std::function<void()>*>(function))(); };
  REQUIRE(cudaLaunchHostFunc(stream, call, &body) == cudaSuccess);
}

/// Waits for the flag; false after 10 seconds.
bool comes(const std::atomic<bool>& flag) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!flag && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return flag;
}

TEST_CASE("a host function runs in stream order") {
  for_each_schedule([] {
    const OwnStream stream;
    std::string seen;
    std::function<void()> append = [&] { seen += 'h'; };
    REQUIRE(launch_on(stream, [&] { seen += 'a'; }) == cudaSuccess);
    call_in(stream, append);
    REQUIRE(launch_on(stream, [&] { seen += 'b'; }) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(seen == "ahb");
  });
}

TEST_CASE("a host function uses pinned memory of copies before and after it") {
  for_each_schedule([] {
    const OwnStream stream;
    const DeviceInts x, y;
    const PinnedInts buffer;
    std::function<void()> add_one = [&] { ++*buffer.get(); };
    REQUIRE(cudaMemsetAsync(x.get(), 1, sizeof(int), stream) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(buffer.get(), x.get(), sizeof(int), cudaMemcpyDefault, stream) == cudaSuccess);
    call_in(stream, add_one);
    REQUIRE(cudaMemcpyAsync(y.get(), buffer.get(), sizeof(int), cudaMemcpyDefault, stream) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(value_of(y.get()) == 0x01010102);
  });
}

TEST_CASE("dies: a host function uses the buffer of a copy in another stream", "[.]") {
  const OwnStream a, b;
  const DeviceInts x;
  const PinnedInts buffer;
  std::function<void()> add_one = [&] { ++*buffer.get(); };
  REQUIRE(cudaMemcpyAsync(buffer.get(), x.get(), sizeof(int), cudaMemcpyDefault, a) == cudaSuccess);
  call_in(b, add_one);
  REQUIRE(cudaStreamSynchronize(b) == cudaSuccess);
}
TEST_CASE("dies: the host writes a buffer while a host function may", "[.]") {
  const OwnStream stream;
  const DeviceInts x;
  const PinnedInts buffer;
  std::function<void()> nothing = [] {};
  call_in(stream, nothing);
  REQUIRE(cudaMemcpyAsync(x.get(), buffer.get(), sizeof(int), cudaMemcpyDefault, stream) == cudaSuccess);
  *buffer.get() = 1;
}
TEST_CASE("dies: a host function reads device memory", "[.]") {
  const OwnStream stream;
  const DeviceInts x;
  std::function<void()> print = [&] { std::printf("%d\n", *static_cast<volatile int*>(x.get())); };
  call_in(stream, print);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
}
TEST_CASE("an access that a host function may not make ends the process, under every schedule") {
  for (const char* schedule : {"order", "late", "early", "random:1"}) {
    INFO(schedule);
    const std::string variable = std::string("RINGTAPE_MODEL_SCHEDULE=") + schedule;
    const Ending pinned =
        ending_of("dies: a host function uses the buffer of a copy in another stream", variable);
    CHECK(pinned.aborted);
    CHECK_THAT(pinned.text, ContainsSubstring("pinned memory that a copy on stream 1 writes"));
    const Ending host = ending_of("dies: the host writes a buffer while a host function may", variable);
    CHECK(host.aborted);
    CHECK_THAT(host.text, ContainsSubstring("host code writes pinned memory that a copy on stream 1 reads"));
    const Ending device = ending_of("dies: a host function reads device memory", variable);
    CHECK(device.aborted);
    CHECK_THAT(device.text,
               ContainsSubstring("host code reads memory of device 0: 0 bytes into allocation #1"));
  }
}

TEST_CASE("a host function may not call CUDA: each call is an error, and reported") {
  static std::string reported;
  reported.clear();
  const ReportHandler previous = set_report_handler([](const std::string& text) { reported += text + "\n"; });
  const OwnStream stream, other;
  cudaError_t allocation = cudaSuccess, kernel = cudaSuccess, query = cudaSuccess;
  std::function<void()> calls = [&] {
    void* memory = nullptr;
    allocation = cudaMalloc(&memory, 4);
    kernel = launch_on(other, [] {});
    int device = 0;
    query = cudaGetDevice(&device);
  };
  call_in(stream, calls);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  set_report_handler(previous);
  CHECK(allocation == cudaErrorNotPermitted);
  CHECK(kernel == cudaErrorNotPermitted);
  CHECK(query == cudaErrorNotPermitted);
  CHECK_THAT(reported, ContainsSubstring("cudaLaunchHostFunc (queued in") &&
                           ContainsSubstring("host_function_test.cpp") &&
                           ContainsSubstring("calls a CUDA function"));
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);  // the program's own calls still succeed
}

TEST_CASE("a host function may wait for another thread, which calls CUDA meanwhile") {
  for_each_schedule([] {
    const OwnStream stream;
    std::atomic<bool> flag = false;
    bool came = false;
    std::function<void()> waits = [&] { came = comes(flag); };
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      int device = 0;
      cudaGetDevice(&device);
      flag = true;
    });
    call_in(stream, waits);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    other.join();
    CHECK(came);
  });
}

TEST_CASE("a host function may wait for the thread that queued it; other work runs meanwhile") {
  for_each_schedule([] {
    const OwnStream stream, other;
    const DeviceInts x;
    const PinnedInts buffer;
    std::atomic<bool> flag = false;
    bool came = false;
    std::function<void()> waits = [&] {
      came = comes(flag);
      *buffer.get() = 7;
    };
    call_in(stream, waits);
    REQUIRE(cudaMemcpyAsync(x.get(), buffer.get(), sizeof(int), cudaMemcpyDefault, stream) == cudaSuccess);
    bool has_run = false;
    REQUIRE(launch_on(other, [&] { has_run = true; }) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(other) == cudaSuccess);
    CHECK(has_run);
    flag = true;
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(came);
    CHECK(value_of(x.get()) == 7);
  });
}

TEST_CASE("a host function at the end of a stream tells the host that the stream is done") {
  for_each_schedule([] {
    const OwnStream stream;
    const DeviceInts x;
    const PinnedInts out;
    std::mutex mutex;
    std::condition_variable changed;
    bool is_done = false;
    std::function<void()> tell = [&] {
      const std::lock_guard lock(mutex);
      is_done = true;
      changed.notify_one();
    };
    REQUIRE(cudaMemsetAsync(x.get(), 1, sizeof(int), stream) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(out.get(), x.get(), sizeof(int), cudaMemcpyDefault, stream) == cudaSuccess);
    call_in(stream, tell);
    {
      std::unique_lock lock(mutex);
      CHECK(changed.wait_for(lock, std::chrono::seconds(10), [&] { return is_done; }));
    }
    CHECK(*out.get() == 0x01010101);
  });
}

}  // namespace
}  // namespace gpu_model::test
