#include "profile/libraries.h"

#include <fmt/format.h>

#include <string>

#include "core/cuda_check.h"

#if defined(RINGTAPE_CPU_BLAS_ONEDNN)
#include <oneapi/dnnl/dnnl.h>
#elif defined(RINGTAPE_CPU_BLAS_OPENBLAS)
#include <cblas.h>
#endif
#ifdef RINGTAPE_FIBER_BOOST
#include <boost/version.hpp>
#endif
#ifdef RINGTAPE_WITH_MPI
#include <mpi.h>
#endif
#ifdef RINGTAPE_WITH_CUDA
#include <cublas_v2.h>
#endif
#ifdef RINGTAPE_WITH_NCCL
#include <nccl.h>
#endif

namespace ringtape {
namespace {

#ifdef RINGTAPE_WITH_CUDA
void add_cuda(std::vector<Fact>& facts) {
  int built = CUDART_VERSION, runtime = 0, driver = 0;
  RINGTAPE_CUDA(cudaRuntimeGetVersion(&runtime));
  RINGTAPE_CUDA(cudaDriverGetVersion(&driver));
  const auto version = [](int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); };
  facts.push_back({"CUDA", fmt::format("{}, compiled by {}, driver for {}", version(runtime), version(built),
                                       version(driver))});
  int major = 0, minor = 0, patch = 0;
  if (cublasGetProperty(MAJOR_VERSION, &major) == CUBLAS_STATUS_SUCCESS &&
      cublasGetProperty(MINOR_VERSION, &minor) == CUBLAS_STATUS_SUCCESS &&
      cublasGetProperty(PATCH_LEVEL, &patch) == CUBLAS_STATUS_SUCCESS) {
    facts.push_back({"cuBLAS", fmt::format("{}.{}.{}", major, minor, patch)});
  }
#ifdef RINGTAPE_WITH_NCCL
  int nccl = 0;
  if (ncclGetVersion(&nccl) == ncclSuccess) {
    facts.push_back({"NCCL", fmt::format("{}.{}.{}", nccl / 10000, nccl % 10000 / 100, nccl % 100)});
  }
#endif
}
#endif

}  // namespace

std::vector<Fact> describe_libraries([[maybe_unused]] Device device) {
  std::vector<Fact> facts;
#ifdef RINGTAPE_WITH_CUDA
  if (device.is_cuda()) add_cuda(facts);
#endif
#if defined(RINGTAPE_CPU_BLAS_ONEDNN)
  const dnnl_version_t* onednn = dnnl_version();
  facts.push_back({"oneDNN", fmt::format("{}.{}.{}", onednn->major, onednn->minor, onednn->patch)});
#elif defined(RINGTAPE_CPU_BLAS_OPENBLAS)
  const std::string config = openblas_get_config();  // "OpenBLAS 0.3.21 NO_LAPACKE ..."
  const std::size_t start = config.find(' ') + 1;
  facts.push_back({"OpenBLAS", config.substr(start, config.find(' ', start) - start)});
#endif
#ifdef RINGTAPE_FIBER_BOOST
  facts.push_back({"Boost.Context", fmt::format("{}.{}.{}", BOOST_VERSION / 100000,
                                                BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100)});
#endif
#ifdef RINGTAPE_WITH_MPI
  char text[MPI_MAX_LIBRARY_VERSION_STRING];  // "Open MPI v4.1.4, package: ..."
  int length = 0;
  if (MPI_Get_library_version(text, &length) == MPI_SUCCESS) {
    const std::string version(text, static_cast<std::size_t>(length));
    facts.push_back({"MPI", version.substr(0, version.find_first_of(",\n"))});
  }
#endif
  return facts;
}

}  // namespace ringtape
