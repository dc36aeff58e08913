#include "gpu_model/nccl/group.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpu_model/nccl/comm_rank.h"
#include "gpu_model/nccl/error.h"
#include "gpu_model/nccl/host_threads.h"
#include "gpu_model/nccl/queued_calls.h"
#include "gpu_model/runtime/engine.h"

namespace gpu_model::nccl {
namespace {

/// The calls of a group on one communicator.
struct Part {
  std::shared_ptr<CommRank> comm;
  std::vector<NcclCall> calls;
  std::vector<cudaStream_t> streams;  ///< each once
  const void* caller;
};

struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<Part> parts;
  std::vector<std::function<ncclResult_t()>> waits;
};

Group& group() {
  thread_local Group of_thread;
  return of_thread;
}

/// Makes the communicator's device current during its lifetime.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    cudaGetDevice(&before_);
    cudaSetDevice(device);
  }
  ~OnDevice() { cudaSetDevice(before_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
};

ncclResult_t cuda_failed(cudaError_t error) {
  return fail(ncclUnhandledCudaError, std::string("CUDA failure: ") + cudaGetErrorString(error));
}

/// Sends of a rank to itself need the same number of receives, of the same sizes.
ncclResult_t check_own_messages(const Part& part) {
  std::vector<Shape> sends, receives;
  for (const NcclCall& call : part.calls) {
    if (call.is_collective() || call.shape.root != part.comm->rank()) continue;
    Shape shape = call.shape;
    shape.function = Function::send;
    (call.shape.function == Function::send ? sends : receives).push_back(shape);
  }
  if (sends == receives) return ncclSuccess;
  return fail(ncclInvalidUsage,
              "rank " + std::to_string(part.comm->rank()) +
                  " sends to itself without a matching receive from itself in the same group");
}

/// `later` waits for the work queued in `earlier`.
cudaError_t order(cudaStream_t earlier, cudaStream_t later) {
  cudaEvent_t event = nullptr;
  cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  if (error != cudaSuccess) return error;
  error = cudaEventRecord(event, earlier);
  if (error == cudaSuccess) error = cudaStreamWaitEvent(later, event, 0);
  cudaEventDestroy(event);
  return error;
}

void add_ranges(const Part& part, Operation& operation) {
  for (const NcclCall& call : part.calls) {
    const Buffers buffers = buffers_of(call.shape, part.comm->ranks(), part.comm->rank());
    if (buffers.send > 0) operation.reads.push_back({call.send, buffers.send});
    if (buffers.receive > 0) operation.writes.push_back({call.receive, buffers.receive});
    operation.bytes += std::max(buffers.send, buffers.receive);
  }
}

std::string name_of_part(const Part& part) {
  const std::string name = name_of(part.calls[0].shape.function);
  return part.calls.size() == 1 ? name : name + " in a group of " + std::to_string(part.calls.size());
}

/// The group is one operation in the first stream, which the other streams wait for and which waits for them.
ncclResult_t launch(const Part& part) {
  if (const ncclResult_t error = check_own_messages(part)) return error;
  const OnDevice device(part.comm->device());
  const cudaStream_t stream = part.streams[0];
  for (std::size_t i = 1; i < part.streams.size(); ++i) {
    if (const cudaError_t error = order(part.streams[i], stream)) return cuda_failed(error);
  }
  if (device_of(stream) != part.comm->device()) return cuda_failed(cudaErrorInvalidResourceHandle);
  const bool captured = is_capturing(stream);
  std::vector<NcclCall> calls = part.calls;
  for (NcclCall& call : calls) call = {call.shape, for_operations(call.send), for_operations(call.receive)};
  const auto work = std::make_shared<QueuedCalls>(part.comm, std::move(calls), captured);
  if (!captured) work->set_issue(part.comm->issue());
  Operation operation;
  operation.kind = Kind::collective;
  operation.name = name_of_part(part);
  operation.run = [work] { return work->run(); };
  operation.caller = part.caller;
  add_ranges(part, operation);
  if (const cudaError_t error = enqueue(stream, std::move(operation))) {
    if (!captured) part.comm->take_back_issue();
    return cuda_failed(error);
  }
  part.comm->has_queued();
  for (std::size_t i = 1; i < part.streams.size(); ++i) {
    if (const cudaError_t error = order(stream, part.streams[i])) return cuda_failed(error);
  }
  return ncclSuccess;
}

ncclResult_t run_waits(const std::vector<std::function<ncclResult_t()>>& waits) {
  if (waits.size() == 1) return waits[0]();
  std::vector<ncclResult_t> results(waits.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < waits.size(); ++i) threads.emplace_back([&, i] { results[i] = waits[i](); });
  for (std::thread& thread : threads) thread.join();
  const auto failed =
      std::find_if(results.begin(), results.end(), [](ncclResult_t result) { return result != ncclSuccess; });
  return failed == results.end() ? ncclSuccess : *failed;
}

}  // namespace

ncclResult_t queue_call(const std::shared_ptr<CommRank>& comm, const NcclCall& call, cudaStream_t stream,
                        const void* caller) {
  enter_host_thread();
  if (group().depth == 0) return launch({comm, {call}, {stream}, caller});
  std::vector<Part>& parts = group().parts;
  auto part = std::find_if(parts.begin(), parts.end(), [&](const Part& other) { return other.comm == comm; });
  if (part == parts.end()) part = parts.insert(part, {comm, {}, {}, caller});
  part->calls.push_back(call);
  if (std::find(part->streams.begin(), part->streams.end(), stream) == part->streams.end())
    part->streams.push_back(stream);
  return ncclSuccess;
}

ncclResult_t wait_in_group(const std::function<ncclResult_t()>& call) {
  if (group().depth == 0) return call();
  group().waits.push_back(call);
  return ncclSuccess;
}

ncclResult_t fail_group(ncclResult_t error) {
  if (group().depth > 0 && group().error == ncclSuccess) group().error = error;
  return error;
}

}  // namespace gpu_model::nccl

using namespace gpu_model::nccl;

extern "C" {

ncclResult_t ncclGroupStart() {
  ++group().depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group().depth == 0) return fail(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--group().depth > 0) return ncclSuccess;
  const Group ended = std::exchange(group(), {});
  if (ended.error != ncclSuccess) return ended.error;
  if (!ended.waits.empty()) {
    if (const ncclResult_t error = run_waits(ended.waits)) return error;
  }
  for (const Part& part : ended.parts) {
    if (const ncclResult_t error = launch(part)) return error;
  }
  return ncclSuccess;
}
}
