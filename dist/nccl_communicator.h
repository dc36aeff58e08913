#pragma once

#include <memory>

#include "core/stream.h"
#include "dist/communicator.h"
#include "dist/launch.h"

struct ncclComm;

namespace ringtape {

class NcclMonitor;

/// Ranks on GPUs, connected by NCCL. Operations run in a stream of their own: each waits for what the current
/// stream held when it was called, and Work::wait() makes the current stream wait for the operation.
///
/// NCCL does not compare what the ranks ask for. Ranks that disagree wait for each other, which the watchdog
/// ends.
class NcclCommunicator : public Communicator {
 public:
  /// The ranks of `host_ranks`, over which NCCL's id is sent. Kept as long as this communicator.
  static std::shared_ptr<NcclCommunicator> connect(std::shared_ptr<Communicator> host_ranks, Device device);
  /// The ranks that torchrun started. They find each other at rank 0's address and the port after that of
  /// torchrun's own agent, or where the variable NCCL_COMM_ID says (address:port).
  static std::shared_ptr<NcclCommunicator> connect(const Launch& launch, Device device, Seconds timeout);
  /// Waits for what is under way, but not while an exception unwinds the stack.
  ~NcclCommunicator() override;
  const char* backend() const override { return "NCCL"; }

 private:
  NcclCommunicator(ncclComm* ranks, std::shared_ptr<NcclMonitor> monitor,
                   std::shared_ptr<Communicator> host_ranks, int rank, int size, Device device,
                   Seconds timeout);

  Work do_all_reduce(const Call& call, const Tensor& input, const Tensor& output) override;
  Work do_reduce(const Call& call, const Tensor& input, const Tensor& output) override;
  Work do_broadcast(const Call& call, const Tensor& tensor) override;
  Work do_all_gather(const Parts& parts) override;
  Work do_reduce_scatter(const Parts& parts) override;
  Work do_exchange(const Call& call, std::vector<Transfer> sends, std::vector<Transfer> receives) override;
  void do_barrier(const Call& call, Seconds deadline) override;
  std::shared_ptr<Communicator> do_split(const Call& call, int color, int key) override;

  /// Calls `start`, which queues NCCL's operations on stream_, between what comes before and after them.
  template <class Start>
  Work enqueue(const Call& call, std::vector<Tensor> tensors, Seconds timeout, const Start& start);

  ncclComm* ranks_;
  std::shared_ptr<NcclMonitor> monitor_;
  std::shared_ptr<Communicator> host_ranks_;
  Stream stream_;
};

}  // namespace ringtape
