#include "dist/nccl_communicator.h"

#include <bit>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

#include "core/cuda_check.h"
#include "core/error.h"
#include "dist/element_address.h"
#include "dist/nccl_check.h"
#include "dist/nccl_monitor.h"
#include "dist/port.h"
#include "kernels/elementwise.h"

namespace ringtape {

void check_nccl(ncclResult_t code, const char* call) {
  if (code == ncclSuccess || code == ncclInProgress) return;
  fail("NCCL: {} failed: {} ({})", std::string(call).substr(0, std::string(call).find('(')),
       ncclGetErrorString(code), ncclGetLastError(nullptr));
}

namespace {

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::f64:
      return ncclFloat64;
    case DType::f16:
      return ncclFloat16;
    case DType::bf16:
      return ncclBfloat16;
    case DType::i32:
      return ncclInt32;
    case DType::i64:
      return ncclInt64;
    default:
      fail("NCCL: no type for {}", name_of(dtype));
  }
}

/// ncclAvg multiplies the elements by 1/ranks, in their dtype, before it adds them, which is exact for a
/// power of two. For other numbers of ranks the mean is a sum that is divided afterwards.
bool is_divided_sum(ReduceOp op, int ranks) {
  return op == ReduceOp::mean && !std::has_single_bit(static_cast<unsigned>(ranks));
}

ncclRedOp_t nccl_op(ReduceOp op, int ranks) {
  switch (op) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::mean:
      return is_divided_sum(op, ranks) ? ncclSum : ncclAvg;
    case ReduceOp::min:
      return ncclMin;
    case ReduceOp::max:
      return ncclMax;
  }
  fail("unknown reduction");
}

bool all_equal(const std::vector<std::int64_t>& counts) {
  for (std::int64_t count : counts) {
    if (count != counts.front()) return false;
  }
  return true;
}

/// Makes the NCCL calls in one group (ncclGroupStart), in which none waits for another.
template <class Calls>
void in_one_group(const Calls& calls) {
  RINGTAPE_NCCL(ncclGroupStart());
  try {
    calls();
  } catch (...) {
    ncclGroupEnd();  // otherwise this thread's later calls would belong to the group
    throw;
  }
  RINGTAPE_NCCL(ncclGroupEnd());
}

/// Work in a CUDA stream. Its tensors are released as soon as the stream that was current at the call waits
/// for it; if only another stream waits, once it is complete and the Work has been destroyed.
class OperationState : public Work::State {
 public:
  OperationState(std::shared_ptr<NcclOperation> operation, const Stream& caller)
      : operation_(std::move(operation)), caller_(caller) {}
  void wait() override {
    const Stream current = Stream::current(caller_.device());
    operation_->done.wait_on(current);
    if (current.native() == caller_.native()) operation_->tensors.clear();
  }

 private:
  std::shared_ptr<NcclOperation> operation_;
  Stream caller_;
};

/// NCCL's communicator for `id`; returns when all ranks have called it.
ncclComm_t init_comm(NcclMonitor& monitor, const ncclUniqueId& id, int rank, int size, Device device,
                     Seconds timeout) {
  Call call;
  call.operation = CommOperation::connect;
  RINGTAPE_CUDA(cudaSetDevice(device.index));
  const auto watch = monitor.watchdog().begin(monitor.rank_name(), call, timeout);
  ncclComm_t comm = nullptr;
  RINGTAPE_NCCL(ncclCommInitRank(&comm, size, id, rank));
  return comm;
}

/// The variable NCCL_COMM_ID while ranks connect: with it every rank's ncclGetUniqueId returns the id of a
/// listener that rank 0 opens at that address. Unless the user has set it, it is removed afterwards: other
/// communicators of the process have ids of their own.
class SharedId {
 public:
  explicit SharedId(const RankEnvironment& env) {
    if (const char* const given = std::getenv(kVariable)) {
      check_address(kVariable, given);
      return;
    }
    const int port = env.master_port < 65535 ? env.master_port + 1 : env.master_port - 1;
    // The ranks would wait for ever at a port of another process.
    if (env.rank == 0) check_port_is_free(port);
    setenv(kVariable, with_port(env.master_address, port).c_str(), /*overwrite=*/0);
    own_ = true;
  }
  SharedId(const SharedId&) = delete;
  SharedId& operator=(const SharedId&) = delete;
  ~SharedId() {
    if (own_) unsetenv(kVariable);
  }

 private:
  static constexpr const char* kVariable = "NCCL_COMM_ID";
  bool own_ = false;
};

std::shared_ptr<NcclMonitor> make_monitor(int rank, int size, Device device) {
  return std::make_shared<NcclMonitor>(fmt::format("rank {} of {}", rank, size), device);
}

}  // namespace

std::shared_ptr<NcclCommunicator> NcclCommunicator::connect(std::shared_ptr<Communicator> host_comm,
                                                            Device device) {
  const int rank = host_comm->rank(), size = host_comm->size();
  ncclUniqueId id;
  if (rank == 0) RINGTAPE_NCCL(ncclGetUniqueId(&id));
  const Tensor bytes = empty({sizeof id / sizeof(std::int64_t)}, DType::i64);
  std::memcpy(bytes.raw(), &id, sizeof id);
  host_comm->broadcast(bytes, 0).wait();
  std::memcpy(&id, bytes.raw(), sizeof id);
  auto monitor = make_monitor(rank, size, device);
  const ncclComm_t comm = init_comm(*monitor, id, rank, size, device, host_comm->timeout());
  const Seconds timeout = host_comm->timeout();
  return std::shared_ptr<NcclCommunicator>(
      new NcclCommunicator(comm, std::move(monitor), std::move(host_comm), rank, size, device, timeout));
}

std::shared_ptr<NcclCommunicator> NcclCommunicator::connect(const RankEnvironment& env, Device device,
                                                            Seconds timeout) {
  check(!env.master_address.empty(),
        "NCCL: {} does not give the address of rank 0: start the ranks with mpirun or "
        "torchrun, or with 'srun --mpi=pmix'",
        name_of(env.launcher));
  const SharedId shared(env);
  ncclUniqueId id;
  RINGTAPE_NCCL(ncclGetUniqueId(&id));
  auto monitor = make_monitor(env.rank, env.world_size, device);
  const ncclComm_t comm = init_comm(*monitor, id, env.rank, env.world_size, device, timeout);
  return std::shared_ptr<NcclCommunicator>(
      new NcclCommunicator(comm, std::move(monitor), nullptr, env.rank, env.world_size, device, timeout));
}

NcclCommunicator::NcclCommunicator(ncclComm* comm, std::shared_ptr<NcclMonitor> monitor,
                                   std::shared_ptr<Communicator> host_comm, int rank, int size, Device device,
                                   Seconds timeout)
    : Communicator(rank, size, device, timeout),
      comm_(comm),
      monitor_(std::move(monitor)),
      host_comm_(std::move(host_comm)),
      stream_(Stream::create(device)) {}

NcclCommunicator::~NcclCommunicator() {
  if (std::uncaught_exceptions() > 0) {
    // The communicator stays: ncclCommAbort and ncclCommDestroy may wait for the other ranks, which wait for
    // this one, and the error is printed only after the unwinding. Then the process ends.
    monitor_->stop();
    return;
  }
  Call call;
  call.operation = CommOperation::disconnect;
  const auto watch = monitor_->watchdog().begin(monitor_->rank_name(), call, timeout());
  cudaStreamSynchronize(native(stream_));
  monitor_->stop();
  ncclCommDestroy(comm_);
}

template <class Start>
Work NcclCommunicator::enqueue(const Call& call, std::vector<Tensor> tensors, Seconds timeout,
                               const Start& start) {
  Watchdog::Watch watch = monitor_->watchdog().begin(monitor_->rank_name(), call, timeout);
  const Stream current = Stream::current(device());  // sets the GPU, so it comes before the events
  const auto operation = std::make_shared<NcclOperation>();
  operation->ready.record(current);
  operation->ready.wait_on(stream_);
  start();
  operation->tensors = std::move(tensors);
  operation->done.record(stream_);
  monitor_->add(comm_, call, std::move(watch), operation);
  return Work(std::make_shared<OperationState>(operation, current));
}

void NcclCommunicator::finish_mean(ReduceOp op, const Tensor& sum) {
  if (!is_divided_sum(op, size())) return;
  divide_by(stream_, sum.dtype(), sum.raw(), sum.elements(), size());
}

Work NcclCommunicator::do_all_reduce(const Call& call, const Tensor& input, const Tensor& output) {
  return enqueue(call, {input, output}, timeout(), [&] {
    RINGTAPE_NCCL(ncclAllReduce(input.raw(), output.raw(), call.elements, nccl_type(call.dtype),
                                nccl_op(call.op, size()), comm_, native(stream_)));
    finish_mean(call.op, output);
  });
}

Work NcclCommunicator::do_reduce(const Call& call, const Tensor& input, const Tensor& output) {
  void* to = rank() == call.root ? output.raw() : nullptr;
  return enqueue(call, {input, output}, timeout(), [&] {
    RINGTAPE_NCCL(ncclReduce(input.raw(), to, call.elements, nccl_type(call.dtype), nccl_op(call.op, size()),
                             call.root, comm_, native(stream_)));
    if (rank() == call.root) finish_mean(call.op, output);
  });
}

Work NcclCommunicator::do_broadcast(const Call& call, const Tensor& tensor) {
  return enqueue(call, {tensor}, timeout(), [&] {
    RINGTAPE_NCCL(ncclBroadcast(tensor.raw(), tensor.raw(), call.elements, nccl_type(call.dtype), call.root,
                                comm_, native(stream_)));
  });
}

Work NcclCommunicator::do_all_gather(const Parts& parts) {
  const ncclDataType_t type = nccl_type(parts.call.dtype);
  return enqueue(parts.call, {parts.input, parts.output}, timeout(), [&] {
    if (all_equal(parts.counts)) {
      RINGTAPE_NCCL(ncclAllGather(parts.input.raw(), parts.output.raw(), parts.counts[0], type, comm_,
                                  native(stream_)));
      return;
    }
    in_one_group([&] {
      std::int64_t first = 0;
      for (int root = 0; root < size(); first += parts.counts[root++]) {
        void* part = element_address(parts.output, first);
        RINGTAPE_NCCL(ncclBroadcast(root == rank() ? parts.input.raw() : part, part, parts.counts[root], type,
                                    root, comm_, native(stream_)));
      }
    });
  });
}

Work NcclCommunicator::do_reduce_scatter(const Parts& parts) {
  const ncclDataType_t type = nccl_type(parts.call.dtype);
  const ncclRedOp_t op = nccl_op(parts.call.op, size());
  return enqueue(parts.call, {parts.input, parts.output}, timeout(), [&] {
    if (all_equal(parts.counts)) {
      RINGTAPE_NCCL(ncclReduceScatter(parts.input.raw(), parts.output.raw(), parts.counts[0], type, op, comm_,
                                      native(stream_)));
    } else {
      in_one_group([&] {
        std::int64_t first = 0;
        for (int root = 0; root < size(); first += parts.counts[root++]) {
          RINGTAPE_NCCL(ncclReduce(element_address(parts.input, first),
                                   root == rank() ? parts.output.raw() : nullptr, parts.counts[root], type,
                                   op, root, comm_, native(stream_)));
        }
      });
    }
    finish_mean(parts.call.op, parts.output);
  });
}

Work NcclCommunicator::do_exchange(const Call& call, std::vector<Transfer> sends,
                                   std::vector<Transfer> receives) {
  std::vector<Tensor> tensors;
  for (const Transfer& transfer : sends) tensors.push_back(transfer.tensor);
  for (const Transfer& transfer : receives) tensors.push_back(transfer.tensor);
  const ncclDataType_t type = nccl_type(call.dtype);
  return enqueue(call, std::move(tensors), timeout(), [&] {
    in_one_group([&] {
      for (const Transfer& transfer : sends) {
        RINGTAPE_NCCL(ncclSend(transfer.tensor.raw(), transfer.tensor.elements(), type, transfer.peer, comm_,
                               native(stream_)));
      }
      for (const Transfer& transfer : receives) {
        RINGTAPE_NCCL(ncclRecv(transfer.tensor.raw(), transfer.tensor.elements(), type, transfer.peer, comm_,
                               native(stream_)));
      }
    });
  });
}

/// An all_reduce of one element: it completes on no rank before all ranks have called it.
void NcclCommunicator::do_barrier(const Call& call, Seconds deadline) {
  const Tensor one = empty({1}, DType::i32, device());
  enqueue(call, {one}, deadline, [&] {
    RINGTAPE_NCCL(ncclAllReduce(one.raw(), one.raw(), 1, ncclInt32, ncclMax, comm_, native(stream_)));
  });
  stream_.synchronize();
}

std::shared_ptr<Communicator> NcclCommunicator::do_split(const Call& call, int color, int key) {
  const auto watch = monitor_->watchdog().begin(monitor_->rank_name(), call, timeout());
  stream_.synchronize();  // NCCL forbids operations under way on the communicator that is split
  ncclComm_t comm = nullptr;
  RINGTAPE_NCCL(ncclCommSplit(comm_, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, &comm, nullptr));
  if (comm == nullptr) return nullptr;
  int new_rank = 0, new_size = 0;
  RINGTAPE_NCCL(ncclCommUserRank(comm, &new_rank));
  RINGTAPE_NCCL(ncclCommCount(comm, &new_size));
  auto monitor = std::make_shared<NcclMonitor>(
      fmt::format("{} (rank {} of {} after a split)", monitor_->rank_name(), new_rank, new_size), device());
  return std::shared_ptr<Communicator>(
      new NcclCommunicator(comm, std::move(monitor), host_comm_, new_rank, new_size, device(), timeout()));
}

}  // namespace ringtape
