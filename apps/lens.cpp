// Shows what the rungs of a kernel ladder cost a GPU, as its profiler would, on a machine without one.
#include <fmt/format.h>

#include <vector>

#include "apps/options.h"
#include "core/error.h"
#include "kernels/ladders/trial.h"
#include "kernels/simt/analysis/analysis.h"

namespace {

using namespace ringtape;
using analysis::KernelReport;
using analysis::LineCounts;
using analysis::Space;

/// Runs one rung under the analysis: a report for each launch. Ends with an error where its result is wrong.
std::vector<KernelReport> analyse(const ladders::Trial& trial, int version) {
  analysis::Analysis analysis;
  for (const ladders::Memory& memory : trial.memory) {
    analysis.add_buffer(memory.name, memory.data, memory.bytes, memory.written);
  }
  trial.run(Stream::current({}), version);
  const double error = trial.error(version);
  check(error <= 1, "version {} computes something else: error {} times what rounding allows", version,
        error);
  return analysis.reports();
}

/// What all launches of a rung cost.
struct Totals {
  LineCounts global, shared;
  std::int64_t needed = 0, barriers = 0, divergent = 0;
  std::size_t findings = 0;

  void add(const KernelReport& report) {
    for (const LineCounts& line : report.lines) {
      LineCounts& sum = line.space == Space::global ? global : shared;
      sum.requests += line.requests;
      sum.transactions += line.transactions;
      sum.ideal += line.ideal;
    }
    needed += report.needed_read + report.needed_written;
    barriers += report.barrier_count();
    divergent += report.divergent_branches();
    findings += report.findings.size();
  }
};

constexpr const char* kRow = "{:<18} | {:>9} {:>8} {:>9} {:>7} | {:>9} {:>9} {:>9} | {:>8} {:>9} {:>8}\n";

void print_header() {
  fmt::print(kRow, "", "global", "sectors", "moved", "moved /", "shared", "bank", "", "", "divergent", "");
  fmt::print(kRow, "version", "requests", "each", "MB", "needed", "requests", "cycles", "conflicts",
             "barriers", "branches", "findings");
}

void print_row(const std::string& name, const std::vector<KernelReport>& reports) {
  Totals total;
  for (const KernelReport& report : reports) total.add(report);
  const double moved = 32 * static_cast<double>(total.global.transactions);
  fmt::print(
      kRow, name, total.global.requests, fmt::format("{:.2f}", total.global.transactions_per_request()),
      fmt::format("{:.2f}", moved / 1e6), fmt::format("{:.1f}", moved / static_cast<double>(total.needed)),
      total.shared.requests, total.shared.transactions, total.shared.conflicts(), total.barriers,
      total.divergent, total.findings);
}

void show(const std::string& ladder, int version, int size) {
  const ladders::Trial trial = ladders::make_analysed_trial(ladder, size);
  const int rungs = static_cast<int>(trial.rungs.size());
  check(version >= 0 && version <= rungs, "ladder {} has no version {}: expected 1 to {}", ladder, version,
        rungs);
  if (version > 0) {
    for (const KernelReport& report : analyse(trial, version)) fmt::print("{}\n", to_text(report));
    return;
  }
  fmt::print("{}, {} x {}: what the GPU's memory system would do\n\n", ladder, size, size);
  print_header();
  for (int each = 1; each <= rungs; ++each) {
    print_row(fmt::format("{} {}", each, trial.rungs[each - 1].name), analyse(trial, each));
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Counts what the versions of a kernel would cost a GPU: sectors, bank conflicts, barriers, branches; "
      "finds\n"
      "races and reads of unwritten memory. Needs no GPU.\n"
      "Example: lens gemm --version 3 --size 128");
  std::string ladder;
  int version = 0, size = 256;
  app.add_option("ladder", ladder, "transpose, reduce, norm, softmax or gemm")->required();
  app.add_option("--version", version, "One version, line by line; 0 for a row for each")
      ->capture_default_str();
  app.add_option("--size", size, "Rows and columns; reduce and norm take size x size floats")
      ->capture_default_str();
  return apps::run(app, argc, argv, [&] { show(ladder, version, size); });
}
