// Accesses that end the process; on a GPU some are errors, others are not detected. Each is a hidden test
// case.
#include <cstring>

#include "tests/gpu_model/support.h"

namespace gpu_model::test {
namespace {

TEST_CASE("dies: host reads device memory", "[.]") {
  const DeviceInts x(256);
  std::printf("%d\n", *static_cast<volatile int*>(x.get() + 3));
}
TEST_CASE("dies: host writes device memory", "[.]") {
  void* memory = nullptr;
  const OwnStream stream;
  REQUIRE(cudaMallocAsync(&memory, 1024, stream) == cudaSuccess);
  const std::vector<char> zeros(1024 + static_cast<std::size_t>(cudaGetLastError()));
  std::memcpy(memory, zeros.data(), zeros.size());  // the access itself is in the C library
}
TEST_CASE("dies: host reads freed device memory", "[.]") {
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 100) == cudaSuccess);
  REQUIRE(cudaFree(memory) == cudaSuccess);
  std::printf("%d\n", *static_cast<volatile int*>(memory));
}

TEST_CASE("an access of host code to device memory ends the process with the allocation's name") {
  const Ending read = ending_of("dies: host reads device memory");
  CHECK(read.aborted);
  CHECK_THAT(
      read.text,
      ContainsSubstring("gpu model: host code reads memory of device 0: 12 bytes into allocation #1 (1024 "
                        "bytes, cudaMalloc in") &&
          ContainsSubstring("fault_test.cpp"));
  const Ending write = ending_of("dies: host writes device memory");
  CHECK(write.aborted);
  CHECK_THAT(write.text, ContainsSubstring("host code writes memory of device 0: ") &&
                             ContainsSubstring(" bytes into allocation #1 (1024 bytes, "
                                               "cudaMallocAsync on stream 1 in"));
  CHECK_THAT(write.text, ContainsSubstring("\n  in gpu_model::test::"));  // the caller of memcpy
  const Ending freed = ending_of("dies: host reads freed device memory");
#if defined(__SANITIZE_ADDRESS__)  // it is first to see an access to freed memory
  CHECK_THAT(freed.text, ContainsSubstring("AddressSanitizer: use-after-poison"));
#else
  CHECK(freed.aborted);
  CHECK_THAT(freed.text, ContainsSubstring("0 bytes into what was allocation #1 (100 bytes"));
#endif
}

TEST_CASE("dies: a kernel leaves device memory", "[.]") {
  const DeviceInts x;
  const OwnStream stream;
  launch_on(stream, [p = static_cast<volatile int*>(x.get())] { p[std::size_t{1} << 28] = 1; });
  cudaStreamSynchronize(stream);
}
TEST_CASE("an access of a kernel outside the device's memory is an illegal address") {
  const Ending ending = ending_of("dies: a kernel leaves device memory");
  CHECK(ending.aborted);
  CHECK_THAT(ending.text,
             ContainsSubstring("writes memory of device 0") && ContainsSubstring("an illegal address"));
}

TEST_CASE("dies: a kernel writes memory of another device", "[.]") {
  const DeviceInts x(64);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  const OwnStream stream;
  launch({entry(), {}, {}, 0, stream},
         new Body([p = static_cast<volatile int*>(x.get())] { p[2] = 1; }, {x.get()}));
  cudaStreamSynchronize(stream);
}
TEST_CASE("a kernel cannot reach the memory of another device") {
  const Ending ending = ending_of("dies: a kernel writes memory of another device");
  CHECK(ending.aborted);
  CHECK_THAT(
      ending.text,
      ContainsSubstring("writes memory of device 0: 8 bytes into allocation #1 (256 bytes, cudaMalloc in") &&
          ContainsSubstring("an illegal address for a kernel of device 1"));
}

/// A pinned buffer that a copy to the device reads.
struct Upload {
  OwnStream stream;
  DeviceInts x{16};
  PinnedInts buffer{2048};

  void start() {
    *buffer.get() = 1;
    REQUIRE(cudaMemcpyAsync(x.get(), buffer.get(), 16 * sizeof(int), cudaMemcpyDefault, stream) ==
            cudaSuccess);
  }
};

TEST_CASE("dies: a pinned buffer is written before its copy was waited for", "[.]") {
  Upload upload;
  upload.start();
  upload.buffer.get()[1] = 2;
}
TEST_CASE("dies: a pinned buffer is written after a write next to the copied bytes", "[.]") {
  Upload upload;
  upload.start();
  upload.buffer.get()[100] = 3;  // another element on its page
  const OwnEvent any;            // any call of the runtime
  upload.buffer.get()[1] = 2;
}
TEST_CASE("dies: a pinned buffer is read before the copy to it was waited for", "[.]") {
  const OwnStream stream;
  const DeviceInts x(16);
  const PinnedInts buffer(16);
  REQUIRE(cudaMemcpyAsync(buffer.get(), x.get(), 16 * sizeof(int), cudaMemcpyDefault, stream) == cudaSuccess);
  std::printf("%d\n", *static_cast<volatile int*>(buffer.get()));
}

TEST_CASE(
    "using a pinned buffer too early ends the process with the copy's name, whether the copy has run or "
    "not") {
  for (const char* schedule : {"order", "late", "random:1"}) {
    const std::string variable = std::string("RINGTAPE_MODEL_SCHEDULE=") + schedule;
    const Ending write =
        ending_of("dies: a pinned buffer is written before its copy was waited for", variable);
    CHECK(write.aborted);
    CHECK_THAT(
        write.text,
        ContainsSubstring("host code writes pinned memory that a copy on stream 1 reads (64 bytes, queued "
                          "in") &&
            ContainsSubstring("does not wait for the copy"));
    const Ending later =
        ending_of("dies: a pinned buffer is written after a write next to the copied bytes", variable);
    CHECK(later.aborted);
    CHECK_THAT(later.text, ContainsSubstring("host code writes pinned memory that a copy on stream 1 reads"));
    const Ending read =
        ending_of("dies: a pinned buffer is read before the copy to it was waited for", variable);
    CHECK(read.aborted);
    CHECK_THAT(read.text, ContainsSubstring("host code reads pinned memory that a copy on stream 1 writes"));
  }
}

TEST_CASE(
    "a pinned buffer may be read while a copy reads it, and written after any wait that covers the copy") {
  for_each_schedule([] {
    Upload upload;
    upload.start();
    CHECK(*upload.buffer.get() == 1);
    upload.buffer.get()[100] = 3;  // another element on its page
    REQUIRE(cudaStreamSynchronize(upload.stream) == cudaSuccess);
    upload.start();
    const OwnEvent after;
    const OwnStream other;
    REQUIRE(cudaEventRecord(after, upload.stream) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(other, after) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(other) == cudaSuccess);  // which has waited for it
    upload.start();
    while (cudaStreamQuery(upload.stream) == cudaErrorNotReady) {
    }
    upload.buffer.get()[1] = 2;
  });
}

}  // namespace
}  // namespace gpu_model::test
