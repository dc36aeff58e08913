// Unordered accesses, which are found under every schedule.
#include "gpu_model/runtime/engine.h"
#include "tests/gpu_model/support.h"
#include "tests/support/text.h"

#if defined(RINGTAPE_MODEL_EXACT)
#include "autograd/creation.h"
#include "core/stream.h"
#include "kernels/relu.h"
#endif

namespace gpu_model::test {
namespace {

/// A fill in one stream and a copy in another.
void fill_and_copy(bool waits, std::size_t copied_from = 0) {
  const DeviceInts x(2);
  const PinnedInts out;
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  const OwnStream a, b;
  const OwnEvent filled;
  REQUIRE(cudaMemsetAsync(x.get(), 0, sizeof(int), a) == cudaSuccess);
  REQUIRE(cudaEventRecord(filled, a) == cudaSuccess);
  if (waits) REQUIRE(cudaStreamWaitEvent(b, filled) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(out.get(), x.get() + copied_from, sizeof(int), cudaMemcpyDefault, b) ==
          cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("a copy that no event orders after a fill is reported with both and the missing wait") {
  for_each_schedule([] {
    CHECK_THAT(reports_of([] { fill_and_copy(false); }),
               ContainsSubstring("cudaMemcpyAsync on stream") &&
                   ContainsSubstring("is not ordered after cudaMemsetAsync") &&
                   ContainsSubstring("races_test.cpp") &&
                   ContainsSubstring("both touch 4 bytes of allocation #") &&
                   ContainsSubstring("has to wait for an event recorded on stream"));
    CHECK(reports_of([] { fill_and_copy(true); }).empty());
    CHECK(reports_of([] { fill_and_copy(false, 1); }).empty());  // other bytes
  });
}

TEST_CASE("two streams may read the same bytes, and write them after a wait of the host") {
  const DeviceInts x;
  REQUIRE(cudaMemset(x.get(), 0, sizeof(int)) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  const auto found = reports_of([&] {
    const OwnStream a, b;
    const PinnedInts first, second;
    REQUIRE(cudaMemcpyAsync(first.get(), x.get(), sizeof(int), cudaMemcpyDefault, a) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(second.get(), x.get(), sizeof(int), cudaMemcpyDefault, b) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(a) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(b) == cudaSuccess);
    REQUIRE(cudaMemsetAsync(x.get(), 1, sizeof(int), a) == cudaSuccess);
  });
  CHECK(found.empty());
}

/// A kernel in stream b uses memory that stream a allocates and frees.
void borrow(bool waits_before, bool waits_after) {
  const OwnStream a, b;
  const OwnEvent allocated, used;
  void* memory = nullptr;
  REQUIRE(cudaMallocAsync(&memory, 512, a) == cudaSuccess);
  REQUIRE(cudaEventRecord(allocated, a) == cudaSuccess);
  if (waits_before) REQUIRE(cudaStreamWaitEvent(b, allocated) == cudaSuccess);
  REQUIRE(use_in_kernel(b, memory) == cudaSuccess);
  REQUIRE(cudaEventRecord(used, b) == cudaSuccess);
  if (waits_after) REQUIRE(cudaStreamWaitEvent(a, used) == cudaSuccess);
  REQUIRE(cudaFreeAsync(memory, a) == cudaSuccess);
}

TEST_CASE("a kernel may use memory of another stream between its allocation and its free, in order") {
  for_each_schedule([] {
    CHECK(reports_of([] { borrow(true, true); }).empty());
    CHECK_THAT(reports_of([] { borrow(false, true); }),
               ContainsSubstring("any_kernel on stream") &&
                   ContainsSubstring("is not ordered after cudaMallocAsync"));
    CHECK_THAT(reports_of([] { borrow(true, false); }), ContainsSubstring("cudaFreeAsync on stream") &&
                                                            ContainsSubstring("is not ordered after") &&
                                                            ContainsSubstring("any_kernel"));
  });
}

/// Two kernels in two streams each write an int of one allocation.
void write_two(std::size_t first, std::size_t second, bool waits) {
  const DeviceInts x(2048);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  const OwnStream a, b;
  const OwnEvent written;
  const auto write = [&](cudaStream_t stream, int* place) {
    const auto body = [place] { note_access(place, sizeof *place, true), *place = 1; };
    REQUIRE(launch({entry(), {}, {}, 0, stream}, new Body(body, {x.get()})) == cudaSuccess);
  };
  write(a, x.get() + first);
  REQUIRE(cudaEventRecord(written, a) == cudaSuccess);
  if (waits) REQUIRE(cudaStreamWaitEvent(b, written) == cudaSuccess);
  write(b, x.get() + second);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("kernels whose accesses are recorded may work on two parts of an allocation, in any order") {
  const Races previous = set_races(Races::exact);
  for_each_schedule([] {
    CHECK(reports_of([] { write_two(0, 1, false); }).empty());
    CHECK(reports_of([] { write_two(1023, 1024, false); }).empty());
    CHECK(reports_of([] { write_two(5, 5, true); }).empty());
    CHECK_THAT(reports_of([] { write_two(5, 5, false); }),
               ContainsSubstring("any_kernel on stream") &&
                   ContainsSubstring("both touch 4 bytes of allocation #") &&
                   ContainsSubstring("has to wait for an event recorded on stream"));
  });
  set_races(Races::allocations);
  CHECK(reports_of([] { write_two(5, 5, false); }).empty());  // which only the bytes tell
  set_races(previous);
}

TEST_CASE("a copy of what a recorded kernel writes has to wait for it, whichever runs first") {
  const Races previous = set_races(Races::exact);
  for_each_schedule([] {
    const auto found = [](std::size_t copied) {
      return reports_of([&] {
        const DeviceInts x(2);
        const PinnedInts out;
        REQUIRE(cudaMemset(x.get(), 0, 2 * sizeof(int)) == cudaSuccess);
        REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
        const OwnStream a, b;
        const auto body = [place = x.get()] { note_access(place, sizeof *place, true), *place = 1; };
        REQUIRE(launch({entry(), {}, {}, 0, a}, new Body(body, {x.get()})) == cudaSuccess);
        REQUIRE(cudaMemcpyAsync(out.get(), x.get() + copied, sizeof(int), cudaMemcpyDefault, b) ==
                cudaSuccess);
        REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
      });
    };
    CHECK_THAT(found(0), ContainsSubstring("any_kernel on stream") && ContainsSubstring("cudaMemcpyAsync"));
    CHECK(found(1).empty());
  });
  set_races(previous);
}

#if defined(RINGTAPE_MODEL_EXACT)
/// relu of the first 1000 elements of a tensor, and in another stream relu of the 1000 elements that begin at
/// `apart`.
void relu_of_two_parts(std::int64_t apart) {
  using namespace ringtape;
  const Device gpu{DeviceType::cuda, 0};
  const Tensor x = full({2000}, -1, DType::f32, gpu), y = empty({2000}, DType::f32, gpu);
  Stream::current(gpu).synchronize();
  const Stream other = Stream::create(gpu);
  relu_forward(Stream::current(gpu), DType::f32, x.raw(), y.raw(), std::int64_t{1000});
  relu_forward(other, DType::f32, x.alias({1000}, apart).raw(), y.alias({1000}, apart).raw(),
               std::int64_t{1000});
  other.synchronize();
}

TEST_CASE(
    "the library's kernels may work on two parts of a tensor in two streams, and not on the same elements") {
  const Races previous = set_races(Races::exact);
  for_each_schedule([] {
    CHECK(reports_of([] { relu_of_two_parts(1000); }).empty());
    CHECK_THAT(reports_of([] { relu_of_two_parts(996); }),
               ContainsSubstring("relu_forward<float> on stream") &&
                   ContainsSubstring("both touch 16 bytes of allocation #"));
  });
  set_races(previous);
}
#endif

TEST_CASE("branches of a graph are ordered only by its edges") {
  const auto found = [](bool joins) {
    return reports_of([&] {
      const DeviceInts x;
      REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
      const OwnStream a, b;
      const OwnEvent fork, filled;
      REQUIRE(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
      REQUIRE(cudaEventRecord(fork, a) == cudaSuccess);
      REQUIRE(cudaStreamWaitEvent(b, fork) == cudaSuccess);
      REQUIRE(cudaMemsetAsync(x.get(), 0, sizeof(int), b) == cudaSuccess);
      REQUIRE(cudaEventRecord(filled, b) == cudaSuccess);
      if (joins) REQUIRE(cudaStreamWaitEvent(a, filled) == cudaSuccess);
      REQUIRE(cudaMemsetAsync(x.get(), 1, sizeof(int), a) == cudaSuccess);
      if (!joins) REQUIRE(cudaStreamWaitEvent(a, filled) == cudaSuccess);
      cudaGraph_t graph;
      REQUIRE(cudaStreamEndCapture(a, &graph) == cudaSuccess);
      cudaGraphExec_t executable;
      REQUIRE(cudaGraphInstantiate(&executable, graph) == cudaSuccess);
      REQUIRE(cudaGraphLaunch(executable, a) == cudaSuccess);
      REQUIRE(cudaGraphLaunch(executable, a) == cudaSuccess);
      REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
      REQUIRE(cudaGraphExecDestroy(executable) == cudaSuccess);
      REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
    });
  };
  CHECK(found(true).empty());
  const std::string text = found(false);
  CHECK_THAT(text, ContainsSubstring("is not ordered after cudaMemsetAsync") &&
                       ContainsSubstring("The graph has no edge between them: during the capture, stream") &&
                       ContainsSubstring("has to wait for an event recorded on stream"));
  // It names the two streams of the capture, not the launch's stream twice.
  const auto number_after = [&](const std::string& words) {
    return std::stoi(text.substr(text.find(words) + words.size()));
  };
  CHECK(number_after("during the capture, stream ") != number_after("event recorded on stream "));
}

TEST_CASE("two operations are reported once, also where one reads and writes the bytes of the other") {
  for_each_schedule([] {
    const std::string found = reports_of([] {
      const DeviceInts x(2);
      REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
      const OwnStream a, b;
      REQUIRE(cudaMemsetAsync(x.get(), 0, sizeof(int), a) == cudaSuccess);
      Operation in_place;
      in_place.kind = Kind::collective;
      in_place.name = "in place";
      in_place.run = [] { return Progress::done; };
      in_place.reads = {{x.get(), sizeof(int)}};
      in_place.writes = {{x.get(), 2 * sizeof(int)}};
      REQUIRE(enqueue(b, in_place) == cudaSuccess);
      REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    });
    CHECK(ringtape::test::count(found, "is not ordered after") == 1);
  });
}

}  // namespace
}  // namespace gpu_model::test
