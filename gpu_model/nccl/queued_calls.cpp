#include "gpu_model/nccl/queued_calls.h"

#include <cstring>
#include <string>
#include <utility>

#include "gpu_model/nccl/host_threads.h"
#include "gpu_model/runtime/memory_space.h"

namespace gpu_model::nccl {

QueuedCalls::QueuedCalls(std::shared_ptr<CommRank> comm, std::vector<NcclCall> calls, bool captured)
    : comm_(std::move(comm)), captured_(captured) {
  for (const NcclCall& call : calls) (call.is_collective() ? collectives_ : messages_).push_back(call);
  if (captured_) ++comm_->captured;
}

QueuedCalls::~QueuedCalls() {
  if (captured_) --comm_->captured;
}

Progress QueuedCalls::run() {
  if (comm_->is_aborted()) return end();
  if (comm_->has_failed() || !begin()) return Progress::blocked;
  const std::size_t stages = collectives_.size() + (messages_.empty() ? 0 : 1);
  while (stage_ < stages) {
    if (!advance()) return Progress::blocked;
    ++stage_;
    step_ = 0;
    has_shown_ = has_steps_ = false;
  }
  return end();
}

bool QueuedCalls::begin() {
  CommRank::Turn& turn = comm_->turn;
  if (turn.running == this) return true;
  if (turn.running != nullptr) return false;
  if (!captured_ && issue_ != turn.begun) {
    wait_for({Waiting::Cause::turn, (collectives_.empty() ? messages_ : collectives_)[0].shape, 0, 0});
    return false;
  }
  turn.running = this;
  note_activity();
  return true;
}

Progress QueuedCalls::end() {
  wait_for({});
  if (comm_->turn.running == this) comm_->turn.running = nullptr;
  if (!captured_) {
    ++comm_->turn.begun;
    comm_->has_finished();
  }
  stage_ = step_ = 0;
  has_shown_ = has_steps_ = false;
  steps_.clear();
  note_activity();
  comm_->segment().ring(comm_->rank());
  return Progress::done;
}

bool QueuedCalls::advance() {
  if (stage_ < collectives_.size()) {
    const NcclCall& call = collectives_[stage_];
    if (!has_steps_) {
      if (!all_agree(call)) return false;
      steps_ = steps_of(call, comm_->ranks(), comm_->rank());
      has_steps_ = true;
    }
    return run_steps(false, call.shape, number_);
  }
  if (!has_steps_) make_exchange();
  return run_steps(true, messages_[0].shape, 0);
}

bool QueuedCalls::all_agree(const NcclCall& call) {
  const Segment& segment = comm_->segment();
  RankArea& own = segment.rank(comm_->rank());
  if (!has_shown_) {
    {
      const Segment::Lock lock(segment);
      number_ = own.begun++;
      own.shapes[number_ % 2] = call.shape;
    }
    has_shown_ = true;
    note_activity();
    segment.ring_all();
  }
  std::uint64_t missing = 0;
  int differs = -1;
  Shape theirs{};
  {
    const Segment::Lock lock(segment);
    for (int rank = 0; rank < comm_->ranks(); ++rank) {
      const RankArea& area = segment.rank(rank);
      if (area.begun <= number_) {
        missing |= std::uint64_t{1} << rank;
      } else if (area.shapes[number_ % 2] != call.shape && differs < 0) {
        differs = rank;
        theirs = area.shapes[number_ % 2];
      }
    }
  }
  if (differs >= 0) {
    const std::string text = "ranks differ in collective " + std::to_string(number_) +
                             " of a communicator of " + std::to_string(comm_->ranks()) + " ranks: rank " +
                             std::to_string(comm_->rank()) + " calls " + describe(call.shape) + ", rank " +
                             std::to_string(differs) + " calls " + describe(theirs);
    if (segment.fail(ncclInvalidUsage, text)) report("NCCL: " + text);
    return false;
  }
  if (missing != 0) wait_for({Waiting::Cause::peers, call.shape, number_, missing});
  return missing == 0;
}

void QueuedCalls::make_exchange() {
  CommRank::Turn& turn = comm_->turn;
  Step step;
  std::vector<const NcclCall*> own_sends, own_receives;  // from this rank to itself
  heads_.clear();
  for (const NcclCall& call : messages_) {
    const bool is_send = call.shape.function == Function::send;
    const int peer = call.shape.root;
    if (peer == comm_->rank()) {
      (is_send ? own_sends : own_receives).push_back(&call);
      continue;
    }
    std::uint64_t& number = (is_send ? turn.sent : turn.received)[static_cast<std::size_t>(peer)];
    heads_.push_back({number++, call.shape});
    char* const data = is_send ? const_cast<char*>(call.send) : call.receive;
    const Buffers buffers = buffers_of(call.shape, comm_->ranks(), comm_->rank());
    step.transfers.push_back({peer, is_send, data, is_send ? buffers.send : buffers.receive});
  }
  for (std::size_t i = 0; i < own_sends.size(); ++i) {
    const std::size_t bytes = buffers_of(own_sends[i]->shape, 1, 0).send;
    open_device_memory();
    if (bytes > 0) std::memmove(own_receives[i]->receive, own_sends[i]->send, bytes);
  }
  steps_.clear();
  steps_.push_back(std::move(step));
  has_steps_ = true;
}

bool QueuedCalls::run_steps(bool until_read, const Shape& shape, std::uint64_t number) {
  for (; step_ < steps_.size(); ++step_) {
    Step& step = steps_[step_];
    const bool is_collective = stage_ < collectives_.size();
    if (is_collective) heads_.assign(step.transfers.size(), {number, shape});
    const std::uint64_t peers = move_transfers(*comm_, step.transfers, heads_, until_read);
    if (comm_->has_failed()) return false;
    if (peers != 0) {
      Shape first = shape;
      if (!is_collective) {
        for (const NcclCall& call : messages_) {
          if ((peers >> call.shape.root & 1) != 0) first = call.shape;
        }
      }
      wait_for({Waiting::Cause::data, first, number, peers});
      return false;
    }
    if (!step.then) continue;
    open_device_memory();
    step.then();
  }
  return true;
}

void QueuedCalls::wait_for(const Waiting& waiting) {
  if (waiting == waiting_) return;
  waiting_ = waiting;
  comm_->set_waiting(waiting);
}

}  // namespace gpu_model::nccl
