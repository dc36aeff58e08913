#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/simt/executor.h"

/// What a GPU's profiler would say of a kernel, found without a GPU: docs/analysis.md. It sees kernels whose
/// `.cu` file was compiled by ringtape_add_analysed_kernels.
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

/// What the memory instructions of one line have cost.
struct LineCounts {
  SourceLine where;
  Space space = Space::global;
  Access access = Access::read;
  std::int64_t requests = 0;  ///< instructions, each of one warp
  std::int64_t lanes = 0;     ///< that took part, over all requests: below 32 each, the others were idle
  /// Sectors of 32 bytes (global memory), or cycles of the banks (shared).
  std::int64_t transactions = 0;
  /// The fewest that the bytes asked for allow: all bytes of every sector used, or no bank conflict.
  std::int64_t ideal = 0;
  /// Different bytes of each request, added up.
  std::int64_t bytes = 0;
  /// Requests of lanes that had asynchronous copies under way (kernels/common/async_copy.h).
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
  std::int64_t divergent = 0;   ///< of these: lanes of the warp went different ways
};

enum class FindingKind {
  race,  ///< two threads, shared memory, one of them writes, no barrier between; or a copy under way
  unwritten_read,  ///< of memory that nothing has written: no thread of the block, nobody before the launch
  outside,         ///< of every buffer that the analysis was told of
};

struct Finding {
  FindingKind kind = FindingKind::race;
  SourceLine where;    ///< of the access that shows it
  SourceLine earlier;  ///< of the other access of a race
  std::int64_t count = 0;
  std::string text;  ///< one line: what, both lines, the first block and threads
};

/// One launch.
struct KernelReport {
  std::string kernel;
  simt::dim3 grid, block;
  std::size_t shared_bytes = 0;         ///< dynamic
  std::size_t static_shared_bytes = 0;  ///< of __shared__ variables: the bytes that threads have used
  std::vector<LineCounts> lines;  ///< by file and line; several instructions of a line of one kind are one
  std::vector<BarrierCount> barriers;
  std::vector<BranchCounts> branches;  ///< as the compiler left them: a short `if` may have become none
  std::vector<Finding> findings;
  /// Different bytes of global memory that the launch reads and writes: what it must move at least.
  std::int64_t needed_read = 0, needed_written = 0;

  /// All lines of one kind, added up; `where` is empty.
  LineCounts total(Space space, Access access) const;
  /// Global memory, all accesses: bytes of the sectors moved.
  std::int64_t bytes_moved() const;
  std::int64_t barrier_count() const;
  std::int64_t divergent_branches() const;
};

class Recorder;

/// Watches the launches of analysed kernels on the CPU from its construction to its end. One at a time.
class Analysis {
 public:
  Analysis();
  ~Analysis();
  Analysis(const Analysis&) = delete;
  Analysis& operator=(const Analysis&) = delete;

  /// Global memory that kernels may use; an access elsewhere is a finding. `written` says that its contents
  /// count as written before the first launch; what one launch writes, the next may read.
  void add_buffer(const std::string& name, const void* data, std::size_t bytes, bool written);
  /// One for each launch so far, in order. Reads the program's debug information through `addr2line`.
  std::vector<KernelReport> reports() const;

 private:
  std::unique_ptr<Recorder> recorder_;
};

/// The report as a table of lines, followed by findings.
std::string to_text(const KernelReport& report);

}  // namespace ringtape::analysis
