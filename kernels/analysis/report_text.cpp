#include <fmt/format.h>

#include "kernels/analysis/analysis.h"
#include "kernels/analysis/request.h"

namespace ringtape::analysis {
namespace {

std::string lines_table(const KernelReport& report, Space space) {
  const bool global = space == Space::global;
  std::string text;
  for (const LineCounts& line : report.lines) {
    if (line.space != space) continue;
    const char* access = line.access == Access::read    ? "read"
                         : line.access == Access::write ? "write"
                                                        : "atomic";
    text += fmt::format("  {:<28} {:<6} {:>10} {:>6.1f} {:>10} {:>8.2f} {:>8.2f} {:>12}\n",
                        fmt::format("{}:{}", line.where.file, line.where.line), access, line.requests,
                        static_cast<double>(line.lanes) / static_cast<double>(line.requests),
                        line.transactions, line.transactions_per_request(),
                        static_cast<double>(line.ideal) / static_cast<double>(line.requests),
                        global ? kSectorBytes * line.transactions - line.bytes : line.conflicts());
  }
  if (text.empty()) return "";
  return fmt::format("\n  {:<28} {:<6} {:>10} {:>6} {:>10} {:>8} {:>8} {:>12}\n",
                     global ? "global memory" : "shared memory", "", "requests", "lanes",
                     global ? "sectors" : "cycles", "each", "ideal", global ? "bytes unused" : "conflicts") +
         text;
}

}  // namespace

std::string to_text(const KernelReport& report) {
  const auto bytes = [](std::int64_t count) {
    return fmt::format("{:.1f} kB", static_cast<double>(count) / 1e3);
  };
  std::string text = fmt::format(
      "{}: {} x {} x {} blocks of {} x {} x {} threads; bytes of shared memory: {} dynamic, {} static\n",
      report.kernel, report.grid.x, report.grid.y, report.grid.z, report.block.x, report.block.y,
      report.block.z, report.shared_bytes, report.static_shared_bytes);
  const std::int64_t needed = report.needed_read + report.needed_written;
  text += fmt::format(
      "  moves {} of global memory in sectors of {} bytes; needs {} ({} read, {} written), {:.1f} times\n",
      bytes(report.bytes_moved()), kSectorBytes, bytes(needed), bytes(report.needed_read),
      bytes(report.needed_written),
      needed == 0 ? 0.0 : static_cast<double>(report.bytes_moved()) / static_cast<double>(needed));
  text += lines_table(report, Space::global) + lines_table(report, Space::shared);
  if (!report.barriers.empty()) text += fmt::format("\n  {:<35} {:>10}\n", "barriers", "passed");
  for (const BarrierCount& barrier : report.barriers) {
    text += fmt::format("  {:<35} {:>10}\n", fmt::format("{}:{}", barrier.where.file, barrier.where.line),
                        barrier.count);
  }
  if (report.divergent_branches() > 0)
    text += fmt::format("\n  {:<35} {:>10} {:>10}\n", "branches that diverge", "divergent", "of");
  for (const BranchCounts& branch : report.branches) {
    if (branch.divergent == 0) continue;
    text +=
        fmt::format("  {:<35} {:>10} {:>10}\n", fmt::format("{}:{}", branch.where.file, branch.where.line),
                    branch.divergent, branch.executions);
  }
  if (!report.findings.empty()) text += "\n";
  for (const Finding& finding : report.findings) {
    text += fmt::format("  {} ({} time{})\n", finding.text, finding.count, finding.count == 1 ? "" : "s");
  }
  return text;
}

}  // namespace ringtape::analysis
