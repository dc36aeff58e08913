// Launches and errors: CUDA C++ Programming Guide, "Compute Capabilities" (limits) and "Error Checking"; CUDA
// Runtime API reference, "Execution Control" and "Error Handling".
#include <stdexcept>

#include "gpu_model/runtime/symbols.h"
#include "tests/gpu_model/support.h"

namespace gpu_model::test {
namespace {

TEST_CASE("a launch beyond the limits of grid and block is an error") {
  const OwnStream stream;
  const auto under = [&](Size3 grid, Size3 block) {
    const cudaError_t error = launch_on(stream, [] {}, {grid, block});
    CHECK(cudaGetLastError() == error);
    return error;
  };
  CHECK(under({2147483647, 1, 1}, {1024, 1, 1}) == cudaSuccess);
  CHECK(under({1, 65535, 65535}, {1, 1, 64}) == cudaSuccess);
  CHECK(under({2147483648u, 1, 1}, {1, 1, 1}) == cudaErrorInvalidConfiguration);
  CHECK(under({1, 65536, 1}, {1, 1, 1}) == cudaErrorInvalidConfiguration);
  CHECK(under({1, 1, 65536}, {1, 1, 1}) == cudaErrorInvalidConfiguration);
  CHECK(under({1, 1, 1}, {1025, 1, 1}) == cudaErrorInvalidConfiguration);
  CHECK(under({1, 1, 1}, {1, 1, 65}) == cudaErrorInvalidConfiguration);
  CHECK(under({1, 1, 1}, {64, 32, 1}) == cudaErrorInvalidConfiguration);  // 2048 threads
  CHECK(under({0, 1, 1}, {1, 1, 1}) == cudaErrorInvalidConfiguration);
}

void large_kernel() {}
const void* large() {
  return reinterpret_cast<const void*>(&large_kernel);
}

TEST_CASE("dynamic shared memory beyond 48 KiB needs the opt-in, on each device") {
  const auto launch_with = [](std::size_t shared) {
    const OwnStream stream;
    return launch({large(), {}, {}, shared, stream}, new Body([] {}, {}));
  };
  constexpr std::size_t kKiB = 1024;
  CHECK(launch_with(48 * kKiB) == cudaSuccess);
  CHECK(launch_with(48 * kKiB + 1) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(large(), cudaFuncAttributeMaxDynamicSharedMemorySize, 228 * 1024) ==
        cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(large(), cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024) ==
        cudaSuccess);
  CHECK(launch_with(227 * kKiB) == cudaSuccess);
  CHECK(launch_with(227 * kKiB + 1) == cudaErrorInvalidValue);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  CHECK(launch_with(64 * kKiB) == cudaErrorInvalidValue);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("an error stays a thread's last error until the thread reads it") {
  CHECK(cudaSetDevice(-1) == cudaErrorInvalidDevice);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);  // a call that succeeds does not clear it
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(std::string(cudaGetErrorName(cudaErrorInvalidDevice)) == "cudaErrorInvalidDevice");
  CHECK(std::string(cudaGetErrorString(cudaErrorInvalidDevice)) == "invalid device ordinal");
}

std::string reported;

TEST_CASE("a kernel that fails on the device makes every later call fail, and its message is reported") {
  for_each_schedule([] {
    const OwnStream stream;
    reported.clear();
    const ReportHandler previous = set_report_handler([](const std::string& text) { reported = text; });
    launch_on(stream, [] { throw std::runtime_error("thread 3 waits for nobody"); });
    CHECK(cudaStreamSynchronize(stream) == cudaErrorLaunchFailure);
    CHECK_THAT(reported, ContainsSubstring("any_kernel") && ContainsSubstring("thread 3 waits for nobody"));
    void* memory = nullptr;
    CHECK(cudaMalloc(&memory, 1) == cudaErrorLaunchFailure);
    CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
    CHECK(cudaGetLastError() == cudaErrorLaunchFailure);  // sticky
    set_report_handler(previous);
    forgive_sticky_errors();
    cudaGetLastError();
  });
}

/// The calling function, as a report names it.
__attribute__((noinline)) std::string name_of_caller() {
  return function_at(static_cast<const char*>(__builtin_return_address(0)) - 1);
}
struct Callable {
  __attribute__((noinline)) std::string operator()(int) const { return name_of_caller() + ""; }
  __attribute__((noinline)) bool operator<(std::string& name) const {
    name = name_of_caller();
    return true;
  }
};
template <class T>
__attribute__((noinline)) std::string name_of_template(T) {
  return name_of_caller() + "";
}

TEST_CASE("reports name functions without their parameters") {
  const auto lambda = [](int) __attribute__((noinline)) {
    return name_of_caller() + "";
  };
  const std::string name = lambda(1);
  CHECK(name.starts_with("gpu_model::test::"));
  CHECK(name.ends_with("::{lambda(int)#1}::operator()"));
  CHECK(Callable{}(1) == "gpu_model::test::Callable::operator()");
  std::string less;
  CHECK((Callable{} < less));
  CHECK(less == "gpu_model::test::Callable::operator<");
  CHECK(name_of_template(1.0) == "gpu_model::test::name_of_template<double>");
}

TEST_CASE("the properties of the device's kind") {
  int value = 0;
  REQUIRE(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 1) == cudaSuccess);
  CHECK(value == 227 * 1024);
  cudaDeviceProp properties;
  REQUIRE(cudaGetDeviceProperties(&properties, 0) == cudaSuccess);
  CHECK(properties.major == 9);
  CHECK(properties.multiProcessorCount == 132);
  CHECK(properties.warpSize == 32);
  CHECK(cudaGetDeviceProperties(&properties, 2) == cudaErrorInvalidDevice);
  cudaGetLastError();
}

}  // namespace
}  // namespace gpu_model::test
