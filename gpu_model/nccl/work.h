#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gpu_model/nccl/call.h"
#include "gpu_model/nccl/collective.h"
#include "gpu_model/nccl/communicator.h"
#include "gpu_model/runtime/engine.h"

namespace gpu_model::nccl {

/// What a call, or a group's calls on one communicator, do on this rank: the collectives one after the other,
/// then all sends and receives at the same time. Operations of a communicator run one after the other, in the
/// order of the calls whatever their streams; those of graphs when their turn comes in the graph.
///
/// A collective begins when all ranks have come to it, and a send ends when its peer has received: NCCL
/// promises neither, and programs that need no such promise run on both.
class Work {
 public:
  /// `captured`: for a graph, to be run any number of times.
  Work(std::shared_ptr<Communicator> comm, std::vector<Call> calls, bool captured);
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  void set_issue(std::uint64_t issue) { issue_ = issue; }
  Progress run();

 private:
  bool begin();
  Progress end();
  /// One stage further: a collective, or all sends and receives. False while it is blocked.
  bool advance();
  /// Shows the others what this rank has come to; true when they have come to the same.
  bool all_agree(const Call& call);
  void make_exchange();
  bool run_steps(bool until_read, const Shape& shape, std::uint64_t number);
  void wait_for(const Waiting& waiting);

  std::shared_ptr<Communicator> comm_;
  std::vector<Call> collectives_, messages_;
  bool captured_;
  std::uint64_t issue_ = 0;

  // While it runs.
  std::size_t stage_ = 0, step_ = 0;
  bool has_shown_ = false, has_steps_ = false;
  std::uint64_t number_ = 0;  ///< of the collective
  std::vector<Step> steps_;
  std::vector<MessageHead> heads_;
  Waiting waiting_;
};

}  // namespace gpu_model::nccl
