#include "gpu_model/nccl/comm_rank.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <tuple>
#include <utility>

#include "gpu_model/nccl/deadlock.h"
#include "gpu_model/nccl/error.h"
#include "gpu_model/nccl/host_threads.h"
#include "gpu_model/runtime/engine.h"

namespace gpu_model::nccl {
namespace {

constexpr int kTick = 50;  // milliseconds

struct Registry {
  std::mutex mutex;
  std::vector<std::shared_ptr<CommRank>> communicators;
};

Registry& registry() {
  static Registry* const all = new Registry;  // outlives every thread
  return *all;
}

std::string list_of(std::uint64_t ranks) {
  std::string text;
  for (int rank = 0; rank < kMaxRanks; ++rank) {
    if ((ranks >> rank & 1) == 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(rank);
  }
  return (text.find(',') == std::string::npos ? "rank " : "ranks ") + text;
}

}  // namespace

CommRank::CommRank(int file, int rank, int device, std::string place)
    : segment_(file), rank_(rank), device_(device), place_(std::move(place)) {
  if (!is_mapped()) return;
  turn.sent.resize(static_cast<std::size_t>(ranks()));
  turn.received.resize(static_cast<std::size_t>(ranks()));
}

CommRank::~CommRank() = default;

ncclResult_t CommRank::error() const {
  const ncclResult_t error = segment_.error();
  return error == ncclSuccess ? error : fail(error, segment_.error_text());
}

ncclResult_t CommRank::start() {
  segment_.rank(rank_).process = static_cast<std::int32_t>(getpid());
  thread_ = std::thread([this] { loop(); });
  for (int other = 0; other < ranks();) {
    const std::uint32_t seen = segment_.rank(rank_).bell;
    if (segment_.rank(other).presence != Presence::joining) {
      ++other;
    } else {
      segment_.listen(rank_, seen, kTick);
    }
  }
  return ncclSuccess;
}

void CommRank::leave(Presence how) {
  if (how == Presence::aborted) {
    aborted_ = true;
    make_progress(true);  // completes the operations
  }
  segment_.rank(rank_).presence = how;
  stopped_ = true;
  segment_.ring_all();
  thread_.join();
  wake_waiting();
}

ncclResult_t CommRank::wait_for_operations() {
  const auto is_over = [this] { return has_failed() || unfinished() == 0; };
  const HostWait wait(is_over);
  while (!is_over()) {
    const std::uint32_t seen = segment_.rank(rank_).bell;
    if (!make_progress(true)) segment_.listen(rank_, seen, kTick);
  }
  return error();
}

void CommRank::has_queued() {
  note_activity();
  if (peers_wait_for_this()) segment_.ring(rank_);
}

void CommRank::set_waiting(const Waiting& waiting) {
  const std::lock_guard lock(waiting_mutex_);
  waiting_ = waiting;
}

Waiting CommRank::waiting() const {
  Waiting waiting;
  {
    const std::lock_guard lock(waiting_mutex_);
    waiting = waiting_;
  }
  if (waiting.cause != Waiting::Cause::split) return waiting;
  waiting.ranks = missing_in_split(waiting.number);
  return waiting.ranks == 0 ? Waiting{} : waiting;
}

bool CommRank::peers_wait_for_this() const {
  for (int other = 0; other < ranks(); ++other) {
    if (other == rank_) continue;
    const Channel& to = segment_.channel(rank_, other);
    const Channel& from = segment_.channel(other, rank_);
    if (to.wanted > to.sent || from.written > from.read) return true;
  }
  const Segment::Lock lock(segment_);
  for (int other = 0; other < ranks(); ++other) {
    if (segment_.rank(other).begun > segment_.rank(rank_).begun) return true;
  }
  return false;
}

std::uint64_t CommRank::missing_in_split(std::uint64_t number) const {
  std::uint64_t missing = 0;
  const Segment::Lock lock(segment_);
  for (int other = 0; other < ranks(); ++other) {
    if (segment_.rank(other).splits <= number) missing |= std::uint64_t{1} << other;
  }
  return missing;
}

std::string CommRank::end_of(int rank) const {
  const Presence presence = segment_.rank(rank).presence;
  if (presence == Presence::destroyed) return "has destroyed its communicator";
  if (presence == Presence::aborted) return "has aborted its communicator";
  return segment_.has_died(rank) ? "has ended" : "";
}

void CommRank::look_for_the_dead() {
  for (int other = 0; other < ranks(); ++other) {
    if ((waiting().ranks >> other & 1) == 0 || other == rank_) continue;
    const std::string how = end_of(other);
    if (how.empty()) continue;
    make_progress(true);  // by all that the other did before its end
    const Waiting waits = waiting();
    if ((waits.ranks >> other & 1) == 0) continue;
    segment_.fail(ncclRemoteError,
                  "rank " + std::to_string(other) + " " + how + "; " + describe(waits, rank_));
    return;
  }
}

void CommRank::loop() {
  RankArea& area = segment_.rank(rank_);
  pthread_mutex_lock(&area.alive);
  area.presence = Presence::here;
  segment_.ring_all();
  while (!stopped_) {
    const std::uint32_t seen = area.bell;
    const bool waits = waiting().cause != Waiting::Cause::none;
    if ((unfinished() > 0 || captured > 0) && (waits || peers_wait_for_this())) make_progress(true);
    if (area.bell != seen) continue;
    segment_.listen(rank_, seen, kTick);
    if (area.bell != seen || has_failed()) continue;
    // No message has arrived for that time.
    if (waits) look_for_the_dead();
    look_for_deadlock(*this);
  }
  pthread_mutex_unlock(&area.alive);
}

ncclResult_t CommRank::split(int color, int key, std::string& place, int& new_ranks, int& new_rank) {
  RankArea& area = segment_.rank(rank_);
  const std::uint64_t number = area.splits;
  {
    const Segment::Lock lock(segment_);
    area.split[number % 2] = {color, key};
    ++area.splits;
  }
  note_activity();
  segment_.ring_all();
  const HostWait wait([this, number] { return has_failed() || missing_in_split(number) == 0; });
  for (;;) {
    const std::uint32_t seen = area.bell;
    if (missing_in_split(number) == 0) break;
    set_waiting({Waiting::Cause::split, {}, number, 0});
    if (has_failed()) return error();
    segment_.listen(rank_, seen, kTick);
  }
  set_waiting({});
  note_activity();
  const Segment::Lock lock(segment_);
  std::vector<std::tuple<int, int>> members;  // key and old rank
  for (int other = 0; other < ranks(); ++other) {
    const RankArea::Split& theirs = segment_.rank(other).split[number % 2];
    if (theirs.color == color) members.emplace_back(theirs.key, other);
  }
  std::sort(members.begin(), members.end());
  new_ranks = static_cast<int>(members.size());
  new_rank =
      static_cast<int>(std::find(members.begin(), members.end(), std::tuple(key, rank_)) - members.begin());
  char digits[40];
  std::snprintf(digits, sizeof digits, "-%llx-%x", static_cast<unsigned long long>(number),
                static_cast<unsigned>(color));
  place = place_ + digits;
  if (place.size() > 70) {  // the name of a socket has 107 characters
    std::uint64_t hash = 14695981039346656037ULL;
    for (const char c : place) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    std::snprintf(digits, sizeof digits, "-%016llx", static_cast<unsigned long long>(hash));
    place = place.substr(0, 40) + digits;
  }
  return ncclSuccess;
}

std::vector<std::shared_ptr<CommRank>> all_communicators() {
  const std::lock_guard lock(registry().mutex);
  return registry().communicators;
}

void remember(const std::shared_ptr<CommRank>& comm) {
  const std::lock_guard lock(registry().mutex);
  registry().communicators.push_back(comm);
}

void forget(const CommRank* comm) {
  const std::lock_guard lock(registry().mutex);
  std::erase_if(registry().communicators, [&](const auto& other) { return other.get() == comm; });
}

std::string describe(const Waiting& waiting, int rank) {
  std::string text = "rank " + std::to_string(rank) + " waits in ";
  const std::string number = std::to_string(waiting.number);
  switch (waiting.cause) {
    case Waiting::Cause::none:
      return "rank " + std::to_string(rank) + " does not wait";
    case Waiting::Cause::turn:
      return text + describe(waiting.shape) + ", which comes after an operation that has not begun";
    case Waiting::Cause::peers:
      text += describe(waiting.shape) + " (collective " + number + " of the communicator)";
      break;
    case Waiting::Cause::data:
      text += describe(waiting.shape);
      break;
    case Waiting::Cause::split:
      text += "ncclCommSplit (" + number + " of the communicator)";
      break;
  }
  return text + " for " + list_of(waiting.ranks);
}

}  // namespace gpu_model::nccl
