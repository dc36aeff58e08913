#include "kernels/analysis/totals.h"

#include <fmt/ranges.h>

#include "core/error.h"

namespace ringtape::analysis {
namespace {

double ratio(std::int64_t a, std::int64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

/// The findings, one text for each kind: "races: 2".
std::vector<std::string> findings_of(const Totals& totals) {
  std::vector<std::string> found;
  const auto add = [&](std::int64_t count, const char* what) {
    if (count > 0) found.push_back(fmt::format("{}: {}", what, count));
  };
  add(totals.races, "races");
  add(totals.unwritten_reads, "reads of unwritten memory");
  add(totals.outside, "accesses outside of the buffers");
  return found;
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
      (line.space == Space::global ? totals.global : totals.shared).add(line);
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

void check_findings(const std::string& kernel, const Totals& totals) {
  check(totals.findings() == 0, "{} is wrong: {}", kernel, fmt::join(findings_of(totals), "; "));
}

std::string verdict(const Totals& totals) {
  constexpr double kTolerated = 0.1;
  constexpr std::int64_t kFewBytes = 4096, kFewCycles = 128;
  std::vector<std::string> remarks = findings_of(totals);
  if (totals.moved() > kFewBytes) {
    const double sectors = ratio(totals.global.transactions, totals.global.ideal);
    const double again = ratio(kSectorBytes * totals.global.ideal, totals.needed);
    if (sectors > 1 + kTolerated)
      remarks.push_back(fmt::format("{:.1f} times the sectors it fills", sectors));
    if (again > 1 + kTolerated) remarks.push_back(fmt::format("asks for its bytes {:.1f} times", again));
  }
  const double waiting = ratio(totals.shared.conflicts(), totals.shared.transactions);
  if (totals.shared.transactions > kFewCycles && waiting > kTolerated) {
    remarks.push_back(fmt::format("waits for banks in {:.0f}% of the cycles", 100 * waiting));
  }
  if (!remarks.empty()) return fmt::format("{}", fmt::join(remarks, "; "));
  return totals.moved() > kFewBytes ? "every byte once, no waiting" : "moves too little to be judged";
}

}  // namespace ringtape::analysis
