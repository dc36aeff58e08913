// Data that a GPU moves with one instruction must be aligned for it, however the executor moves it.
#include "tests/gpu_model/alignment_kernels.h"
#include "tests/gpu_model/support.h"

namespace gpu_model::test {
namespace {

using namespace ringtape;

/// The error and the reports after a launch.
struct Outcome {
  cudaError_t error;
  std::string reports;
};

template <class Launch>
Outcome outcome_of(const Launch& launch) {
  const ScheduleScope scope(Schedule::late);  // or the launch itself could return the error
  Outcome outcome{};
  outcome.reports = reports_of([&] {
    const Stream stream = Stream::current({DeviceType::cuda, 0});
    launch(stream);
    outcome.error = cudaStreamSynchronize(static_cast<cudaStream_t>(stream.native()));
  });
  forgive_sticky_errors();
  cudaGetLastError();
  return outcome;
}

class TwoArrays {
 public:
  float* from() const { return reinterpret_cast<float*>(x_.get()); }
  float* to() const { return reinterpret_cast<float*>(y_.get()); }

 private:
  DeviceInts x_{16}, y_{4};
};

TEST_CASE("a vector in a kernel must have the alignment that a GPU needs") {
  const TwoArrays arrays;
  for (int i = 0; i < 4; ++i) {
    INFO(i);
    float* const at = arrays.from() + i;
    const cudaError_t of_four = i % 4 == 0 ? cudaSuccess : cudaErrorMisalignedAddress;
    const cudaError_t of_two = i % 2 == 0 ? cudaSuccess : cudaErrorMisalignedAddress;
    const Outcome loads =
        outcome_of([&](const Stream& stream) { on_cuda::test_load_four(stream, at, arrays.to()); });
    CHECK(loads.error == of_four);
    if (loads.error != cudaSuccess) {
      CHECK_THAT(loads.reports, ContainsSubstring("kernels/common/vec.h:") &&
                                    ContainsSubstring("expected a multiple of 16"));
    }
    CHECK(outcome_of([&](const Stream& stream) { on_cuda::test_store_four(stream, at); }).error == of_four);
    CHECK(outcome_of([&](const Stream& stream) { on_cuda::test_load_two(stream, at, arrays.to()); }).error ==
          of_two);
    CHECK(outcome_of([&](const Stream& stream) {
            on_cuda::test_load_any(stream, at, arrays.to());  // looks at the address
          }).error == cudaSuccess);
  }
}

TEST_CASE("an asynchronous copy of a part of 16 bytes needs the alignment of all, unless it reads nothing") {
  const TwoArrays arrays;
  const auto copied = [&](int first, int bytes) {
    return outcome_of([&](const Stream& stream) {
      on_cuda::test_copy_part(stream, arrays.from() + first, bytes, arrays.to());
    });
  };
  CHECK(copied(0, 8).error == cudaSuccess);
  CHECK(copied(2, 0).error == cudaSuccess);
  const Outcome misaligned = copied(2, 8);
  CHECK(misaligned.error == cudaErrorMisalignedAddress);
  CHECK_THAT(misaligned.reports, ContainsSubstring("kernels/common/async_copy.h:"));
}

}  // namespace
}  // namespace gpu_model::test
