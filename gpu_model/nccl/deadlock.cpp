#include "gpu_model/nccl/deadlock.h"

#include <cstdio>
#include <set>
#include <string>

#include "gpu_model/nccl/comm_rank.h"
#include "gpu_model/nccl/host_threads.h"
#include "gpu_model/runtime/engine.h"

namespace gpu_model::nccl {
namespace {

std::set<std::int32_t> processes_of(const CommRank& comm) {
  std::set<std::int32_t> processes;
  for (int rank = 0; rank < comm.ranks(); ++rank) processes.insert(comm.segment().rank(rank).process);
  return processes;
}

/// The waits of this process, "" if it is not quiet.
std::string waits_when_quiet(const CommRank& comm) {
  if (!all_host_threads_wait()) return "";
  const std::set<std::int32_t> processes = processes_of(comm);
  std::string text;
  bool waits = false;
  for (const auto& other : all_communicators()) {
    const Waiting waiting = other->waiting();
    if (waiting.cause == Waiting::Cause::none) continue;
    waits = true;
    for (const std::int32_t process : processes_of(*other)) {
      if (processes.count(process) == 0) return "";
    }
    if (other.get() != &comm && other->place() == comm.place()) continue;  // another rank reports its own
    if (!text.empty()) text += " and ";
    text += describe(waiting, other->rank());
    if (other.get() != &comm) text += " of communicator " + other->place();
  }
  if (!waits) return "";
  return text.empty() ? "rank " + std::to_string(comm.rank()) + " waits as another of its process does"
                      : text;
}

/// Whether all ranks have taken part in this rank's last wave. Only observations after that count for the
/// next wave, as the effects of earlier actions of other ranks are then visible.
bool is_next_wave(const CommRank& comm) {
  const Segment& segment = comm.segment();
  const Segment::Lock lock(segment);
  for (int rank = 0; rank < comm.ranks(); ++rank) {
    if (segment.rank(rank).waves < segment.rank(comm.rank()).waves) return false;
  }
  return true;
}

}  // namespace

void look_for_deadlock(const CommRank& comm) {
  if (!is_next_wave(comm)) return;
  const std::uint64_t before = activity();
  const std::string waits = waits_when_quiet(comm);
  if (waits.empty() || make_progress(true) || activity() != before || !all_host_threads_wait()) return;

  const Segment& segment = comm.segment();
  std::string text;
  {
    const Segment::Lock lock(segment);
    RankArea& own = segment.rank(comm.rank());
    own.activity[++own.waves % 2] = before;
    std::snprintf(own.waits, sizeof own.waits, "%s", waits.c_str());
    for (int rank = 0; rank < comm.ranks(); ++rank) {
      const RankArea& area = segment.rank(rank);
      if (area.waves != own.waves || area.waves < 2 || area.activity[0] != area.activity[1]) return;
      text += std::string(rank == 0 ? "" : "; ") + area.waits;
    }
  }
  text = "deadlock: " + text;
  if (segment.fail(ncclInvalidUsage, text)) report("NCCL: " + text);
}

}  // namespace gpu_model::nccl
