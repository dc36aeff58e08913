#pragma once

#include <memory>

#include "core/stream.h"
#include "dist/communicator.h"
#include "dist/rank_environment.h"

struct ncclComm;

namespace ringtape {

class NcclMonitor;

/// Ranks on GPUs, connected by NCCL. Operations run in a separate stream: each waits for the work that was
/// queued in the current stream when it was called, and Work::wait() makes the current stream wait for the
/// operation.
///
/// NCCL does not compare the calls of the ranks. Ranks whose calls differ wait for each other, until the
/// watchdog ends them.
class NcclCommunicator : public Communicator {
 public:
  /// The ranks of `host_comm`, which sends NCCL's id, and which this communicator keeps.
  static std::shared_ptr<NcclCommunicator> connect(std::shared_ptr<Communicator> host_comm, Device device);
  /// The ranks that torchrun started. They connect to rank 0's address and the port after the port of
  /// torchrun's agent, or to the address in the variable NCCL_COMM_ID: HOST:PORT, or [ADDRESS]:PORT for IPv6.
  /// Throws Error without an address, for a malformed one, and on rank 0 for a port that is in use.
  static std::shared_ptr<NcclCommunicator> connect(const RankEnvironment& env, Device device,
                                                   Seconds timeout);
  /// Waits for the operations in flight, but not while an exception unwinds the stack.
  ~NcclCommunicator() override;
  const char* backend() const override { return "NCCL"; }

 private:
  NcclCommunicator(ncclComm* comm, std::shared_ptr<NcclMonitor> monitor,
                   std::shared_ptr<Communicator> host_comm, int rank, int size, Device device,
                   Seconds timeout);

  Work do_all_reduce(const Call& call, const Tensor& input, const Tensor& output) override;
  Work do_reduce(const Call& call, const Tensor& input, const Tensor& output) override;
  Work do_broadcast(const Call& call, const Tensor& tensor) override;
  Work do_all_gather(const Parts& parts) override;
  Work do_reduce_scatter(const Parts& parts) override;
  Work do_exchange(const Call& call, std::vector<Transfer> sends, std::vector<Transfer> receives) override;
  void do_barrier(const Call& call, Seconds deadline) override;
  std::shared_ptr<Communicator> do_split(const Call& call, int color, int key) override;

  /// Makes stream_ wait for the current stream, and calls `start`, which queues NCCL's operations on stream_.
  template <class Start>
  Work enqueue(const Call& call, std::vector<Tensor> tensors, Seconds timeout, const Start& start);

  /// Queues the division of a mean that NCCL computed as a sum.
  void finish_mean(ReduceOp op, const Tensor& sum);

  ncclComm* comm_;
  std::shared_ptr<NcclMonitor> monitor_;
  std::shared_ptr<Communicator> host_comm_;
  Stream stream_;
};

}  // namespace ringtape
