// Compiled with -fsanitize=alignment, as kernels are for the model.
#include "tests/gpu_model/support.h"

namespace gpu_model::test {
namespace {

struct alignas(16) FourFloats {
  float x, y, z, w;
};

std::string reported;

/// The error after a kernel has written a T at byte `bytes` of an allocation.
template <class T>
cudaError_t read_at(std::size_t bytes) {
  const DeviceInts memory(16);
  reported.clear();
  const ReportHandler previous = set_report_handler([](const std::string& text) { reported = text; });
  {
    const OwnStream stream;
    auto* const place = reinterpret_cast<volatile T*>(reinterpret_cast<char*>(memory.get()) + bytes);
    launch_on(stream, [place] {
      if constexpr (sizeof(T) == 16) {
        place->x = 1;
      } else {
        *place = 1;
      }
    });
    cudaStreamSynchronize(stream);
  }
  const cudaError_t error = cudaDeviceSynchronize();
  CHECK(cudaDeviceSynchronize() == error);  // it stays
  forgive_sticky_errors();
  cudaGetLastError();
  set_report_handler(previous);
  return error;
}

TEST_CASE("an access that is not aligned to its type is cudaErrorMisalignedAddress, from then on") {
  CHECK(read_at<FourFloats>(16) == cudaSuccess);
  CHECK(read_at<float>(4) == cudaSuccess);
  CHECK(reported.empty());
  CHECK(read_at<FourFloats>(8) == cudaErrorMisalignedAddress);
  CHECK_THAT(reported, ContainsSubstring("any_kernel") && ContainsSubstring("alignment_test.cpp:") &&
                           ContainsSubstring("expected a multiple of 16"));
  CHECK(read_at<float>(2) == cudaErrorMisalignedAddress);
  CHECK_THAT(reported, ContainsSubstring("expected a multiple of 4"));
}

}  // namespace
}  // namespace gpu_model::test
