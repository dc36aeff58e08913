#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gpu_model/nccl/call.h"
#include "gpu_model/nccl/collective.h"
#include "gpu_model/nccl/comm_rank.h"
#include "gpu_model/runtime/engine.h"

namespace gpu_model::nccl {

/// The operations of a call, or of a group's calls on one communicator, on this rank: the collectives one
/// after the other, then all sends and receives concurrently. Operations of a communicator run one after the
/// other, in the order of the calls, on any streams; operations of graphs in the order of the graph.
///
/// A collective begins when all ranks have called it, and a send ends when its peer has received it. NCCL
/// guarantees neither; a program that relies on neither runs on both.
class QueuedCalls {
 public:
  /// `captured`: the calls belong to a graph, which runs them any number of times.
  QueuedCalls(std::shared_ptr<CommRank> comm, std::vector<NcclCall> calls, bool captured);
  ~QueuedCalls();
  QueuedCalls(const QueuedCalls&) = delete;
  QueuedCalls& operator=(const QueuedCalls&) = delete;

  void set_issue(std::uint64_t issue) { issue_ = issue; }
  Progress run();

 private:
  bool begin();
  Progress end();
  /// Advances by one stage: a collective, or all sends and receives. False while it is blocked.
  bool advance();
  /// Publishes this rank's collective to the others; true when all of them have reached the same one.
  bool all_agree(const NcclCall& call);
  void make_exchange();
  bool run_steps(bool until_read, const Shape& shape, std::uint64_t number);
  void wait_for(const Waiting& waiting);

  std::shared_ptr<CommRank> comm_;
  std::vector<NcclCall> collectives_, messages_;
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
