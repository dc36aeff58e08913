#pragma once

#include <cuda_runtime_api.h>
#include <gpu_model/model.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.h"

/// Shared parts of the GPU model's tests: kernels that are functions of the host, streams and memory that are
/// freed, schedules, and test cases that end the process.
namespace gpu_model::test {

/// A launch of `body`, with pointers among its arguments.
class Body final : public KernelCall {
 public:
  Body(std::function<void()> body, std::vector<const void*> pointers)
      : body_(std::move(body)), pointers_(std::move(pointers)) {}
  void run() const override { body_(); }
  const void* arguments() const override { return pointers_.data(); }
  std::size_t argument_bytes() const override { return pointers_.size() * sizeof(void*); }

 private:
  std::function<void()> body_;
  std::vector<const void*> pointers_;
};

/// The function that stands for all kernels of these tests, and its address.
inline void any_kernel() {}
inline const void* entry() {
  return reinterpret_cast<const void*>(&any_kernel);
}

struct Shape {
  Size3 grid{};
  Size3 block{};
  std::size_t shared_bytes = 0;
};
inline cudaError_t launch_on(cudaStream_t stream, std::function<void()> body, const Shape& shape = {}) {
  return launch({entry(), shape.grid, shape.block, shape.shared_bytes, stream},
                new Body(std::move(body), {}));
}

/// A stream that waits for no other.
class OwnStream {
 public:
  explicit OwnStream(unsigned flags = cudaStreamNonBlocking) {
    REQUIRE(cudaStreamCreateWithFlags(&stream_, flags) == cudaSuccess);
  }
  ~OwnStream() { cudaStreamDestroy(stream_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class OwnEvent {
 public:
  OwnEvent() { REQUIRE(cudaEventCreate(&event_) == cudaSuccess); }
  ~OwnEvent() { cudaEventDestroy(event_); }
  OwnEvent(const OwnEvent&) = delete;
  OwnEvent& operator=(const OwnEvent&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// `count` ints by cudaMalloc.
class DeviceInts {
 public:
  explicit DeviceInts(std::size_t count = 1) {
    REQUIRE(cudaMalloc(&memory_, count * sizeof(int)) == cudaSuccess);
  }
  ~DeviceInts() { cudaFree(memory_); }
  DeviceInts(const DeviceInts&) = delete;
  DeviceInts& operator=(const DeviceInts&) = delete;
  int* get() const { return static_cast<int*>(memory_); }

 private:
  void* memory_ = nullptr;
};

/// `count` ints of pinned memory, 0 at first.
class PinnedInts {
 public:
  explicit PinnedInts(std::size_t count = 1) {
    REQUIRE(cudaMallocHost(&memory_, count * sizeof(int)) == cudaSuccess);
  }
  ~PinnedInts() { cudaFreeHost(memory_); }
  PinnedInts(const PinnedInts&) = delete;
  PinnedInts& operator=(const PinnedInts&) = delete;
  int* get() const { return static_cast<int*>(memory_); }

 private:
  void* memory_ = nullptr;
};

/// Ringtape changes the current device; the other tests expect device 0.
struct FirstDeviceAfterwards {
  ~FirstDeviceAfterwards() { cudaSetDevice(0); }
};

inline int value_of(const int* device_address) {
  int value = 0;
  peek(&value, device_address, sizeof value);
  return value;
}

/// Runs under another schedule until the end of the scope.
class ScheduleScope {
 public:
  explicit ScheduleScope(Schedule wanted, std::uint64_t seed = 0) : previous_(schedule()) {
    set_schedule(wanted, seed);
  }
  ~ScheduleScope() {
    int device = 0;
    cudaGetDevice(&device);
    int count = 0;
    cudaGetDeviceCount(&count);
    for (int i = 0; i < count; ++i) {
      cudaSetDevice(i);
      cudaDeviceSynchronize();
    }
    cudaSetDevice(device);
    set_schedule(previous_);
  }
  ScheduleScope(const ScheduleScope&) = delete;
  ScheduleScope& operator=(const ScheduleScope&) = delete;

 private:
  Schedule previous_;
};

/// The reports during body(), a line or two each.
template <class Body>
std::string reports_of(const Body& body) {
  static std::string all;
  all.clear();
  const ReportHandler previous = set_report_handler([](const std::string& text) { all += text + "\n"; });
  body();
  cudaDeviceSynchronize();
  set_report_handler(previous);
  return all;
}

/// The reports during body() and until the devices are idle, one by one. Sticky errors are forgiven.
template <class Body>
std::vector<std::string> each_report_of(const Body& body) {
  static std::vector<std::string> all;
  all.clear();
  const ReportHandler previous = set_report_handler([](const std::string& text) { all.push_back(text); });
  body();
  cudaDeviceSynchronize();
  set_report_handler(previous);
  forgive_sticky_errors();
  cudaGetLastError();
  return all;
}

/// A kernel with `memory` as its argument, which it does not touch.
inline cudaError_t use_in_kernel(cudaStream_t stream, const void* memory) {
  return launch({entry(), {}, {}, 0, stream}, new Body([] {}, {memory}));
}

/// Ends the capture of `stream`, and makes its graph executable.
inline cudaGraphExec_t end_and_instantiate(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  cudaGraphExec_t executable = nullptr;
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  return executable;
}

/// Calls body() under each schedule; a failed check names the schedule.
template <class Body>
void for_each_schedule(const Body& body) {
  const std::pair<Schedule, std::uint64_t> all[] = {{Schedule::order, 0},  {Schedule::late, 0},
                                                    {Schedule::early, 0},  {Schedule::random, 1},
                                                    {Schedule::random, 2}, {Schedule::random, 3}};
  for (const auto& [one, seed] : all) {
    INFO("schedule " << static_cast<int>(one) << ", seed " << seed);
    const ScheduleScope scope(one, seed);
    body();
  }
}

/// The result of a test case that ends its process.
struct Ending {
  bool aborted;
  std::string text;  ///< standard output and error
};
/// Runs the hidden test case `name` in a separate process, with `variables` ("A=1 B=2") in its environment.
inline Ending ending_of(const std::string& name, const std::string& variables = "") {
  const std::string command =
      "env " + variables + " /proc/" + std::to_string(getpid()) + "/exe '" + name + "' 2>&1";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), [](FILE*) { return 0; });
  REQUIRE(pipe);
  Ending ending{};
  char part[4096];
  while (const std::size_t n = std::fread(part, 1, sizeof part, pipe.get())) ending.text.append(part, n);
  const int status = pclose(pipe.get());
  // A shell returns a signal as 128 + its number.
  ending.aborted =
      (WIFEXITED(status) && WEXITSTATUS(status) == 128 + 6) || (WIFSIGNALED(status) && WTERMSIG(status) == 6);
  return ending;
}

}  // namespace gpu_model::test
