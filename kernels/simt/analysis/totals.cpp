#include "kernels/simt/analysis/totals.h"

#include <fmt/format.h>

namespace ringtape::analysis {
namespace {

double ratio(std::int64_t a, std::int64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

void add(LineCounts& sum, const LineCounts& line) {
  sum.requests += line.requests;
  sum.lanes += line.lanes;
  sum.transactions += line.transactions;
  sum.ideal += line.ideal;
  sum.bytes += line.bytes;
  sum.while_copying += line.while_copying;
}

}  // namespace

double Totals::moved_per_needed() const {
  return ratio(moved(), needed);
}

Totals totals_of(const std::vector<KernelReport>& reports) {
  Totals totals;
  totals.shared.space = Space::shared;
  for (const KernelReport& report : reports) {
    for (const LineCounts& line : report.lines) {
      add(line.space == Space::global ? totals.global : totals.shared, line);
    }
    totals.needed += report.needed_read + report.needed_written;
    totals.barriers += report.barrier_count();
    totals.divergent_branches += report.divergent_branches();
    for (const Finding& finding : report.findings) {
      std::int64_t& count = finding.kind == FindingKind::race             ? totals.races
                            : finding.kind == FindingKind::unwritten_read ? totals.unwritten_reads
                                                                          : totals.outside;
      ++count;
    }
  }
  return totals;
}

std::string verdict(const Totals& totals) {
  constexpr double kTolerated = 0.1;
  constexpr std::int64_t kFewBytes = 4096, kFewCycles = 128;
  std::vector<std::string> remarks;
  const auto found = [&](std::int64_t count, const char* what) {
    if (count > 0) remarks.push_back(fmt::format("{}: {}", what, count));
  };
  found(totals.races, "races");
  found(totals.unwritten_reads, "reads of unwritten memory");
  found(totals.outside, "accesses outside of the buffers");
  if (totals.moved() > kFewBytes) {
    const double sectors = ratio(totals.global.transactions, totals.global.ideal);
    const double again = ratio(32 * totals.global.ideal, totals.needed);
    if (sectors > 1 + kTolerated)
      remarks.push_back(fmt::format("{:.1f} times the sectors it fills", sectors));
    if (again > 1 + kTolerated) remarks.push_back(fmt::format("asks for its bytes {:.1f} times", again));
  }
  const double waiting = ratio(totals.shared.conflicts(), totals.shared.transactions);
  if (totals.shared.transactions > kFewCycles && waiting > kTolerated) {
    remarks.push_back(fmt::format("waits for banks in {:.0f}% of the cycles", 100 * waiting));
  }
  return remarks.empty() ? "every byte once, no waiting" : fmt::format("{}", fmt::join(remarks, "; "));
}

}  // namespace ringtape::analysis
