#include <nccl.h>

#include <cstdint>
#include <memory>
#include <string>

#include "gpu_model/nccl/comm_rank.h"
#include "gpu_model/nccl/error.h"
#include "gpu_model/nccl/group.h"
#include "gpu_model/nccl/handles.h"
#include "gpu_model/nccl/reduce.h"
#include "gpu_model/runtime/engine.h"

/// The operations: checks their arguments, and queues them.
namespace gpu_model::nccl {
namespace {

ncclResult_t refuse(const Shape& shape, const std::string& why) {
  return fail_group(fail(ncclInvalidArgument, std::string(name_of(shape.function)) + ": " + why));
}

/// The error of a buffer, "" if there is none. NCCL accepts memory of the communicator's device and pinned
/// memory.
std::string objection(const void* address, std::size_t bytes, int device) {
  if (bytes == 0) return "";
  if (address == nullptr) return "is null";
  if (is_device_memory(address)) {
    if (device_of_memory(address) != device) {
      return "is memory of device " + std::to_string(device_of_memory(address)) +
             ", the communicator's is device " + std::to_string(device);
    }
    return is_live_device_memory(address, bytes)
               ? ""
               : "is not allocated memory of " + std::to_string(bytes) + " bytes";
  }
  if (is_pinned_memory(address, bytes)) return "";
  return is_pinned_memory(address, 1) ? "is not pinned memory of " + std::to_string(bytes) + " bytes"
                                      : "is host memory";
}

/// True if buffers share bytes other than by the guide's "In-place Operations".
bool overlaps(const NcclCall& call, const Buffers& buffers, int rank) {
  if (buffers.send == 0 || buffers.receive == 0) return false;
  const auto at = static_cast<std::size_t>(rank);
  const char* in_place = call.receive;
  if (call.shape.function == Function::all_gather) in_place = call.receive + at * buffers.send;
  if (call.shape.function == Function::reduce_scatter) in_place = call.receive - at * buffers.receive;
  if (call.send == in_place) return false;
  return call.send < call.receive + buffers.receive && call.receive < call.send + buffers.send;
}

ncclResult_t check_and_queue(const Shape& shape, const void* send, void* receive, ncclComm_t handle,
                             cudaStream_t stream, const void* caller) {
  const auto comm = find(handle);
  if (comm == nullptr) return refuse(shape, "invalid communicator");
  if (!is_type(shape.type)) return refuse(shape, "invalid type: " + std::to_string(shape.type));
  if (!is_op(shape.op)) return refuse(shape, "invalid operation: " + std::to_string(shape.op));
  const bool has_root = shape.function != Function::all_reduce && shape.function != Function::all_gather &&
                        shape.function != Function::reduce_scatter;
  if (has_root && (shape.root < 0 || shape.root >= comm->ranks())) {
    return refuse(shape,
                  "rank " + std::to_string(shape.root) + " of " + std::to_string(comm->ranks()) + " ranks");
  }
  if (shape.count > SIZE_MAX / 8 / static_cast<std::size_t>(comm->ranks()))
    return refuse(shape, "too many elements");
  const Buffers buffers = buffers_of(shape, comm->ranks(), comm->rank());
  if (const std::string why = objection(send, buffers.send, comm->device()); !why.empty()) {
    return refuse(shape, "the send buffer " + why);
  }
  if (const std::string why = objection(receive, buffers.receive, comm->device()); !why.empty()) {
    return refuse(shape, "the receive buffer " + why);
  }
  if (const ncclResult_t error = comm->error()) return fail_group(error);
  const NcclCall call{shape, static_cast<const char*>(send), static_cast<char*>(receive)};
  if (overlaps(call, buffers, comm->rank())) {
    report("NCCL: " + describe(shape) +
           ": send and receive buffer overlap, but not as for an in-place operation");
  }
  const ncclResult_t result = queue_call(comm, call, stream, caller);
  return result == ncclSuccess ? result : fail_group(result);
}

}  // namespace
}  // namespace gpu_model::nccl

using namespace gpu_model::nccl;

/// The return address of the calling function.
#define NCCL_MODEL_CALLER __builtin_extract_return_addr(__builtin_return_address(0))

extern "C" {

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return check_and_queue({Function::all_reduce, type, op, -1, count}, send, receive, comm, stream,
                         NCCL_MODEL_CALLER);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return check_and_queue({Function::broadcast, type, ncclSum, root, count}, send, receive, comm, stream,
                         NCCL_MODEL_CALLER);
}

ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return check_and_queue({Function::reduce, type, op, root, count}, send, receive, comm, stream,
                         NCCL_MODEL_CALLER);
}

ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t send_count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return check_and_queue({Function::all_gather, type, ncclSum, -1, send_count}, send, receive, comm, stream,
                         NCCL_MODEL_CALLER);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t receive_count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return check_and_queue({Function::reduce_scatter, type, op, -1, receive_count}, send, receive, comm, stream,
                         NCCL_MODEL_CALLER);
}

ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return check_and_queue({Function::send, type, ncclSum, peer, count}, send, nullptr, comm, stream,
                         NCCL_MODEL_CALLER);
}

ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return check_and_queue({Function::receive, type, ncclSum, peer, count}, nullptr, receive, comm, stream,
                         NCCL_MODEL_CALLER);
}
}
