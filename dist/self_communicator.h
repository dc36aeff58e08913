#pragma once

#include "dist/communicator.h"

namespace ringtape {

/// The communicator of a single rank: every operation is a copy or does nothing.
class SelfCommunicator : public Communicator {
 public:
  explicit SelfCommunicator(Device device, Seconds timeout = Seconds(60))
      : Communicator(0, 1, device, timeout) {}
  const char* backend() const override { return "one rank"; }

 private:
  Work do_all_reduce(const Call& call, const Tensor& input, const Tensor& output) override;
  Work do_reduce(const Call& call, const Tensor& input, const Tensor& output) override;
  Work do_broadcast(const Call& call, const Tensor& tensor) override;
  Work do_all_gather(const Parts& parts) override;
  Work do_reduce_scatter(const Parts& parts) override;
  Work do_exchange(const Call& call, std::vector<Transfer> sends, std::vector<Transfer> receives) override;
  void do_barrier(const Call& call, Seconds deadline) override;
  std::shared_ptr<Communicator> do_split(const Call& call, int color, int key) override;
};

}  // namespace ringtape
