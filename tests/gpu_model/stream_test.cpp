// Streams and events: CUDA Runtime API reference, "Stream Management", "Event Management", "Stream
// synchronization behavior" and "API synchronization behavior"; CUDA C++ Programming Guide, "Multi-Device
// System".
#include <cstring>
#include <map>
#include <thread>

#include "tests/gpu_model/support.h"

namespace gpu_model::test {
namespace {

/// Writes `value` to device memory, in a stream.
void set(cudaStream_t stream, int* to, int value) {
  REQUIRE(launch_on(stream, [=] { *to = value; }) == cudaSuccess);
}

TEST_CASE("work of one stream runs in its order, under every schedule") {
  for_each_schedule([] {
    const OwnStream stream;
    std::vector<int> seen;
    for (int i = 0; i < 20; ++i) REQUIRE(launch_on(stream, [&seen, i] { seen.push_back(i); }) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    std::vector<int> expected(20);
    for (int i = 0; i < 20; ++i) expected[i] = i;
    CHECK(seen == expected);
  });
}

/// The order in which four operations of each of two streams run, as the digits 1 and 2.
std::string order_of_two_streams() {
  const OwnStream a, b;
  std::string seen;
  for (int i = 0; i < 4; ++i) {
    REQUIRE(launch_on(a, [&seen] { seen += '1'; }) == cudaSuccess);
    REQUIRE(launch_on(b, [&seen] { seen += '2'; }) == cudaSuccess);
  }
  REQUIRE(cudaStreamSynchronize(b) == cudaSuccess);
  seen += '|';
  REQUIRE(cudaStreamSynchronize(a) == cudaSuccess);
  return seen;
}

TEST_CASE("the schedules differ where streams do not wait for each other") {
  const auto under = [](Schedule schedule, std::uint64_t seed = 0) {
    const ScheduleScope scope(schedule, seed);
    return order_of_two_streams();
  };
  CHECK(under(Schedule::order) == "12121212|");
  CHECK(under(Schedule::late) == "2222|1111");  // the stream that nothing waits for runs last
  CHECK(under(Schedule::early) == "22221111|");
}

TEST_CASE("random schedules: a seed is one order, and no order is much more frequent than others") {
  std::map<std::string, int> seeds;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto under_seed = [=] {
      const ScheduleScope scope(Schedule::random, seed);
      return order_of_two_streams();
    };
    const std::string one = under_seed();
    CHECK(one == under_seed());
    ++seeds[one];
  }
  CHECK(seeds.size() > 60);
  for (const auto& [order, count] : seeds) {
    INFO(order);
    CHECK(count <= 12);
  }
}

TEST_CASE("a missing wait shows under the early schedule even if the host waits for the writer first") {
  const auto result = [](Schedule schedule) {
    const ScheduleScope scope(schedule);
    const OwnStream a, b;
    int x = 0, read = 0;
    REQUIRE(launch_on(a, [&] { x = 42; }) == cudaSuccess);
    REQUIRE(launch_on(b, [&] { read = x; }) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(a) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(b) == cudaSuccess);
    return read;
  };
  CHECK(result(Schedule::order) == 42);
  CHECK(result(Schedule::late) == 42);
  CHECK(result(Schedule::early) == 0);
}

TEST_CASE("the early schedule: nothing runs before the host waits or queries, then everything") {
  const ScheduleScope scope(Schedule::early);
  const OwnStream a, b;
  std::string seen;
  REQUIRE(launch_on(a, [&] { seen += 'a'; }) == cudaSuccess);
  REQUIRE(launch_on(b, [&] { seen += 'b'; }) == cudaSuccess);
  CHECK(seen.empty());
  CHECK(cudaStreamQuery(a) == cudaSuccess);
  CHECK(seen == "ba");
}

TEST_CASE("dies: uses a GPU", "[.]") {
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}
TEST_CASE("an unknown schedule is refused, and the error names the known ones") {
  for (const char* schedule : {"latest", "random", "random:", "random:-1", "random:+1", "random: 1",
                               "random:1x", "random:1e3", "random:18446744073709551616"}) {
    const std::string text =
        ending_of("dies: uses a GPU", std::string("'RINGTAPE_MODEL_SCHEDULE=") + schedule + "'").text;
    INFO(text);
    CHECK(text.ends_with(std::string("gpu model: RINGTAPE_MODEL_SCHEDULE=") + schedule +
                         ": expected order, late, early or random:SEED\n"));
  }
  CHECK_THAT(ending_of("dies: uses a GPU", "RINGTAPE_MODEL_SCHEDULE=random:18446744073709551615").text,
             ContainsSubstring("All tests passed"));
}

TEST_CASE("a missing wait between streams shows under the late schedule, and never with an event") {
  const auto result = [](bool waits) {
    const OwnStream a, b;
    const OwnEvent written;
    const DeviceInts x;
    const PinnedInts out;
    REQUIRE(cudaMemset(x.get(), 0, sizeof(int)) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    set(a, x.get(), 42);
    REQUIRE(cudaEventRecord(written, a) == cudaSuccess);
    if (waits) REQUIRE(cudaStreamWaitEvent(b, written) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(out.get(), x.get(), sizeof(int), cudaMemcpyDefault, b) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(b) == cudaSuccess);
    return *out.get();
  };
  for_each_schedule([&] { CHECK(result(true) == 42); });
  const ScheduleScope scope(Schedule::late);
  CHECK(result(false) == 0);
}

TEST_CASE("an event refers to its last record, and a wait to the last record before it") {
  for_each_schedule([] {
    const OwnStream a, b;
    const OwnEvent event;
    std::string seen;
    CHECK(cudaStreamWaitEvent(b, event) == cudaSuccess);  // never recorded: no work to wait for
    REQUIRE(launch_on(a, [&] { seen += 'x'; }) == cudaSuccess);
    REQUIRE(cudaEventRecord(event, a) == cudaSuccess);
    REQUIRE(launch_on(a, [&] { seen += 'y'; }) == cudaSuccess);
    REQUIRE(cudaEventRecord(event, a) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(b, event) == cudaSuccess);
    REQUIRE(cudaEventRecord(event, b) == cudaSuccess);  // what b waits for stays the same
    REQUIRE(launch_on(b, [&] { seen += 'z'; }) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(b) == cudaSuccess);
    CHECK(seen == "xyz");
  });
}

TEST_CASE("the late schedule lets two queries find that work is not ready") {
  const ScheduleScope scope(Schedule::late);
  const OwnStream stream;
  const OwnEvent event;
  CHECK(cudaEventQuery(event) == cudaSuccess);
  bool has_run = false;
  REQUIRE(launch_on(stream, [&] { has_run = true; }) == cudaSuccess);
  REQUIRE(cudaEventRecord(event, stream) == cudaSuccess);
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  CHECK(cudaGetLastError() == cudaErrorNotReady);  // until it is read
  CHECK_FALSE(has_run);
  CHECK(cudaEventQuery(event) == cudaSuccess);
  CHECK(has_run);
}

TEST_CASE("times between events: both must be recorded, complete, and have timing enabled") {
  const ScheduleScope scope(Schedule::late);
  const OwnStream stream;
  const OwnEvent start, end;
  cudaEvent_t without;
  REQUIRE(cudaEventCreateWithFlags(&without, cudaEventDisableTiming) == cudaSuccess);
  float milliseconds = -1;
  REQUIRE(cudaEventRecord(start, stream) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&milliseconds, start, end) == cudaErrorInvalidResourceHandle);
  REQUIRE(cudaEventRecord(end, stream) == cudaSuccess);
  REQUIRE(cudaEventRecord(without, stream) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&milliseconds, start, end) == cudaErrorNotReady);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&milliseconds, start, end) == cudaSuccess);
  CHECK(milliseconds >= 0);
  CHECK(cudaEventElapsedTime(&milliseconds, start, without) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventDestroy(without) == cudaSuccess);
  CHECK(cudaEventDestroy(without) == cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

TEST_CASE("the legacy default stream waits for blocking streams and they for it; others do not") {
  const ScheduleScope scope(Schedule::late);
  const OwnStream blocking(cudaStreamDefault), other;
  std::string seen;
  REQUIRE(launch_on(blocking, [&] { seen += 'a'; }) == cudaSuccess);
  REQUIRE(launch_on(other, [&] { seen += 'o'; }) == cudaSuccess);
  REQUIRE(launch_on(nullptr, [&] { seen += 'd'; }) == cudaSuccess);
  REQUIRE(launch_on(blocking, [&] { seen += 'b'; }) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(blocking) == cudaSuccess);
  CHECK(seen == "adb");
  REQUIRE(launch_on(cudaStreamPerThread, [&] { seen += 't'; }) == cudaSuccess);
  REQUIRE(launch_on(nullptr, [&] { seen += 'e'; }) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(cudaStreamLegacy) == cudaSuccess);
  CHECK(seen == "adbte");
  REQUIRE(cudaStreamSynchronize(other) == cudaSuccess);
}

/// Fills `x` with ones and copies it to `out`, in a blocking stream.
void fill_and_copy(cudaStream_t stream, const DeviceInts& x, const PinnedInts& out) {
  REQUIRE(cudaMemsetAsync(x.get(), 1, sizeof(int), stream) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(out.get(), x.get(), sizeof(int), cudaMemcpyDefault, stream) == cudaSuccess);
}

TEST_CASE("the host waits for blocking streams with the legacy default stream") {
  for_each_schedule([] {
    const OwnStream blocking(cudaStreamDefault);
    const DeviceInts x;
    const PinnedInts out;
    fill_and_copy(blocking, x, out);
    REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
    CHECK(*out.get() == 0x01010101);
    fill_and_copy(blocking, x, out);
    while (cudaStreamQuery(nullptr) == cudaErrorNotReady) {
    }
    CHECK(*out.get() == 0x01010101);
  });
}

TEST_CASE("the legacy default stream waits for a blocking stream that was destroyed") {
  const int before = reports();
  for_each_schedule([] {
    const DeviceInts x;
    const PinnedInts out;
    REQUIRE(cudaMemset(x.get(), 0, sizeof(int)) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    {
      const OwnStream blocking(cudaStreamDefault);
      REQUIRE(cudaMemsetAsync(x.get(), 1, sizeof(int), blocking) == cudaSuccess);
    }
    int value = 0;
    REQUIRE(cudaMemcpy(&value, x.get(), sizeof value, cudaMemcpyDefault) == cudaSuccess);
    CHECK(value == 0x01010101);
    {
      const OwnStream blocking(cudaStreamDefault);
      fill_and_copy(blocking, x, out);
    }
    REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
    CHECK(*out.get() == 0x01010101);
  });
  CHECK(reports() == before);
}

TEST_CASE("dies: the legacy default stream does not wait for a non-blocking stream", "[.]") {
  const DeviceInts x;
  const PinnedInts out;
  {
    const OwnStream other;
    fill_and_copy(other, x, out);
  }
  REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
  std::printf("%d\n", *static_cast<volatile int*>(out.get()));
}
TEST_CASE("a destroyed stream that is non-blocking stays so") {
  const Ending ending = ending_of("dies: the legacy default stream does not wait for a non-blocking stream");
  CHECK(ending.aborted);
  CHECK_THAT(ending.text, ContainsSubstring("host code reads pinned memory that a copy on stream 1 writes"));
}

TEST_CASE(
    "cudaDeviceSynchronize waits for all streams of the current device, also for one that was destroyed") {
  const ScheduleScope scope(Schedule::late);
  int done = 0;
  {
    const OwnStream a, b;
    REQUIRE(launch_on(a, [&] { ++done; }) == cudaSuccess);
    REQUIRE(launch_on(b, [&] { ++done; }) == cudaSuccess);
  }
  CHECK(done == 0);  // cudaStreamDestroy returns at once
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(done == 2);
}

TEST_CASE("a launch in a stream of a device that is not current fails; a copy, a wait and a query do not") {
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  const OwnStream here;
  const OwnEvent event;
  const DeviceInts x;
  const int value = 3;
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  CHECK(launch_on(here, [] {}) == cudaErrorInvalidResourceHandle);
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  CHECK(cudaMemcpyAsync(x.get(), &value, sizeof value, cudaMemcpyDefault, here) == cudaSuccess);
  CHECK(cudaEventRecord(event, here) == cudaSuccess);
  {
    const OwnStream there;
    const OwnEvent of_there;
    CHECK(cudaEventRecord(of_there, here) == cudaErrorInvalidResourceHandle);
    CHECK(cudaStreamWaitEvent(there, event) == cudaSuccess);
    CHECK(cudaStreamSynchronize(there) == cudaSuccess);
    CHECK(cudaEventQuery(event) == cudaSuccess);
  }
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  CHECK(value_of(x.get()) == 3);
  CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
  cudaGetLastError();
}

TEST_CASE("the current device belongs to the thread") {
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  int of_other = -1;
  std::thread([&] { cudaGetDevice(&of_other); }).join();
  CHECK(of_other == 0);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
}

TEST_CASE(
    "pageable memory: cudaMemcpyAsync may read it later, cudaMemcpy does not; a copy to it has finished") {
  const ScheduleScope scope(Schedule::late);
  const DeviceInts x;
  int in = 5, out = 0;
  REQUIRE(cudaMemcpyAsync(x.get(), &in, sizeof in, cudaMemcpyDefault) == cudaSuccess);
  in = 6;
  REQUIRE(cudaMemcpyAsync(&out, x.get(), sizeof out, cudaMemcpyDefault) == cudaSuccess);
  CHECK(out == 6);
  REQUIRE(cudaMemcpy(x.get(), &in, sizeof in, cudaMemcpyDefault) == cudaSuccess);
  in = 7;
  REQUIRE(cudaMemcpyAsync(&out, x.get(), sizeof out, cudaMemcpyDefault) == cudaSuccess);
  CHECK(out == 6);
}

TEST_CASE("cudaMemcpy from pageable memory waits for the stream first") {
  for_each_schedule([] {
    const DeviceInts x, y;
    const PinnedInts out;
    REQUIRE(cudaMemset(x.get(), 1, sizeof(int)) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(out.get(), x.get(), sizeof(int), cudaMemcpyDefault) == cudaSuccess);
    const int value = 5;
    REQUIRE(cudaMemcpy(y.get(), &value, sizeof value, cudaMemcpyDefault) == cudaSuccess);
    CHECK(*out.get() == 0x01010101);
  });
}

TEST_CASE("cudaMemset of pinned memory has finished; of device memory, it may not have") {
  for_each_schedule([] {
    const PinnedInts buffer;
    REQUIRE(cudaMemset(buffer.get(), 1, sizeof(int)) == cudaSuccess);
    CHECK(*buffer.get() == 0x01010101);
  });
  const ScheduleScope scope(Schedule::late);
  const DeviceInts x;
  REQUIRE(cudaMemset(x.get(), 1, sizeof(int)) == cudaSuccess);
  CHECK(value_of(x.get()) != 0x01010101);
}

TEST_CASE("pinned memory: a copy reads it when its turn comes") {
  const ScheduleScope scope(Schedule::late);
  const OwnStream stream;
  const DeviceInts x;
  const PinnedInts in, out;
  *in.get() = 5;
  REQUIRE(cudaMemcpyAsync(x.get(), in.get(), sizeof(int), cudaMemcpyDefault, stream) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(out.get(), x.get(), sizeof(int), cudaMemcpyDefault, stream) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(*out.get() == 5);
  *in.get() = 6;  // allowed again
  // cudaMemcpy has finished for the host.
  REQUIRE(cudaMemcpy(x.get(), in.get(), sizeof(int), cudaMemcpyDefault) == cudaSuccess);
  *in.get() = 7;
  CHECK(value_of(x.get()) == 6);
}

TEST_CASE("a copy within the device does not make the host wait") {
  const ScheduleScope scope(Schedule::late);
  const DeviceInts x, y;
  REQUIRE(cudaMemset(x.get(), 1, sizeof(int)) == cudaSuccess);
  REQUIRE(cudaMemcpy(y.get(), x.get(), sizeof(int), cudaMemcpyDeviceToDevice) == cudaSuccess);
  CHECK(value_of(y.get()) != 0x01010101);
  REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
  CHECK(value_of(y.get()) == 0x01010101);
}

TEST_CASE("a destroyed handle is cudaErrorInvalidResourceHandle") {
  cudaStream_t gone;
  REQUIRE(cudaStreamCreate(&gone) == cudaSuccess);
  REQUIRE(cudaStreamDestroy(gone) == cudaSuccess);
  CHECK(cudaStreamDestroy(gone) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamSynchronize(gone) == cudaErrorInvalidResourceHandle);
  CHECK(launch_on(gone, [] {}) == cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

}  // namespace
}  // namespace gpu_model::test
