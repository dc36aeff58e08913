// Functions for libraries on top of the model: operations that wait for events outside it, and observers.
#include "gpu_model/runtime/engine.h"

#include <atomic>
#include <thread>

#include "tests/gpu_model/support.h"

namespace gpu_model::test {
namespace {

Operation named(const char* name, std::function<Progress()> run) {
  Operation operation;
  operation.kind = Kind::collective;
  operation.name = name;
  operation.run = std::move(run);
  return operation;
}

TEST_CASE("a blocked operation blocks only its stream and the streams that wait for it") {
  for_each_schedule([] {
    const OwnStream a, b;
    std::atomic<bool> peer_is_there = false;
    std::string seen;
    REQUIRE(enqueue(a, named("collective", [&] {
                      if (!peer_is_there) return Progress::blocked;
                      seen += 'c';
                      return Progress::done;
                    })) == cudaSuccess);
    REQUIRE(launch_on(a, [&] { seen += 'a'; }) == cudaSuccess);
    REQUIRE(launch_on(b, [&] { seen += 'b'; }) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(b) == cudaSuccess);
    CHECK(seen == "b");
    for (int i = 0; i < 5; ++i) CHECK(cudaStreamQuery(a) == cudaErrorNotReady);
    std::thread peer([&] {
      peer_is_there = true;
      wake_waiting();
    });
    REQUIRE(cudaStreamSynchronize(a) == cudaSuccess);
    peer.join();
    CHECK(seen == "bca");
  });
}

TEST_CASE("a thread of a library makes progress while the program does not wait") {
  const ScheduleScope scope(Schedule::late);
  const OwnStream stream;
  bool has_run = false;
  REQUIRE(enqueue(stream, named("collective", [&] {
                    has_run = true;
                    return Progress::done;
                  })) == cudaSuccess);
  CHECK_FALSE(has_run);
  std::thread([] { CHECK(make_progress(true)); }).join();
  CHECK(has_run);
  CHECK_FALSE(make_progress(true));
}

struct Names : Observer {
  void queued(std::uint64_t, const Operation&) override {}
  void finished(const Activity& activity) override {
    names.push_back(activity.operation.name);
    CHECK(activity.end >= activity.start);
  }
  std::vector<std::string> names;
};

TEST_CASE("the observer is called for every operation that has run") {
  Names watching;
  const DeviceInts x;
  set_observer(&watching);
  const OwnStream stream;
  launch_on(stream, [] {});
  cudaMemsetAsync(x.get(), 0, sizeof(int), stream);
  cudaStreamSynchronize(stream);
  set_observer(nullptr);
  REQUIRE(watching.names.size() == 2);
  CHECK_THAT(watching.names[0], ContainsSubstring("any_kernel"));
  CHECK(watching.names[1] == "cudaMemsetAsync");
}

}  // namespace
}  // namespace gpu_model::test
