// Shows what the rungs of a kernel ladder cost a GPU, as its profiler would, on a machine without one.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "apps/options.h"
#include "core/error.h"
#include "kernels/ladders/trial.h"
#include "kernels/simt/analysis/analysis.h"

namespace {

using namespace ringtape;
using analysis::Access;
using analysis::KernelReport;
using analysis::LineCounts;
using analysis::Space;

/// Runs one rung under the analysis; ends with an error where its result is wrong.
KernelReport analyse(const ladders::Trial& trial, int version) {
  analysis::Analysis analysis;
  for (const ladders::Memory& memory : trial.memory) {
    analysis.add_buffer(memory.name, memory.data, memory.bytes, memory.written);
  }
  trial.run(Stream::current({}), version);
  const double error = trial.error(version);
  check(error <= 1, "version {} computes something else: error {} times what rounding allows", version,
        error);
  return analysis.reports().back();
}

void print_header() {
  fmt::print("{:<18} | {:>9} {:>8} {:>9} {:>7} | {:>9} {:>9} {:>9} | {:>8} {:>9} {:>8}\n", "", "global",
             "sectors", "moved", "moved /", "shared", "bank", "", "", "divergent", "");
  fmt::print("{:<18} | {:>9} {:>8} {:>9} {:>7} | {:>9} {:>9} {:>9} | {:>8} {:>9} {:>8}\n", "version",
             "requests", "each", "MB", "needed", "requests", "cycles", "conflicts", "barriers", "branches",
             "findings");
}

LineCounts of_space(const KernelReport& report, Space space) {
  LineCounts sum;
  for (const LineCounts& line : report.lines) {
    if (line.space != space) continue;
    sum.requests += line.requests;
    sum.transactions += line.transactions;
    sum.ideal += line.ideal;
  }
  return sum;
}

void print_row(const std::string& name, const KernelReport& report) {
  const LineCounts global = of_space(report, Space::global), shared = of_space(report, Space::shared);
  const double moved = static_cast<double>(report.bytes_moved());
  fmt::print("{:<18} | {:>9} {:>8.2f} {:>9.2f} {:>7.1f} | {:>9} {:>9} {:>9} | {:>8} {:>9} {:>8}\n", name,
             global.requests, global.transactions_per_request(), moved / 1e6,
             moved / static_cast<double>(report.needed_read + report.needed_written), shared.requests,
             shared.transactions, shared.conflicts(), report.barrier_count(), report.divergent_branches(),
             report.findings.size());
}

void show(const std::string& ladder, int version, int size) {
  const ladders::Trial trial = ladders::make_analysed_trial(ladder, size);
  const int rungs = static_cast<int>(trial.rungs.size());
  check(version >= 0 && version <= rungs, "ladder {} has no version {}: expected 1 to {}", ladder, version,
        rungs);
  if (version > 0) {
    fmt::print("{}", to_text(analyse(trial, version)));
    return;
  }
  fmt::print("{}, {} x {}, float: what the GPU's memory system would do\n\n", ladder, size, size);
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
  app.add_option("ladder", ladder, "transpose or gemm")->required();
  app.add_option("--version", version, "One version, line by line; 0 for a row for each")
      ->capture_default_str();
  app.add_option("--size", size, "Rows and columns of the matrices")->capture_default_str();
  return apps::run(app, argc, argv, [&] { show(ladder, version, size); });
}
