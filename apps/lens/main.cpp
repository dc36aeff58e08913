// Counts what kernels cost on a GPU, as a profiler's counters do, on a machine without a GPU.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <vector>

#include "apps/lens/table.h"
#include "benchmarks/kernels/analyse.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "kernels/ladders/ladders.h"

namespace {

using namespace ringtape;
using analysis::KernelReport;

/// The analysis of some launches, and the error of their result (ladders::error_of()).
struct Watched {
  std::vector<KernelReport> reports;
  double error = 0;
};

Watched analyse(const ladders::Trial& trial, int rung) {
  analysis::Analysis analysis;
  for (const ladders::TrialBuffer& buffer : trial.memory) {
    analysis.add_buffer(buffer.name, buffer.data, buffer.bytes, buffer.written);
  }
  const double error = error_of(trial, trial.run, Stream::current({}), rung);
  return {analysis.reports(), error};
}

/// Throws Error if a kernel's result is wrong or the analysis found a fault. Call it after printing the
/// counters.
void check_right(const std::string& name, const Watched& watched) {
  std::fflush(stdout);
  check(watched.error <= 1, "{} computes a wrong result: the error is {} times the rounding error allowed",
        name, watched.error);
  check_findings(name, totals_of(watched.reports));
}

void print_reports(const std::vector<KernelReport>& reports) {
  for (const KernelReport& report : reports) fmt::print("{}\n", to_text(report));
}

void print_row(const std::string& name, const std::vector<KernelReport>& reports) {
  const analysis::Totals totals = totals_of(reports);
  print_lens_row(name, totals, verdict(totals));
}

void show_ladder(const std::string& ladder, int rung, int size) {
  const ladders::Trial trial = ladders::make_trial(ladder, size, {});
  const int rungs = static_cast<int>(trial.rungs.size());
  ladders::check_rung(ladder, trial, rung);
  const auto name_of = [&](int each) { return fmt::format("{} {}", each, trial.rungs[each - 1].name); };
  if (rung > 0) {
    const Watched watched = analyse(trial, rung);
    print_reports(watched.reports);
    check_right(name_of(rung), watched);
    return;
  }
  fmt::print("{}, {} x {}: counters of the GPU's memory system\n\n", ladder, size, size);
  print_lens_header("rung");
  for (int each = 1; each <= rungs; ++each) {
    const Watched watched = analyse(trial, each);
    print_row(name_of(each), watched.reports);
    check_right(name_of(each), watched);
  }
}

void show_kernel(const kernel_cases::Case& kernel, std::int64_t size) {
  const std::vector<KernelReport> reports = kernel_cases::analyse(kernel, size);
  print_reports(reports);
  fmt::print("{}: {}; moves {:.2f} times the bytes it needs\n", kernel.name, verdict(totals_of(reports)),
             totals_of(reports).moved_per_needed());
  check_right(kernel.name, {reports});
}

void show_all_kernels() {
  print_lens_header("kernel");
  for (const kernel_cases::Case& kernel : kernel_cases::analysed_cases()) {
    const std::vector<KernelReport> reports = kernel_cases::analyse(kernel, kernel.usual);
    print_row(kernel.name, reports);
    check_right(kernel.name, {reports});
  }
}

void list() {
  fmt::print("ladders: {}\n\nkernels of the library:\n", fmt::join(ladders::names(), ", "));
  for (const kernel_cases::Case& kernel : kernel_cases::analysed_cases()) {
    fmt::print("  {:<25} {}; {} {}\n", kernel.name, kernel.does, kernel.usual, kernel.unit);
  }
}

void run(const std::string& name, std::optional<int> rung, std::int64_t size) {
  const std::vector<std::string>& ladders = ladders::names();
  const bool is_ladder = std::find(ladders.begin(), ladders.end(), name) != ladders.end();
  check(is_ladder || !rung, "--rung needs a ladder: expected {}", fmt::join(ladders, ", "));
  if (is_ladder) {
    show_ladder(name, rung.value_or(0), static_cast<int>(size == 0 ? 256 : size));
  } else if (name == "list") {
    check(size == 0, "the list has no size: --size needs one kernel or ladder");
    list();
  } else if (name == "kernels") {
    check(size == 0, "kernels have their own sizes: --size needs one kernel or ladder");
    show_all_kernels();
  } else {
    const kernel_cases::Case* kernel = kernel_cases::find_case(name);
    check(kernel != nullptr, "no kernel or ladder is named '{}': see lens list", name);
    show_kernel(*kernel, size == 0 ? kernel->usual : size);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app(
      "Counts the costs of kernels on a GPU: sectors, bank conflicts, barriers, branches; finds races and\n"
      "reads of unwritten memory. Needs no GPU.\n"
      "Examples: lens kernels; lens adam --size 65536; lens gemm --rung 3 --size 128");
  std::string name;
  std::optional<int> rung;
  std::int64_t size = 0;
  app.option("name", name,
             "a ladder or a kernel of the library; 'list' names all; 'kernels' prints a row for each kernel")
      .required();
  app.option("--rung", rung, "one rung of a ladder, line by line; 0: a row for each rung");
  app.option("--size", between(size, 0, 1 << 24),
             "of a kernel: elements; of a ladder: rows and columns (256; reduce and norm take size x size "
             "floats). 0: the default");
  return app.run(argc, argv, [&] { run(name, rung, size); });
}
