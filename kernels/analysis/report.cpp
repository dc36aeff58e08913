#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "kernels/analysis/recorder.h"
#include "kernels/analysis/source_lines.h"

namespace ringtape::analysis {
namespace {

std::string text_of(const SourceLine& line) {
  return fmt::format("{}:{}", line.file, line.line);
}

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

const char* verb_of(Access access) {
  return access == Access::read ? "reads" : access == Access::write ? "writes" : "updates";
}

/// The counts of all instructions, added up for each line and kind.
std::vector<LineCounts> by_line(const LaunchRecord& launch, const std::vector<CodeLocation>& locations) {
  std::map<std::tuple<std::string, int, Space, Access>, LineCounts> lines;
  for (std::size_t i = 0; i < launch.sites.size(); ++i) {
    const LineCounts& counts = launch.sites[i].counts;
    if (counts.requests == 0) continue;  // a copy's start: its write counts on arrival
    const SourceLine& where = locations[i].line;
    LineCounts& line = lines[{where.file, where.line, counts.space, counts.access}];
    line.where = where;
    line.space = counts.space;
    line.access = counts.access;
    line.add(counts);
  }
  std::vector<LineCounts> result;
  for (const auto& [key, counts] : lines) result.push_back(counts);
  return result;
}

std::vector<BranchCounts> branches_by_line(const LaunchRecord& launch, const CodeLocation* locations) {
  std::map<std::pair<std::string, int>, BranchCounts> lines;
  for (std::size_t i = 0; i < launch.branches.size(); ++i) {
    if (locations[i].of_executor) continue;
    const SourceLine& where = locations[i].line;
    BranchCounts& line = lines[{where.file, where.line}];
    line.where = where;
    line.executions += launch.branches[i].executions;
    line.divergent += launch.branches[i].divergent;
  }
  std::vector<BranchCounts> result;
  for (const auto& [key, counts] : lines) result.push_back(counts);
  return result;
}

std::string text_of(const RawFinding& finding, const LaunchRecord& launch, const Finding& resolved) {
  const char* verb = verb_of(launch.sites[finding.site].counts.access);
  if (finding.kind == FindingKind::race) {
    return fmt::format("race: {} {} what {} {}, {}", text_of(resolved.where), verb, text_of(resolved.earlier),
                       verb_of(launch.sites[finding.earlier_site].counts.access), finding.text);
  }
  if (finding.kind == FindingKind::unwritten_read) {
    return fmt::format("{} {} {}", text_of(resolved.where), verb, finding.text);
  }
  return fmt::format("{}: what it {} {}", text_of(resolved.where), verb, finding.text);
}

/// Merges findings of one kind at the same lines: an unrolled loop has several instructions.
void add_finding(std::vector<Finding>& findings, const RawFinding& raw, const LaunchRecord& launch,
                 const std::vector<CodeLocation>& locations) {
  Finding finding{raw.kind, locations[raw.site].line, locations[raw.earlier_site].line, raw.count, {}};
  for (Finding& known : findings) {
    if (known.kind == finding.kind && known.where == finding.where && known.earlier == finding.earlier) {
      known.count += finding.count;
      return;
    }
  }
  finding.text = text_of(raw, launch, finding);
  findings.push_back(finding);
}

KernelReport report_of(const LaunchRecord& launch) {
  std::vector<std::uintptr_t> code;
  for (const Site& site : launch.sites) code.push_back(site.code);
  for (const Branches::Counts& branch : launch.branches) code.push_back(branch.code);
  code.push_back(reinterpret_cast<std::uintptr_t>(launch.kernel));
  const std::vector<CodeLocation> locations = locations_of(code);

  KernelReport report;
  report.kernel = locations.back().function;
  report.grid = launch.grid;
  report.block = launch.block;
  report.shared_bytes = launch.shared_bytes;
  report.static_shared_bytes = launch.static_shared_bytes;
  report.lines = by_line(launch, locations);
  for (const auto& [location, count] : launch.barriers) {
    report.barriers.push_back({{base_name(location.first), location.second}, count});
  }
  report.branches = branches_by_line(launch, locations.data() + launch.sites.size());
  for (const RawFinding& finding : launch.findings) add_finding(report.findings, finding, launch, locations);
  report.needed_read = launch.needed_read;
  report.needed_written = launch.needed_written;
  return report;
}

}  // namespace

void LineCounts::add(const LineCounts& more) {
  requests += more.requests;
  lanes += more.lanes;
  transactions += more.transactions;
  ideal += more.ideal;
  bytes += more.bytes;
  while_copying += more.while_copying;
}

double LineCounts::transactions_per_request() const {
  return requests == 0 ? 0 : static_cast<double>(transactions) / static_cast<double>(requests);
}

LineCounts KernelReport::total(Space space, Access access) const {
  LineCounts sum;
  sum.space = space;
  sum.access = access;
  for (const LineCounts& line : lines) {
    if (line.space == space && line.access == access) sum.add(line);
  }
  return sum;
}

std::int64_t KernelReport::bytes_moved() const {
  std::int64_t count = 0;
  for (const LineCounts& line : lines) count += line.space == Space::global ? line.transactions : 0;
  return kSectorBytes * count;
}

std::int64_t KernelReport::barrier_count() const {
  std::int64_t count = 0;
  for (const BarrierCount& barrier : barriers) count += barrier.count;
  return count;
}

std::int64_t KernelReport::divergent_branches() const {
  std::int64_t count = 0;
  for (const BranchCounts& branch : branches) count += branch.divergent;
  return count;
}

Analysis::Analysis() : recorder_(std::make_unique<Recorder>()) {}
Analysis::~Analysis() = default;

void Analysis::add_buffer(const std::string& name, const void* data, std::size_t bytes, bool written) {
  recorder_->add_buffer(name, data, bytes, written);
}

std::vector<KernelReport> Analysis::reports() const {
  std::vector<KernelReport> reports;
  for (const LaunchRecord& launch : recorder_->launches()) reports.push_back(report_of(launch));
  return reports;
}

}  // namespace ringtape::analysis
