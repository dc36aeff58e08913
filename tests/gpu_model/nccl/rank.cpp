// A rank as a process: nccl_model_rank RANK RANKS MODE, with NCCL_COMM_ID. processes_test.sh checks its
// output.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

void check(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  std::printf("%s: %s (%s)\n", call, ncclGetErrorString(result), ncclGetLastError(nullptr));
  std::exit(1);
}
#define CHECKED(call) check((call), #call)

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int rank = std::atoi(argv[1]), ranks = std::atoi(argv[2]);
  const std::string mode = argv[3];
  cudaSetDevice(rank);
  ncclUniqueId id;
  CHECKED(ncclGetUniqueId(&id));
  ncclComm_t comm = nullptr;
  CHECKED(ncclCommInitRank(&comm, ranks, id, rank));
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  constexpr std::size_t n = 200000;
  const std::vector<float> ones(n, 1);
  void* memory = nullptr;
  cudaMalloc(&memory, n * sizeof(float));
  cudaMemcpy(memory, ones.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  const int times = mode == "dies" ? 1000000 : 5;
  for (int i = 0; i < times; ++i) {
    if (mode == "dies" && rank == 1 && i == 20) std::raise(SIGKILL);
    const ncclResult_t result = ncclAllReduce(memory, memory, n, ncclFloat32, ncclSum, comm, stream);
    ncclResult_t error = result;
    while (error == ncclSuccess && cudaStreamQuery(stream) == cudaErrorNotReady) {
      std::this_thread::yield();
      CHECKED(ncclCommGetAsyncError(comm, &error));
    }
    if (error != ncclSuccess) {
      std::printf("%s: %s\n", ncclGetErrorString(error), ncclGetLastError(comm));
      CHECKED(ncclCommAbort(comm));
      std::printf("stream: %s\n", cudaGetErrorString(cudaStreamSynchronize(stream)));
      return 0;
    }
  }
  std::vector<float> sums(n);
  cudaStreamSynchronize(stream);
  cudaMemcpy(sums.data(), memory, n * sizeof(float), cudaMemcpyDeviceToHost);
  std::printf("%g %g\n", static_cast<double>(sums.front()), static_cast<double>(sums.back()));
  CHECKED(ncclCommDestroy(comm));
  return 0;
}
