#include <nccl.h>

#include <memory>
#include <string>
#include <utility>

#include "gpu_model/nccl/comm_rank.h"
#include "gpu_model/nccl/connect.h"
#include "gpu_model/nccl/error.h"
#include "gpu_model/nccl/group.h"
#include "gpu_model/nccl/handles.h"
#include "gpu_model/nccl/host_threads.h"
#include "gpu_model/runtime/engine.h"

/// Creation, queries and destruction of communicators.
namespace gpu_model::nccl {
namespace {

ncclResult_t join(const std::string& place, int ranks, int rank, int device, ncclComm_t* handle) {
  enter_host_thread();
  int file = -1;
  if (const ncclResult_t error = connect(place, ranks, rank, device, file)) return error;
  const auto comm = std::make_shared<CommRank>(file, rank, device, place);
  if (!comm->is_mapped()) return fail(ncclSystemError, "the shared memory of the ranks cannot be mapped");
  remember(comm);
  if (const ncclResult_t error = comm->start()) return error;
  *handle = make_handle(comm);
  return ncclSuccess;
}

ncclResult_t unknown_handle(const char* function) {
  return fail_group(fail(ncclInvalidArgument, std::string(function) + ": invalid communicator"));
}

ncclResult_t split(const std::shared_ptr<CommRank>& parent, int color, int key, ncclComm_t* handle) {
  enter_host_thread();
  if (const std::uint64_t left = parent->unfinished()) {
    report("NCCL: rank " + std::to_string(parent->rank()) + " calls ncclCommSplit while " +
           std::to_string(left) + " of the communicator's operations are in flight: its ranks may deadlock");
  }
  std::string place;
  int ranks = 0, rank = 0;
  if (const ncclResult_t error = parent->split(color, key, place, ranks, rank)) return error;
  if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  return join(place, ranks, rank, parent->device(), handle);
}

}  // namespace
}  // namespace gpu_model::nccl

using namespace gpu_model;
using namespace gpu_model::nccl;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return fail(ncclInvalidArgument, "ncclGetVersion: the version pointer is null");
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  if (comm == nullptr)
    return fail_group(fail(ncclInvalidArgument, "ncclCommInitRank: the communicator pointer is null"));
  *comm = nullptr;
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    return fail_group(fail(ncclInvalidArgument, "ncclCommInitRank: rank " + std::to_string(rank) + " of " +
                                                    std::to_string(ranks) + " ranks"));
  }
  if (ranks > kMaxRanks) {
    return fail_group(fail(ncclInvalidUsage, "ncclCommInitRank: the GPU model has at most " +
                                                 std::to_string(kMaxRanks) + " ranks, found " +
                                                 std::to_string(ranks)));
  }
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || cudaSetDevice(device) != cudaSuccess) {
    return fail_group(fail(ncclUnhandledCudaError, "ncclCommInitRank: no current CUDA device"));
  }
  return wait_in_group([=] { return join(place_of(id), ranks, rank, device, comm); });
}

ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t* new_comm,
                           ncclConfig_t* config) {
  if (new_comm == nullptr)
    return fail_group(fail(ncclInvalidArgument, "ncclCommSplit: the communicator pointer is null"));
  *new_comm = nullptr;
  const auto comm = find(handle);
  if (comm == nullptr) return unknown_handle("ncclCommSplit");
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR) {
    return fail_group(fail(ncclInvalidArgument, "ncclCommSplit: color " + std::to_string(color)));
  }
  if (config != nullptr)
    return fail_group(fail(ncclInvalidArgument, "ncclCommSplit: the GPU model supports no options"));
  if (const ncclResult_t error = comm->error()) return fail_group(error);
  return wait_in_group([=] { return split(comm, color, key, new_comm); });
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  const auto comm = take(handle);
  if (comm == nullptr) return unknown_handle("ncclCommDestroy");
  enter_host_thread();
  const ncclResult_t result = comm->wait_for_operations();
  forget(comm.get());
  comm->leave(Presence::destroyed);
  return result;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  const auto comm = take(handle);
  if (comm == nullptr) return unknown_handle("ncclCommAbort");
  forget(comm.get());
  comm->leave(Presence::aborted);
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  const auto comm = find(handle);
  if (comm == nullptr) return unknown_handle("ncclCommGetAsyncError");
  if (error == nullptr) return fail(ncclInvalidArgument, "ncclCommGetAsyncError: the error pointer is null");
  *error = comm->error();
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t handle, int* count) {
  const auto comm = find(handle);
  if (comm == nullptr) return unknown_handle("ncclCommCount");
  if (count == nullptr) return fail(ncclInvalidArgument, "ncclCommCount: the count pointer is null");
  *count = comm->ranks();
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t handle, int* device) {
  const auto comm = find(handle);
  if (comm == nullptr) return unknown_handle("ncclCommCuDevice");
  if (device == nullptr) return fail(ncclInvalidArgument, "ncclCommCuDevice: the device pointer is null");
  *device = comm->device();
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t handle, int* rank) {
  const auto comm = find(handle);
  if (comm == nullptr) return unknown_handle("ncclCommUserRank");
  if (rank == nullptr) return fail(ncclInvalidArgument, "ncclCommUserRank: the rank pointer is null");
  *rank = comm->rank();
  return ncclSuccess;
}
}
