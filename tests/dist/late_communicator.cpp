#include "tests/dist/late_communicator.h"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <utility>
#include <vector>

namespace ringtape::test {
namespace {

int dropped_gathers = 0;

/// A result that has arrived elsewhere, and where it belongs.
struct Late {
  Tensor arrived;
  Tensor output;
};

class LateState : public Work::State {
 public:
  LateState(Call call, Work work, std::vector<Late> results)
      : call_(std::move(call)), work_(std::move(work)), results_(std::move(results)) {}

  /// An all-reduce may have been called for the other ranks alone, and a gather of values that have changed
  /// since is not used.
  ~LateState() override {
    if (has_waited_ || call_.operation == CommOperation::all_reduce || std::uncaught_exceptions() > 0) return;
    if (call_.operation == CommOperation::all_gather) {
      ++dropped_gathers;
      return;
    }
    std::cerr << "error: nobody waited for " << describe(call_) << std::endl;
    std::abort();
  }

  void wait() override {
    has_waited_ = true;
    work_.wait();
    for (const Late& each : std::exchange(results_, {})) {
      Tensor output = each.output;
      output.copy_from(each.arrived);
    }
  }

 private:
  Call call_;
  Work work_;
  std::vector<Late> results_;
  bool has_waited_ = false;
};

Tensor copy_of(const Tensor& tensor) {
  Tensor copy = empty(tensor.shape(), tensor.dtype(), tensor.device());
  copy.copy_from(tensor);
  return copy;
}

/// A copy of `output` for the result; `output` becomes NaN (integers: -1).
Tensor instead_of(const Tensor& output) {
  Tensor arrived = copy_of(output);
  std::memset(output.raw(), 0xFF, static_cast<std::size_t>(output.bytes()));
  return arrived;
}

class LateCommunicator : public Communicator {
 public:
  explicit LateCommunicator(std::shared_ptr<Communicator> ranks)
      : Communicator(ranks->rank(), ranks->size(), ranks->device(), ranks->timeout()),
        ranks_(std::move(ranks)) {}

  const char* backend() const override { return ranks_->backend(); }

 protected:
  Work do_all_reduce(const Call& call, const Tensor& input, const Tensor& output) override {
    const Tensor sent = copy_of(input), arrived = instead_of(output);
    return late(call, ranks_->all_reduce(sent, arrived, call.op), {{arrived, output}});
  }
  Work do_reduce(const Call& call, const Tensor& input, const Tensor& output) override {
    const Tensor sent = copy_of(input);
    if (rank() != call.root) return late(call, ranks_->reduce(sent, {}, call.op, call.root), {});
    const Tensor arrived = instead_of(output);
    return late(call, ranks_->reduce(sent, arrived, call.op, call.root), {{arrived, output}});
  }
  Work do_broadcast(const Call& call, const Tensor& tensor) override {
    const Tensor arrived = rank() == call.root ? copy_of(tensor) : instead_of(tensor);
    return late(call, ranks_->broadcast(arrived, call.root), {{arrived, tensor}});
  }
  Work do_all_gather(const Parts& parts) override {
    const Tensor sent = copy_of(parts.input), arrived = instead_of(parts.output);
    return late(parts.call, ranks_->all_gather(sent, arrived, parts.counts), {{arrived, parts.output}});
  }
  Work do_reduce_scatter(const Parts& parts) override {
    const Tensor sent = copy_of(parts.input), arrived = instead_of(parts.output);
    return late(parts.call, ranks_->reduce_scatter(sent, arrived, parts.call.op, parts.counts),
                {{arrived, parts.output}});
  }
  Work do_exchange(const Call& call, std::vector<Transfer> sends, std::vector<Transfer> receives) override {
    std::vector<Late> results;
    for (Transfer& each : sends) each.tensor = copy_of(each.tensor);
    for (Transfer& each : receives) {
      results.push_back({instead_of(each.tensor), each.tensor});
      each.tensor = results.back().arrived;
    }
    return late(call, ranks_->exchange(std::move(sends), std::move(receives)), std::move(results));
  }
  void do_barrier(const Call&, Seconds deadline) override { ranks_->barrier(deadline); }
  std::shared_ptr<Communicator> do_split(const Call&, int color, int key) override {
    auto part = ranks_->split(color, key);
    return part == nullptr ? nullptr : late_communicator(std::move(part));
  }

 private:
  static Work late(const Call& call, Work work, std::vector<Late> results) {
    return Work(std::make_shared<LateState>(call, std::move(work), std::move(results)));
  }

  std::shared_ptr<Communicator> ranks_;
};

}  // namespace

int gathers_nobody_waited_for() {
  return dropped_gathers;
}

std::shared_ptr<Communicator> late_communicator(std::shared_ptr<Communicator> ranks) {
  return std::make_shared<LateCommunicator>(std::move(ranks));
}

}  // namespace ringtape::test
