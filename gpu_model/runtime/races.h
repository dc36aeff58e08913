#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu_model/runtime/access_record.h"
#include "gpu_model/runtime/clock.h"

/// Detection of unordered accesses. Two operations that access the same bytes, one of them writing, must be
/// ordered by their stream, by events or by the host's waits; the order in which they ran does not matter.
namespace gpu_model {

struct Node;

/// An operation that has accessed a block of device memory.
struct Access {
  Stamp stamp;
  int stream = 0;
  std::uint64_t launch = 0;  ///< of the graph that it is part of; 0 without one
  int captured_in = 0;       ///< the stream whose capture it was part of
  std::string name;
  const void* caller = nullptr;
  std::uintptr_t begin = 0, end = 0;  ///< the bytes; equal if they are not known
  bool writes = false;
  std::shared_ptr<const Clock> clock;  ///< the operation's; null unless RINGTAPE_MODEL_RACES=exact
};

/// An allocation, and the accesses to it that later ones are compared with. Memory that a graph allocates
/// gets a new history, with the same number, at each launch.
struct BlockHistory {
  std::uint64_t number = 0;   ///< from 1 on
  std::size_t requested = 0;  ///< bytes
  std::uintptr_t begin = 0;
  const char* function = "";  ///< cudaMalloc or cudaMallocAsync
  const void* caller = nullptr;
  int stream = -1;        ///< number of the stream, -1 for cudaMalloc
  bool in_graph = false;  ///< allocated by the launches of a graph
  Access allocated{};     ///< without a name for cudaMalloc, and before a launch
  Access freed{};         ///< without a name while it is live
  std::vector<Access> accesses{};
  std::vector<std::pair<Stamp, Stamp>> reported{};

  bool is_in_pool() const { return stream >= 0; }  ///< by cudaMallocAsync
};

/// "allocation #3 (64 bytes, cudaMalloc in f at x.cpp:2)".
std::string describe(const BlockHistory& history);
/// "cudaMemsetAsync on stream 1 (queued in f at x.cpp:3)".
std::string describe(const Access& access);
/// Reports that an operation uses memory which has been freed, or whose graph has not been launched.
void report_freed_use(const Access& access, const BlockHistory& history);

/// Reports accesses of an operation that are not ordered with earlier ones, and records them. For kernels,
/// whose bytes are not known, that is memory which was not allocated before, or which is freed while they may
/// use it; for copies, fills and library calls the bytes themselves. Also reports the use of freed memory.
void check_accesses(const std::shared_ptr<Node>& node);

/// The same for the bytes that a kernel was seen to touch when it ran, in the allocations of its arguments.
void check_touched(const std::shared_ptr<Node>& node, const std::vector<Touched>& touched);

/// RINGTAPE_MODEL_RACES=exact: whether kernels' accesses are recorded.
bool knows_kernels_bytes();

}  // namespace gpu_model
