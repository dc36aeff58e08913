// The library's own kernels under the analysis.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "benchmarks/kernels/analyse.h"
#include "kernels/analysis/totals.h"
#include "kernels/cross_entropy.h"
#include "tests/analysis/source_text.h"
#include "tests/support/catch.h"

namespace ringtape::test {
namespace {

using analysis::KernelReport;
using analysis::Totals;
using kernel_cases::Case;

/// The allowed traffic beyond a case's needed bytes, as a multiple of them: larger for cases that read small
/// operands again and again.
double allowed_surplus(const std::string& name) {
  // Every thread reads its row's target and stats, some also neighbouring stats.
  if (name.starts_with("cross_entropy") || name == "count_correct") return 0.11;
  if (name == "gradient_norm_3") return 0.2;  // the largest element, once for each element
  if (name == "broadcast") return 1;          // x [256] for each row of y
  // Weight and bias [256] for each row of x, in the backward in each of its two passes.
  if (name.find("_norm_") != std::string::npos) return 1.1;
  if (name == "rotary") return 0.6;              // the angles of a position for each of its heads and rows
  if (name == "embedding_forward") return 0.1;   // a row's token for each warp
  if (name == "embedding_backward") return 0.3;  // the tokens are sorted, and compared with the row before
  if (name == "matvec") return 1.1;              // the vector, for each row
  // A tile of keys or queries is read twice in a pass, those of 32 tokens by each block that computes with
  // them.
  if (name == "attention_backward") return 0.3;
  if (name == "attention_backward_piece") return 0.4;  // of a piece each of them reads all queries
  return 0.05;
}

/// "adam_update<float>" as "adam_update", "pointwise<Multiply, float>" as "Multiply".
std::string name_in_source(const std::string& kernel) {
  const std::string pointwise = "pointwise<";
  if (!kernel.starts_with(pointwise)) return kernel.substr(0, kernel.find('<'));
  return kernel.substr(pointwise.size(), kernel.find(',') - pointwise.size());
}

/// The names of the kernels that a .cu file defines, those of pointwise.cu by their arithmetic: the text
/// between "__global__ void" and the parenthesis of the parameters, without __launch_bounds__(...).
std::set<std::string> kernels_in(const std::filesystem::path& source) {
  std::ifstream file(source);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::string start = "__global__ void", bounds = "__launch_bounds__";
  const auto next_word = [&](std::size_t from) { return text.find_first_not_of(" \n", from); };
  std::set<std::string> names;
  for (auto at = text.find(start); at != std::string::npos; at = text.find(start, at + 1)) {
    std::size_t begin = next_word(at + start.size());
    if (text.compare(begin, bounds.size(), bounds) == 0) begin = next_word(text.find(')', begin) + 1);
    names.insert(text.substr(begin, text.find('(', begin) - begin));
  }
  // What a pointwise operation computes: kernel<Multiply, dy, b>, launch_pointwise<Axpy, ...>.
  static const std::regex pointwise("(?:kernel|launch_pointwise)<([A-Z][A-Za-z]*),");
  for (std::sregex_iterator at(text.begin(), text.end(), pointwise), end; at != end; ++at) {
    names.insert((*at)[1]);
  }
  return names;
}

}  // namespace

TEST_CASE("analysis: the library's kernels have no race, read nothing unwritten and waste no sectors") {
  std::set<std::string> watched;
  for (const Case& kernel : kernel_cases::analysed_cases()) {
    const std::vector<KernelReport> reports = kernel_cases::analyse(kernel, kernel.usual);
    INFO(kernel.name);
    for (const KernelReport& report : reports) watched.insert(name_in_source(report.kernel));
    const Totals totals = totals_of(reports);
    CHECK(totals.findings() == 0);
    if (kernel.bytes == 0) continue;
    // Besides the elements there are tiles, options and results: some hundred bytes.
    const double needed = kernel.bytes_at(size_of_case(kernel, kernel.usual), true);
    CHECK(static_cast<double>(totals.needed) >= needed);
    CHECK(static_cast<double>(totals.needed) <= 1.02 * needed + 512);
    CHECK(static_cast<double>(totals.moved()) <= (1 + allowed_surplus(kernel.name)) * needed + 8192);
    // All bytes of a sector are used, except for single values.
    CHECK(static_cast<double>(totals.global.transactions) <= 1.1 * static_cast<double>(totals.global.ideal));
  }

  std::set<std::string> defined;
  for (const auto& file : std::filesystem::directory_iterator(RINGTAPE_KERNELS)) {
    if (file.path().extension() == ".cu") defined.merge(kernels_in(file.path()));
  }
  CHECK(defined.size() > 30);
  for (const std::string& name : defined) {
    INFO("no case of benchmarks/kernels runs the kernel " << name);
    CHECK(watched.count(name) == 1);
  }
}

TEST_CASE("analysis: the bytes of a kernel are those of its size") {
  // More rows than four for each block of the norms' backward, and rows of other lengths than `lens` uses.
  for (const auto& [name, size] :
       {std::pair("layer_norm_backward", kernel_cases::Size{.rows = 8192, .columns = 64}),
        std::pair("rms_norm_backward", kernel_cases::Size{.rows = 8192, .columns = 64}),
        std::pair("rotary", kernel_cases::Size{.rows = 256, .columns = 64})}) {
    INFO(name);
    const Case& kernel = *kernel_cases::find_case(name);
    const Totals totals = totals_of(kernel_cases::analyse_size(kernel, size));
    const double statistics = name == std::string("rotary")              ? 0
                              : name == std::string("rms_norm_backward") ? 4.0 * 8192
                                                                         : 8.0 * 8192;
    const double needed = kernel.bytes_at(size, true) + statistics;
    CHECK(static_cast<double>(totals.needed) >= needed);
    CHECK(static_cast<double>(totals.needed) <= 1.001 * needed + 1024);
  }
}

TEST_CASE("analysis: kernels with elements left over have no findings either") {
  for (const Case& kernel : kernel_cases::cases()) {  // also those that only bench_kernels measures
    if (kernel.columns != 1 && !kernel.does.empty()) continue;
    const std::int64_t size = kernel.bytes == 0 ? std::min<std::int64_t>(kernel.usual, 45) : 4099;
    const Totals totals = totals_of(kernel_cases::analyse(kernel, size * kernel.columns));
    INFO(kernel.name);
    CHECK(totals.findings() == 0);
  }
}

TEST_CASE("analysis: correct rows among few classes are counted without a finding") {
  const Case& kernel = *kernel_cases::find_case("count_correct");
  const auto reports = kernel_cases::analyse_size(kernel, {.rows = 300, .columns = 10});
  CHECK(reports.front().kernel.starts_with("count_correct_thread_per_row"));
  CHECK(totals_of(reports).findings() == 0);
}

TEST_CASE("analysis: rows of up to 32 classes are read without a bank conflict") {
  // The same line in two passes over a row, for the maximum and for the sum. (Rows of 10 are in registers.)
  const int line = line_of("../../kernels/cross_entropy_few_classes.h", "body(j, to_accumulate(row_[j]));");
  for (const std::int64_t classes : {2, 9, 12, 15, 16, 24, 31, 32}) {
    constexpr std::int64_t kRows = 128;
    kernel_cases::Setup memory(Device{});
    const CrossEntropyProblem problem{
        DType::f32, DType::i32, memory.input("targets", std::vector<std::int32_t>(kRows, 1)),
        kRows,      classes,    -100,
        0,          nullptr,    memory.input<int>("invalid target", {0})};
    const float* logits = memory.floats("logits", kRows * classes);
    float* loss = memory.output("loss", 1);
    analysis::Analysis analysis;
    cross_entropy_forward(Stream::current({}), problem, logits, nullptr, nullptr, loss);
    INFO(classes << " classes");
    const KernelReport report = analysis.reports().at(0);
    const auto walk =
        std::find_if(report.lines.begin(), report.lines.end(), [&](const analysis::LineCounts& each) {
          return each.where.file == "cross_entropy_few_classes.h" && each.where.line == line;
        });
    REQUIRE(walk != report.lines.end());
    CHECK(walk->requests == 2 * kRows / 32 * classes);
    CHECK(walk->conflicts() == 0);
  }
}

TEST_CASE("analysis: the accesses of the library's kernels to shared memory") {
  const auto totals = [](const std::string& name) {
    const Case* kernel = kernel_cases::find_case(name);
    REQUIRE(kernel != nullptr);
    return totals_of(kernel_cases::analyse(*kernel, kernel->usual));
  };
  // A thread for each row of ten logits in shared memory: rows are ten banks apart, without conflicts.
  const Totals few = totals("cross_entropy_forward_10");
  CHECK(few.shared.conflicts() * 20 < few.shared.transactions);
  // Tiles of 128 x 128: no conflict, whichever operands are transposed.
  for (const char* name : {"gemm_tiled", "gemm_tiled_nt", "gemm_tiled_tn", "gemm_tiled_bf16",
                           "gemm_tiled_bf16_nt", "gemm_tiled_bf16_tn"}) {
    INFO(name);
    CHECK(totals(name).shared.conflicts() == 0);
  }
  // Each float of A and B is read once for 128 columns or rows: (2 n k n / 128 + n^2) floats.
  constexpr std::int64_t n = 256, k = 64;
  CHECK(totals("gemm_tiled").moved() == (2 * n * k * (n / 128) + n * n) * 4);
}

TEST_CASE("analysis: the verdict names every problem") {
  Totals totals;
  totals.needed = 1 << 20;
  totals.global.transactions = totals.global.ideal = (1 << 20) / 32;
  CHECK(verdict(totals) == "every byte once, no waiting");
  totals.global.transactions *= 8;
  CHECK(verdict(totals) == "8.0 times the sectors it fills");
  totals.needed /= 2;
  totals.shared.transactions = 1000;
  totals.shared.ideal = 250;
  totals.races = 1;
  totals.unwritten_reads = 3;
  totals.outside = 2;
  CHECK(
      verdict(totals) ==
      "races: 1; reads of unwritten memory: 3; accesses outside of the buffers: 2; 8.0 times the sectors it "
      "fills; asks for its bytes 2.0 times; waits for banks in 75% of the cycles");
  CHECK_THROWS_WITH(check_findings("3 padded", totals),
                    "3 padded is wrong: races: 1; reads of unwritten memory: 3; accesses outside of the "
                    "buffers: 2");
  CHECK_NOTHROW(check_findings("3 padded", Totals{}));
  CHECK(verdict(Totals{}) == "moves too little to be judged");
}

TEST_CASE("analysis: a case refuses sizes that its kernel does not take") {
  CHECK_THROWS_WITH(kernel_cases::analyse(*kernel_cases::find_case("adam"), 100),
                    ContainsSubstring("adam: a size of 100, expected a multiple of 256 up to 16777216"));
  CHECK_THROWS_WITH(kernel_cases::analyse(*kernel_cases::find_case("add"), 0),
                    ContainsSubstring("a size of 0"));
  CHECK_THROWS_WITH(kernel_cases::analyse(*kernel_cases::find_case("loss_scale"), 2),
                    ContainsSubstring("up to 1"));
  CHECK_THROWS_WITH(kernel_cases::analyse(*kernel_cases::find_case("gemm_tiled"), 4096),
                    ContainsSubstring("up to 2048"));
  CHECK(kernel_cases::find_case("sort") == nullptr);
}

}  // namespace ringtape::test
