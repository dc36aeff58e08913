#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/simt/executor.h"

/// The counters of a GPU's profiler, computed without a GPU: docs/analysis.md. For kernels whose `.cu` file
/// was compiled by ringtape_add_analysed_kernels.
namespace ringtape::analysis {

enum class Space { global, shared };
/// An atomic reads and writes; it never races with another atomic.
enum class Access { read, write, atomic };

/// A line of the source. Line 0 of file "?" where the program has no debug information.
struct SourceLine {
  std::string file;
  int line = 0;
  friend bool operator==(const SourceLine&, const SourceLine&) = default;
};

/// The cost of one line's memory instructions.
struct LineCounts {
  SourceLine where;
  Space space = Space::global;
  Access access = Access::read;
  std::int64_t requests = 0;  ///< instructions, each of one warp
  std::int64_t lanes = 0;     ///< active lanes over all requests; below 32 a request, others were idle
  /// Sectors of 32 bytes (global memory), or cycles of the banks (shared).
  std::int64_t transactions = 0;
  /// The fewest transactions for the requested bytes: every sector fully used, or no bank conflict.
  std::int64_t ideal = 0;
  /// Distinct bytes of each request, added up.
  std::int64_t bytes = 0;
  /// Requests while a lane had asynchronous copies in flight (kernels/common/async_copy.h).
  std::int64_t while_copying = 0;

  void add(const LineCounts& more);
  double transactions_per_request() const;
  /// Bank conflicts: cycles beyond the ideal.
  std::int64_t conflicts() const { return transactions - ideal; }
};

struct BarrierCount {
  SourceLine where;
  std::int64_t count = 0;  ///< once for each block that passes
};

struct BranchCounts {
  SourceLine where;             ///< of the condition
  std::int64_t executions = 0;  ///< by warps
  std::int64_t divergent = 0;   ///< executions with lanes on different paths
};

enum class FindingKind {
  race,            ///< two threads access shared memory, one writes, without a barrier; or a copy in flight
  unwritten_read,  ///< of memory not written by a thread of the block or before the launch
  outside,         ///< an access outside of every known buffer
};

struct Finding {
  FindingKind kind = FindingKind::race;
  SourceLine where;    ///< of the access with the problem
  SourceLine earlier;  ///< of the other access of a race
  std::int64_t count = 0;
  std::string text;  ///< one line: the problem, both source lines, the first block and threads
};

/// One launch.
struct KernelReport {
  std::string kernel;
  simt::dim3 grid, block;
  std::size_t shared_bytes = 0;         ///< dynamic
  std::size_t static_shared_bytes = 0;  ///< bytes of __shared__ variables that threads used
  std::vector<LineCounts> lines;        ///< by file and line; instructions of one kind and line are added up
  std::vector<BarrierCount> barriers;
  std::vector<BranchCounts> branches;  ///< in the compiled code, where a short `if` may have no branch
  std::vector<Finding> findings;
  /// Distinct bytes of global memory that the launch reads and writes: the least it must move.
  std::int64_t needed_read = 0, needed_written = 0;

  /// All lines of one kind, added up; `where` is empty.
  LineCounts total(Space space, Access access) const;
  /// Global memory, all accesses: bytes of the sectors moved.
  std::int64_t bytes_moved() const;
  std::int64_t barrier_count() const;
  std::int64_t divergent_branches() const;
};

class Recorder;

/// Records the launches of analysed kernels on the CPU during its lifetime. Only one can exist at a time.
class Analysis {
 public:
  Analysis();
  ~Analysis();
  Analysis(const Analysis&) = delete;
  Analysis& operator=(const Analysis&) = delete;

  /// Adds global memory that kernels may access; an access elsewhere is a finding. With `written` its
  /// contents count as written before the first launch. A launch may read what earlier launches wrote.
  void add_buffer(const std::string& name, const void* data, std::size_t bytes, bool written);
  /// One for each launch so far, in order. Reads the program's debug information through `addr2line`.
  std::vector<KernelReport> reports() const;

 private:
  std::unique_ptr<Recorder> recorder_;
};

/// The report as a table of lines, followed by findings.
std::string to_text(const KernelReport& report);

}  // namespace ringtape::analysis
