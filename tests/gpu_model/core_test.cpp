// The core's use of the runtime: streams, events, memory and graphs, without tensors.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/graph.h"
#include "core/memory.h"
#include "core/stream.h"
#include "kernels/common/shared_limit.h"
#include "tests/gpu_model/support.h"

namespace gpu_model::test {
namespace {

using namespace ringtape;

constexpr Device kFirst{DeviceType::cuda, 0}, kSecond{DeviceType::cuda, 1};

/// Queues a fill in the device's current stream.
void fill(const std::shared_ptr<void>& memory, int value, std::size_t bytes, Device device) {
  const auto stream = static_cast<cudaStream_t>(Stream::current(device).native());
  REQUIRE(cudaMemsetAsync(memory.get(), value, bytes, stream) == cudaSuccess);
}
int value_of(const std::shared_ptr<void>& memory) {
  return test::value_of(static_cast<const int*>(memory.get()));
}

TEST_CASE("the limit of a kernel's shared memory only rises") {
  const FirstDeviceAfterwards afterwards;
  const auto limit = [] {
    cudaFuncAttributes attributes;
    REQUIRE(cudaFuncGetAttributes(&attributes, entry()) == cudaSuccess);
    return attributes.maxDynamicSharedSizeBytes;
  };
  const int before = limit();
  REQUIRE(before == 48 * 1024);
  allow_shared_memory(entry(), kFirst, 100 * 1024);
  CHECK(limit() == 100 * 1024);
  // As another thread may do between the first thread's call and its launch.
  allow_shared_memory(entry(), kFirst, 60 * 1024);
  CHECK(limit() == 100 * 1024);
  CHECK_THROWS_WITH(allow_shared_memory(entry(), kFirst, 228 * 1024), ContainsSubstring("any_kernel"));
  CHECK(limit() == 100 * 1024);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  CHECK(limit() == 48 * 1024);
  allow_shared_memory(entry(), kSecond, 60 * 1024);
  CHECK(limit() == 60 * 1024);
}

TEST_CASE("streams: one that cannot be made is made at the next call", "[.]") {
  CHECK_THROWS_WITH(Stream::current(kFirst), ContainsSubstring("cudaStreamCreateWithFlags"));
  CHECK(Stream::current(kFirst).native() != nullptr);
  std::thread([&] { CHECK(Stream::current(kFirst).native() != nullptr); }).join();
}

TEST_CASE("a stream that could not be made is not replaced by the legacy default stream") {
  CHECK_THAT(
      ending_of("streams: one that cannot be made is made at the next call", "RINGTAPE_MODEL_OOM=1").text,
      ContainsSubstring("All tests passed"));
}

TEST_CASE("events: a wait in another thread opens only the context of its device", "[.]") {
  Event event(kSecond);
  event.record(Stream::current(kSecond));
  std::thread([&] { event.synchronize(); }).join();
  CHECK(contexts_opened() == 1);
}

TEST_CASE("a wait for an event is for what it has recorded, and opens no other context") {
  CHECK_THAT(ending_of("events: a wait in another thread opens only the context of its device").text,
             ContainsSubstring("All tests passed"));
  const FirstDeviceAfterwards afterwards;
  for_each_schedule([] {
    const auto x = allocate(kSecond, 16), out = allocate_pinned(16, kSecond);
    fill(x, 1, 16, kSecond);
    copy_bytes_async(out.get(), {}, x.get(), kSecond, 16);
    Event copied(kSecond);
    copied.record(Stream::current(kSecond));
    copied.synchronize();
    CHECK(*static_cast<const int*>(out.get()) == 0x01010101);
  });
}

TEST_CASE("memory is copied between GPUs in the order of both streams") {
  const FirstDeviceAfterwards afterwards;
  for_each_schedule([] {
    const auto x = allocate(kFirst, 16), y = allocate(kSecond, 16);
    const std::string reports = reports_of([&] {
      fill(y, 4, 16, kSecond);
      fill(x, 1, 16, kFirst);
      copy_bytes_async(y.get(), kSecond, x.get(), kFirst, 16);
      fill(x, 2, 16, kFirst);  // the copy has read it
      copy_bytes_async(x.get(), kFirst, y.get(), kSecond, 16);
      fill(y, 3, 16, kSecond);
      Stream::current(kFirst).synchronize();
      Stream::current(kSecond).synchronize();
    });
    CHECK(reports.empty());
    CHECK(value_of(x) == 0x01010101);
    CHECK(value_of(y) == 0x03030303);
  });
}

TEST_CASE("memory that another thread gives up while its stream is captured is freed later") {
  for_each_schedule([] {
    const std::size_t live = live_bytes();
    {
      auto x = allocate(kFirst, 16);
      const auto y = allocate(kFirst, 16);
      const Stream other = Stream::create(kFirst);
      std::vector<GraphNode> nodes;
      const Graph graph(
          kFirst,
          [&] {
            std::thread([&] { x = nullptr; }).join();
            std::thread([&] {
              const StreamScope scope(other);
              const auto of_other = allocate(kFirst, 32);  // whose free need not wait
            }).join();
            fill(y, 1, 16, kFirst);
          },
          &nodes);
      CHECK(nodes.size() == 1);
      graph.launch();
      Stream::current(kFirst).synchronize();
      CHECK(value_of(y) == 0x01010101);
    }
    CHECK(live_bytes() == live);
  });
}

}  // namespace
}  // namespace gpu_model::test
