#pragma once

#include <string>
#include <vector>

#include "kernels/analysis/analysis.h"
#include "kernels/analysis/request.h"

namespace ringtape::analysis {

/// The total cost of several launches.
struct Totals {
  LineCounts global, shared;
  std::int64_t needed = 0;  ///< bytes of global memory, added up over the launches
  std::int64_t barriers = 0;
  std::int64_t divergent_branches = 0;
  std::int64_t races = 0, unwritten_reads = 0, outside = 0;  ///< lines with such a finding

  std::int64_t findings() const { return races + unwritten_reads + outside; }
  /// Bytes of the sectors of global memory.
  std::int64_t moved() const { return kSectorBytes * global.transactions; }
  double moved_per_needed() const;
};
Totals totals_of(const std::vector<KernelReport>& reports);

/// Throws Error with the numbers of races, unwritten reads and outside accesses, if there are any.
void check_findings(const std::string& kernel, const Totals& totals);

/// A short verdict: findings, partly used sectors, bytes read again, bank conflicts, or no problem. The
/// traffic of a launch of a few kilobytes is not judged; the verdict then says so.
std::string verdict(const Totals& totals);

}  // namespace ringtape::analysis
