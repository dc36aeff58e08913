// Device memory: CUDA Runtime API reference, "Memory Management" and "Stream Ordered Memory Allocator".
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/gpu_model/support.h"

namespace gpu_model::test {
namespace {

void* allocate_on(cudaStream_t stream, std::size_t bytes) {
  void* memory = nullptr;
  REQUIRE(cudaMallocAsync(&memory, bytes, stream) == cudaSuccess);
  return memory;
}

TEST_CASE("fresh and freed memory is NaN in every floating type") {
  const ScheduleScope scope(Schedule::order);
  const OwnStream stream;
  float values[4];
  void* const memory = allocate_on(stream, sizeof values);
  const auto check_is_nan = [&] {
    peek(values, memory, sizeof values);
    for (const float value : values) CHECK(std::isnan(value));
    double doubles[2];
    std::uint16_t halves[8];
    std::memcpy(doubles, values, sizeof values);
    std::memcpy(halves, values, sizeof values);
    for (const double value : doubles) CHECK(std::isnan(value));
    for (const int bits : halves) {
      CHECK((bits & 0x7fff) > 0x7c00);  // of f16: beyond infinity
      CHECK((bits & 0x7fff) > 0x7f80);  // of bf16
    }
  };
  check_is_nan();
  REQUIRE(cudaMemsetAsync(memory, 0, sizeof values, stream) == cudaSuccess);
  peek(values, memory, sizeof values);
  for (const float value : values) CHECK(value == 0);
  REQUIRE(cudaFreeAsync(memory, stream) == cudaSuccess);
  check_is_nan();
}

TEST_CASE("a double free, or a free of another address, is cudaErrorInvalidValue, and not sticky") {
  const OwnStream stream;
  char* const memory = static_cast<char*>(allocate_on(stream, 4096));
  CHECK(cudaFreeAsync(memory + 512, stream) == cudaErrorInvalidValue);
  CHECK(cudaFreeAsync(memory, stream) == cudaSuccess);
  CHECK(cudaFreeAsync(memory, stream) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaSuccess);
  int on_host = 0;
  CHECK(cudaFree(&on_host) == cudaErrorInvalidValue);
  CHECK(cudaFree(nullptr) == cudaSuccess);
  CHECK(cudaFreeHost(&on_host) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("a free in a stream of another device is refused") {
  const OwnStream here;
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  {
    const OwnStream there;
    void* const memory = allocate_on(there, 512);  // of the stream's device
    cudaPointerAttributes attributes;
    REQUIRE(cudaPointerGetAttributes(&attributes, memory) == cudaSuccess);
    CHECK(attributes.type == cudaMemoryTypeDevice);
    CHECK(attributes.device == 1);
    CHECK(cudaFreeAsync(memory, here) == cudaErrorInvalidValue);
    CHECK(cudaFreeAsync(memory, there) == cudaSuccess);
  }
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("more memory than the device has is cudaErrorMemoryAllocation, and the next request succeeds") {
  const OwnStream stream;
  std::size_t free = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  CHECK(total == std::size_t{80} << 30);
  void* memory = &free;
  CHECK(cudaMallocAsync(&memory, total + 1, stream) == cudaErrorMemoryAllocation);
  CHECK(memory == nullptr);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&memory, std::numeric_limits<std::size_t>::max() - 1000) == cudaErrorMemoryAllocation);
  cudaGetLastError();
  memory = allocate_on(stream, 512);
  CHECK(cudaFreeAsync(memory, stream) == cudaSuccess);
}

TEST_CASE("the allocation that is selected to fail fails") {
  const OwnStream stream;
  fail_allocation(2);
  void* first = nullptr;
  void* second = nullptr;
  CHECK(cudaMallocAsync(&first, 512, stream) == cudaSuccess);
  CHECK(cudaMallocHost(&second, 512) == cudaErrorMemoryAllocation);
  CHECK(cudaMallocHost(&second, 512) == cudaSuccess);
  CHECK(cudaFreeHost(second) == cudaSuccess);
  CHECK(cudaFreeAsync(first, stream) == cudaSuccess);
  cudaStream_t third = nullptr;
  fail_allocation(1);
  CHECK(cudaStreamCreateWithFlags(&third, cudaStreamNonBlocking) == cudaErrorMemoryAllocation);
  cudaGetLastError();
}

TEST_CASE("unfreed memory is listed with the line of its allocation") {
  const OwnStream stream;
  const std::size_t before = live_bytes();
  void* const memory = allocate_on(stream, 1000);
  CHECK(live_bytes() == before + 1000);
  std::string lines;
  for (const std::string& line : live_objects()) lines += line + "\n";
  CHECK_THAT(lines, ContainsSubstring("1000 bytes on device 0, cudaMallocAsync in") &&
                        ContainsSubstring("allocate_on"));
  CHECK(cudaFreeAsync(memory, stream) == cudaSuccess);
  CHECK(live_bytes() == before);
}

TEST_CASE("memory is reused in the order of its stream, and by other streams after an event") {
  for_each_schedule([] {
    const OwnStream a, b;
    const OwnEvent freed;
    void* const memory = allocate_on(a, 4096);
    REQUIRE(cudaFreeAsync(memory, a) == cudaSuccess);
    void* const again = allocate_on(a, 4096);
    CHECK(again == memory);
    REQUIRE(cudaFreeAsync(again, a) == cudaSuccess);
    REQUIRE(cudaEventRecord(freed, a) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(b, freed) == cudaSuccess);
    void* const in_b = allocate_on(b, 4096);
    CHECK(in_b == memory);
    CHECK(cudaFreeAsync(in_b, b) == cudaSuccess);
  });
}

TEST_CASE("memory whose free has not run is not reused by another stream") {
  const ScheduleScope scope(Schedule::late);
  const OwnStream a, b;
  void* const memory = allocate_on(a, 4096);
  REQUIRE(cudaFreeAsync(memory, a) == cudaSuccess);
  void* const in_b = allocate_on(b, 4096);
  CHECK(in_b != memory);
  REQUIRE(cudaFreeAsync(in_b, b) == cudaSuccess);
}

#if !defined(__SANITIZE_ADDRESS__)  // it ends the process at the access
// A free in the wrong stream: the typical bug of stream-ordered allocation.
TEST_CASE("a free before the work that uses the memory changes its result") {
  const DeviceInts keeps_chunk;  // else the memory itself goes back to the system
  const auto result = [](bool orders_free) {
    const ScheduleScope scope(Schedule::late);
    const OwnStream a, b;
    const OwnEvent used;
    const PinnedInts out;
    auto* const memory = static_cast<int*>(allocate_on(a, sizeof(int)));
    REQUIRE(cudaMemsetAsync(memory, 0, sizeof(int), a) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(a) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(out.get(), memory, sizeof(int), cudaMemcpyDefault, b) == cudaSuccess);
    REQUIRE(cudaEventRecord(used, b) == cudaSuccess);
    if (orders_free) REQUIRE(cudaStreamWaitEvent(a, used) == cudaSuccess);
    REQUIRE(cudaFreeAsync(memory, a) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(a) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(b) == cudaSuccess);
    return *out.get();
  };
  CHECK(result(true) == 0);
  const ReportHandler previous =
      set_report_handler([](const std::string&) {});  // tests/gpu_model/races_test.cpp
  CHECK(result(false) != 0);
  set_report_handler(previous);
}
#endif

TEST_CASE("a pool keeps memory up to its release threshold, and releases the rest when the host waits") {
  cudaMemPool_t pool;
  REQUIRE(cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess);
  const auto reserved = [&] {
    std::uint64_t bytes = 0;
    REQUIRE(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &bytes) == cudaSuccess);
    return bytes;
  };
  constexpr std::size_t kLarge = std::size_t{100} << 20;
  std::uint64_t keep = std::numeric_limits<std::uint64_t>::max(), none = 0;
  REQUIRE(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep) == cudaSuccess);
  const OwnStream stream;
  REQUIRE(cudaFreeAsync(allocate_on(stream, kLarge), stream) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(reserved() >= kLarge);
  REQUIRE(cudaMemPoolTrimTo(pool, 0) == cudaSuccess);
  CHECK(reserved() < kLarge);
  REQUIRE(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &none) == cudaSuccess);
  REQUIRE(cudaFreeAsync(allocate_on(stream, kLarge), stream) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(reserved() < kLarge);
}

TEST_CASE("copies between the devices and the host, only within one allocation") {
  for_each_schedule([] {
    const DeviceInts here(4);
    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    const DeviceInts there(4);
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
    const int in[4] = {1, 2, 3, 4};
    int out[4] = {};
    CHECK(cudaMemcpy(here.get(), in, sizeof in, cudaMemcpyHostToDevice) == cudaSuccess);
    CHECK(cudaMemcpy(there.get(), here.get(), sizeof in, cudaMemcpyDefault) == cudaSuccess);
    CHECK(cudaMemcpy(out, there.get(), sizeof in, cudaMemcpyDeviceToHost) == cudaSuccess);
    CHECK(std::memcmp(in, out, sizeof in) == 0);
    CHECK(cudaMemcpy(here.get() + 1, in, sizeof in, cudaMemcpyDefault) == cudaErrorInvalidValue);
    CHECK(cudaMemcpy(here.get(), in, sizeof in, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
    CHECK(cudaMemcpy(here.get(), in, sizeof in, static_cast<cudaMemcpyKind>(6)) ==
          cudaErrorInvalidMemcpyDirection);
    cudaGetLastError();
  });
}

TEST_CASE("a pool's memory is copied to another device by cudaMemcpyPeerAsync alone") {
  const FirstDeviceAfterwards afterwards;
  for_each_schedule([] {
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
    const OwnStream here;
    const int in[4] = {1, 2, 3, 4};
    int out[4] = {};
    void* const x = allocate_on(here, sizeof in);
    REQUIRE(cudaMemcpyAsync(x, in, sizeof in, cudaMemcpyDefault, here) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(here) == cudaSuccess);
    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    {
      const OwnStream there;
      const DeviceInts y(4);
      CHECK(cudaMemcpyAsync(y.get(), x, sizeof in, cudaMemcpyDefault, there) == cudaErrorInvalidValue);
      CHECK(cudaMemcpyAsync(x, y.get(), sizeof in, cudaMemcpyDefault, there) == cudaErrorInvalidValue);
      CHECK(cudaMemcpy(y.get(), x, sizeof in, cudaMemcpyDefault) == cudaErrorInvalidValue);
      CHECK(cudaMemcpy(out, x, sizeof in, cudaMemcpyDefault) == cudaErrorInvalidValue);
      CHECK(cudaMemcpyPeerAsync(y.get(), 0, x, 0, sizeof in, there) == cudaErrorInvalidValue);
      CHECK(cudaMemcpyPeerAsync(y.get(), 1, x, 1, sizeof in, there) == cudaErrorInvalidValue);
      CHECK(cudaMemcpyPeerAsync(y.get(), 1, x, 2, sizeof in, there) == cudaErrorInvalidDevice);
      CHECK(cudaMemcpyPeerAsync(y.get(), 1, in, 0, sizeof in, there) == cudaErrorInvalidValue);
      cudaGetLastError();
      CHECK(cudaMemcpyPeerAsync(y.get(), 1, x, 0, sizeof in, there) == cudaSuccess);
      REQUIRE(cudaStreamSynchronize(there) == cudaSuccess);
      CHECK(cudaMemcpy(out, y.get(), sizeof in, cudaMemcpyDefault) == cudaSuccess);
    }
    CHECK(std::memcmp(in, out, sizeof in) == 0);
    CHECK(cudaFreeAsync(x, here) == cudaSuccess);
  });
}

TEST_CASE("a copy of a pool's memory needs its stream's device to be current, cudaMemcpyPeerAsync does not") {
  const FirstDeviceAfterwards afterwards;
  const OwnStream here;
  const int value = 3;
  void* const x = allocate_on(here, sizeof value);
  void* const y = allocate_on(here, sizeof value);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  CHECK(cudaMemcpyAsync(x, &value, sizeof value, cudaMemcpyDefault, here) == cudaErrorInvalidValue);
  cudaGetLastError();
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  CHECK(cudaMemcpyAsync(x, &value, sizeof value, cudaMemcpyDefault, here) == cudaSuccess);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  CHECK(cudaMemcpyPeerAsync(y, 0, x, 0, sizeof value, here) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(here) == cudaSuccess);
  CHECK(value_of(static_cast<int*>(y)) == 3);
  CHECK(cudaFreeAsync(x, here) == cudaSuccess);
  CHECK(cudaFreeAsync(y, here) == cudaSuccess);
}

TEST_CASE("a free of pinned memory that a copy uses is reported") {
  const ScheduleScope scope(Schedule::late);
  const OwnStream stream;
  const DeviceInts x;
  const auto freed = [&](bool waits) {
    void* buffer = nullptr;
    REQUIRE(cudaMallocHost(&buffer, 64) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(buffer, x.get(), sizeof(int), cudaMemcpyDefault, stream) == cudaSuccess);
    if (waits) REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    return reports_of([&] { CHECK(cudaFreeHost(buffer) == cudaSuccess); });
  };
  CHECK(freed(true).empty());
  CHECK_THAT(freed(false), ContainsSubstring("cudaFreeHost in") && ContainsSubstring("memory_test.cpp") &&
                               ContainsSubstring("frees pinned memory that a copy on stream") &&
                               ContainsSubstring("writes (4 bytes, queued in"));
}

TEST_CASE("freed memory cannot be copied") {
  const OwnStream stream;
  void* const memory = allocate_on(stream, sizeof(int));
  REQUIRE(cudaFreeAsync(memory, stream) == cudaSuccess);
  int out = 0;
  CHECK(cudaMemcpyAsync(&out, memory, sizeof out, cudaMemcpyDefault, stream) == cudaErrorInvalidValue);
  cudaGetLastError();
}

#if !defined(__SANITIZE_ADDRESS__)  // whose shadow memory for 79 GiB is 10 GiB
TEST_CASE("nearly all of the device's memory can be allocated, and then a little more cannot") {
  const std::size_t large = std::size_t{79} << 30;
  void* memory = nullptr;
  void* more = nullptr;
  for (int time = 0; time < 2; ++time) {
    REQUIRE(cudaMalloc(&memory, large) == cudaSuccess);
    CHECK(cudaMalloc(&more, std::size_t{2} << 30) == cudaErrorMemoryAllocation);
    std::size_t free = 0, total = 0;
    REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
    CHECK(free <= total - large);
    auto* const bytes = static_cast<char*>(memory);
    for (char* const place : {bytes, bytes + large / 2 + 2, bytes + large - sizeof(float)}) {
      float value = 0;
      peek(&value, place, sizeof value);
      CHECK(std::isnan(value));
      REQUIRE(cudaMemset(place, 0, sizeof value) == cudaSuccess);
      REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
      peek(&value, place, sizeof value);
      CHECK(value == 0);
    }
    REQUIRE(cudaFree(memory) == cudaSuccess);
    float freed = 0;
    peek(&freed, bytes, sizeof freed);
    CHECK(std::isnan(freed));
  }
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
}
#endif

TEST_CASE("memory can be allocated and released any number of times") {
  const OwnStream stream;
  for (int i = 0; i < 6000; ++i) {  // each time 32 MiB of addresses: more than twice the device's memory
    void* const memory = allocate_on(stream, 512);
    REQUIRE(cudaFreeAsync(memory, stream) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  }
}

TEST_CASE("a copy whose source and target overlap is reported") {
  const DeviceInts x(8);
  REQUIRE(cudaMemset(x.get(), 0, 8 * sizeof(int)) == cudaSuccess);
  const auto copied = [&](std::size_t to) {
    return reports_of([&] {
      CHECK(cudaMemcpy(x.get() + to, x.get(), 4 * sizeof(int), cudaMemcpyDeviceToDevice) == cudaSuccess);
    });
  };
  CHECK(copied(4).empty());
  CHECK_THAT(copied(3), ContainsSubstring("cudaMemcpy (queued in") && ContainsSubstring("memory_test.cpp") &&
                            ContainsSubstring("its source and its target overlap in 4 bytes"));
  CHECK_THAT(copied(0), ContainsSubstring("overlap in 16 bytes"));
}

}  // namespace
}  // namespace gpu_model::test
