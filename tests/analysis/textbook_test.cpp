// The analysis against known costs of textbook kernels, and against kernels with bugs.
#include "tests/analysis/textbook.h"

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/analysis/analysis.h"
#include "kernels/analysis/request.h"
#include "tests/analysis/source_text.h"
#include "tests/support/catch.h"
#include "tests/support/thread_orders.h"

namespace ringtape::test {
namespace {

using analysis::Access;
using analysis::Analysis;
using analysis::Finding;
using analysis::FindingKind;
using analysis::KernelReport;
using analysis::LineCounts;
using analysis::Space;

const Stream& stream() {
  static const Stream cpu = Stream::current({});
  return cpu;
}

/// The line of textbook.cu that the comment "at: `what`" marks.
int marked(const std::string& what) {
  return line_of("textbook.cu", "// at: " + what);
}

/// Memory that starts at a sector, with the arrays that the kernels use.
struct Memory {
  Memory() : in(kFloats, 1.0f), out(kFloats, 0.0f) {}
  static constexpr std::size_t kFloats = 8192;
  float* aligned(std::vector<float>& values) {
    const auto address = reinterpret_cast<std::uintptr_t>(values.data());
    return values.data() + (128 - address % 128) % 128 / sizeof(float);
  }
  float* input() { return aligned(in); }
  float* output() { return aligned(out); }
  std::vector<float> in, out;
};

/// The report of one launch, whose buffers are `input` (written) and `output` (not).
KernelReport report_of(const std::function<void(float* in, float* out)>& run) {
  Memory memory;
  constexpr std::size_t kBytes = 4096 * sizeof(float);
  Analysis analysis;
  analysis.add_buffer("input", memory.input(), kBytes, true);
  analysis.add_buffer("output", memory.output(), kBytes, false);
  run(memory.input(), memory.output());
  const std::vector<KernelReport> reports = analysis.reports();
  REQUIRE(reports.size() == 1);
  return reports[0];
}

/// The counts of a marked line.
LineCounts counts(const KernelReport& report, const std::string& mark) {
  for (const LineCounts& line : report.lines) {
    if (line.where.line == marked(mark)) return line;
  }
  throw std::runtime_error("no counts for " + mark + ":\n" + to_text(report));
}

LineCounts strided_read(int stride, int offset = 0) {
  return counts(
      report_of([=](float* in, float* out) { book_read_strided(stream(), in, stride, offset, out); }),
      "strided read");
}

}  // namespace

TEST_CASE("analysis: sectors of a warp's floats at stride 0, 1, 2, 8 and 32") {
  CHECK(strided_read(1).transactions == 4);
  CHECK(strided_read(2).transactions == 8);
  CHECK(strided_read(8).transactions == 32);
  CHECK(strided_read(32).transactions == 32);
  CHECK(strided_read(0).transactions == 1);     // broadcast
  CHECK(strided_read(1, 1).transactions == 5);  // misaligned: the 128 bytes touch a fifth sector
  CHECK(strided_read(1, 8).transactions == 4);  // by a whole sector
  const LineCounts far = strided_read(32);
  CHECK(far.requests == 1);
  CHECK(far.lanes == 32);
  CHECK(far.bytes == 128);
  CHECK(far.ideal == 4);
}

TEST_CASE("analysis: 16 bytes a lane are one request of 16 sectors") {
  const auto run = [](int stride, int offset) {
    return report_of([=](float* in, float* out) { book_read_vectors(stream(), in, stride, offset, out); });
  };
  const KernelReport report = run(4, 0);
  for (const char* mark : {"vector read", "vector write"}) {
    const LineCounts line = counts(report, mark);
    CHECK(line.requests == 1);
    CHECK(line.transactions == 16);
    CHECK(line.bytes == 512);
    CHECK(line.ideal == 16);
  }
  CHECK(counts(run(8, 0), "vector read").transactions == 32);
  CHECK(counts(run(4, 4), "vector read").transactions == 17);  // 16 bytes beyond a sector
  CHECK(counts(run(0, 0), "vector read").transactions == 1);
  // Unaligned, load_vec reads element by element: four requests, as on the GPU.
  const LineCounts by_element = counts(run(4, 1), "vector read");
  CHECK(by_element.requests == 4);
  CHECK(by_element.bytes == 512);
}

TEST_CASE("analysis: bank conflicts of 4-byte accesses") {
  const auto run = [](int stride) {
    const KernelReport report =
        report_of([=](float*, float* out) { book_shared_strided(stream(), stride, out); });
    const LineCounts write = counts(report, "shared write");
    LineCounts read;
    for (const LineCounts& line : report.lines) {
      if (line.where.line == marked("shared read") && line.space == Space::shared) read = line;
    }
    CHECK(write.transactions == read.transactions);
    CHECK(read.ideal == 1);
    CHECK(read.requests == 1);
    return read.transactions;
  };
  CHECK(run(1) == 1);
  CHECK(run(2) == 2);
  CHECK(run(4) == 4);
  CHECK(run(3) == 1);  // odd strides have none
  CHECK(run(32) == 32);
  CHECK(run(33) == 1);  // a row of 32, padded by one
  CHECK(run(0) == 1);   // one word for all
  const KernelReport broadcast = report_of([](float*, float* out) { book_shared_broadcast(stream(), out); });
  CHECK(broadcast.total(Space::shared, Access::read).transactions == 1);
  CHECK(broadcast.findings.empty());
}

TEST_CASE("analysis: bank conflicts of 8- and 16-byte accesses, phase by phase") {
  const auto pairs = [](int stride) {
    return counts(report_of([=](float*, float* out) { book_shared_pairs(stream(), stride, out); }),
                  "shared vector read");
  };
  CHECK(pairs(2).requests == 1);
  CHECK(pairs(2).transactions == 2);  // half a warp has 128 bytes: all banks
  CHECK(pairs(2).ideal == 2);
  CHECK(pairs(4).transactions == 4);    // every other pair of banks
  CHECK(pairs(32).transactions == 32);  // two phases of sixteen rows
  const auto vectors = [](int stride) {
    return counts(report_of([=](float*, float* out) { book_shared_vectors(stream(), stride, out); }),
                  "shared vector read");
  };
  CHECK(vectors(4).requests == 1);
  CHECK(vectors(4).transactions == 4);  // eight lanes have 128 bytes
  CHECK(vectors(4).ideal == 4);
  CHECK(vectors(4).conflicts() == 0);
  CHECK(vectors(8).transactions == 8);
  CHECK(vectors(32).transactions == 32);  // four phases of eight rows
  CHECK(vectors(36).transactions == 4);   // rows of 32 words, padded by 16 bytes: none
}

TEST_CASE("analysis: requests by hand") {
  analysis::Request request;
  request.bytes = 2;
  request.lanes = ~0u;
  for (int lane = 0; lane < 32; ++lane) request.address[lane] = 4096 + 2 * static_cast<unsigned>(lane);
  CHECK(sectors(request) == 2);      // 64 bytes
  CHECK(bank_cycles(request) == 1);  // two lanes share each word
  CHECK(distinct_bytes(request) == 64);
  request.lanes = 0x0000ff00u;
  CHECK(sectors(request) == 1);
  CHECK(distinct_bytes(request) == 16);
  request.bytes = 16;
  for (int lane = 0; lane < 32; ++lane) request.address[lane] = 16 * static_cast<unsigned>(lane);
  CHECK(phases(request) == 1);
  request.lanes = 0x01010101u;
  CHECK(phases(request) == 4);
  CHECK(bank_cycles(request) == 4);
}

TEST_CASE("analysis: idle lanes of a loop of uneven length") {
  for_each_thread_order([] {
    const KernelReport report = report_of([](float* in, float* out) { book_uneven_loop(stream(), in, out); });
    const LineCounts line = counts(report, "uneven read");
    CHECK(line.requests == 31);  // as often as the longest lane
    CHECK(line.lanes == 31 * 32 / 2);
  });
}

TEST_CASE("analysis: branches at which the lanes of a warp diverge") {
  const auto divergent = [](int split) {
    const KernelReport report =
        report_of([=](float* in, float* out) { book_two_ways(stream(), split, in, out); });
    std::int64_t executions = 0;
    for (const analysis::BranchCounts& branch : report.branches) {
      if (branch.where.line == marked("two ways")) executions = branch.executions;
    }
    CHECK(executions == 2);  // two warps
    return report.divergent_branches();
  };
  for_each_thread_order([&] {
    CHECK(divergent(0) == 0);
    CHECK(divergent(1) == 1);
    CHECK(divergent(32) == 0);  // each warp goes one way
    CHECK(divergent(40) == 1);
    CHECK(divergent(64) == 0);
    // A loop of 0 to 31 rounds: at each of 31 tests one more lane leaves the loop, or never enters it.
    const KernelReport loop = report_of([](float* in, float* out) { book_uneven_loop(stream(), in, out); });
    CHECK(loop.divergent_branches() == 31);
    // A lane in the middle, and none in the branches of the CPU's own shuffles.
    CHECK(report_of([](float* in, float* out) {
            book_one_parts(stream(), 5, in, out);
          }).divergent_branches() == 1);
    CHECK(report_of([](float* in, float* out) {
            book_shuffle_down(stream(), in, out);
          }).divergent_branches() == 0);
  });
}

TEST_CASE("analysis: barriers, atomics, bytes read and written") {
  unsigned count = 0;
  std::vector<KernelReport> reports;
  {
    Analysis analysis;
    analysis.add_buffer("count", &count, sizeof count, true);
    book_count(stream(), 5, &count);
    reports = analysis.reports();
  }
  CHECK(count == 5);
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].kernel == "count_blocks");
  CHECK(reports[0].grid.x == 5);
  CHECK(reports[0].block.x == 96);
  REQUIRE(reports[0].barriers.size() == 2);
  CHECK(reports[0].barriers[0].where == analysis::SourceLine{"textbook.cu", marked("first barrier")});
  CHECK(reports[0].barriers[1].where.line == marked("second barrier"));
  CHECK(reports[0].barrier_count() == 10);
  CHECK(counts(reports[0], "atomic").access == Access::atomic);
  CHECK(counts(reports[0], "atomic").requests == 5);
  CHECK(counts(reports[0], "atomic").lanes == 5);
  CHECK(reports[0].needed_read == 4);
  CHECK(reports[0].needed_written == 4);

  const KernelReport copy = report_of([](float* in, float* out) { book_copy(stream(), in, out, 1); });
  CHECK(copy.needed_read == 128);
  CHECK(copy.needed_written == 128);
  CHECK(copy.bytes_moved() == 9 * 32);
  CHECK(copy.findings.empty());
}

TEST_CASE("analysis: a kernel that is not watched runs as usual") {
  Memory memory;
  book_copy(stream(), memory.input(), memory.output(), 0);
  CHECK(memory.output()[31] == 1);
}

namespace {

/// The one finding of a report: its kind, and its lines by their marks.
void check_finding(const KernelReport& report, FindingKind kind, const std::string& where,
                   const std::string& earlier) {
  INFO(to_text(report));
  REQUIRE(report.findings.size() == 1);
  const Finding& finding = report.findings[0];
  CHECK(finding.kind == kind);
  CHECK(finding.where == analysis::SourceLine{"textbook.cu", marked(where)});
  CHECK(finding.earlier == analysis::SourceLine{"textbook.cu", marked(earlier)});
  CHECK_THAT(finding.text, ContainsSubstring("textbook.cu:" + std::to_string(marked(where))));
  CHECK_THAT(finding.text, ContainsSubstring("textbook.cu:" + std::to_string(marked(earlier))));
}

}  // namespace

TEST_CASE("analysis: a planted race is found, under every order of the threads") {
  using simt::ThreadOrder;
  const auto run = [](bool with_barrier) {
    return report_of([=](float*, float* out) { book_neighbours(stream(), with_barrier, out); });
  };
  for_each_thread_order([&] { CHECK(run(true).findings.empty()); });
  // Of each pair one thread reads before the other has written and one after: two kinds of race, and the
  // first reader reads unwritten memory.
  for (const ThreadOrder order : {ThreadOrder::forward, ThreadOrder::reversed}) {
    const simt::ThreadOrderScope scope(order);
    const KernelReport report = run(false);
    INFO(to_text(report));
    std::int64_t read_after_write = 0, write_after_read = 0, unwritten = 0;
    for (const Finding& finding : report.findings) {
      const bool reads = finding.where.line == marked("race read");
      if (finding.kind == FindingKind::unwritten_read) unwritten += finding.count;
      if (finding.kind != FindingKind::race) continue;
      (reads ? read_after_write : write_after_read) += finding.count;
      CHECK(finding.earlier.line == marked(reads ? "race write" : "race read"));
    }
    CHECK(read_after_write == 32);
    CHECK(write_after_read == 32);
    CHECK(unwritten == 32);
  }
}

TEST_CASE("analysis: __syncwarp orders the lanes of a warp, a shuffle does not") {
  const auto run = [](bool with_syncwarp) {
    return report_of([=](float*, float* out) { book_warp_neighbours(stream(), with_syncwarp, out); });
  };
  for_each_thread_order([&] {
    CHECK(run(true).findings.empty());
    check_finding(run(false), FindingKind::race, "warp read", "warp write");
  });
}

TEST_CASE("analysis: __syncwarp orders only the lanes that it names") {
  const auto races = [](int neighbour) {
    const KernelReport report =
        report_of([=](float*, float* out) { book_half_warps(stream(), neighbour, out); });
    std::int64_t count = 0;
    for (const Finding& finding : report.findings) {
      if (finding.kind == FindingKind::race) count += finding.count;
    }
    return count;
  };
  for_each_thread_order([&] {
    CHECK(races(1) == 0);
    CHECK(races(16) == 32);  // each word's writer and reader
  });
}

TEST_CASE("analysis: a reduction orders a block's accesses, also of a single warp") {
  for (const int threads : {20, 32, 64}) {
    CAPTURE(threads);
    for_each_thread_order([=] {
      CHECK(report_of([=](float*, float* out) {
              book_neighbours_after_reduction(stream(), threads, out);
            }).findings.empty());
    });
  }
}

TEST_CASE("analysis: a reduction of doubles may follow one of floats in a large block") {
  for_each_thread_order([] {
    CHECK(report_of([](float*, float* out) { book_two_reductions(stream(), out); }).findings.empty());
  });
}

TEST_CASE("analysis: each of several readers counts") {
  for_each_thread_order([] {
    check_finding(report_of([](float*, float* out) { book_late_reader(stream(), out); }), FindingKind::race,
                  "first lane's write", "every lane's read");
  });
}

TEST_CASE("analysis: atomics do not race with each other, and need an initial value") {
  const auto run = [](bool from_zero) {
    return report_of([=](float*, float* out) { book_shared_count(stream(), from_zero, out); });
  };
  for_each_thread_order([&] {
    const KernelReport right = run(true);
    CHECK(right.findings.empty());
    CHECK(right.static_shared_bytes == 4);
    CHECK_THAT(to_text(right), ContainsSubstring("bytes of shared memory: 0 dynamic, 4 static"));
    check_finding(run(false), FindingKind::unwritten_read, "shared atomic", "shared atomic");
  });
}

TEST_CASE("analysis: memory may not be used while a copy to it is in flight") {
  const auto run = [](int buffers, bool with_barriers) {
    return report_of(
        [=](float* in, float* out) { book_copies_ahead(stream(), buffers, with_barriers, in, out); });
  };
  for_each_thread_order([&] {
    for (const bool with_barriers : {false, true}) {
      const KernelReport right = run(2, with_barriers);
      INFO(to_text(right));
      CHECK(right.findings.empty());
      CHECK(right.static_shared_bytes == 1024);
      const LineCounts read = counts(right, "read while copying");
      CHECK(read.requests == 1);
      CHECK(read.while_copying == 1);
    }
    const KernelReport wrong = run(1, false);
    INFO(to_text(wrong));
    REQUIRE(!wrong.findings.empty());
    for (const Finding& finding : wrong.findings) CHECK(finding.kind == FindingKind::race);
    // With barriers around the read the copy is still in flight.
    check_finding(run(1, true), FindingKind::race, "read while copying", "copy ahead");
    CHECK_THAT(run(1, true).findings[0].text, ContainsSubstring("with a copy that is under way"));
  });
}

TEST_CASE("analysis: a write that comes too early for readers is a race") {
  const auto run = [](bool with_barrier, simt::ThreadOrder order) {
    const simt::ThreadOrderScope scope(order);
    return report_of([=](float*, float* out) { book_overwrites(stream(), with_barrier, out); });
  };
  using enum simt::ThreadOrder;
  CHECK(run(true, forward).findings.empty());
  CHECK(run(true, reversed).findings.empty());
  check_finding(run(false, reversed), FindingKind::race, "overwriting write", "overwritten read");
  check_finding(run(false, forward), FindingKind::race, "overwritten read", "overwriting write");
}

TEST_CASE("analysis: reads of memory that nothing wrote") {
  const KernelReport shared = report_of([](float*, float* out) { book_unwritten_shared(stream(), out); });
  check_finding(shared, FindingKind::unwritten_read, "unwritten shared read", "unwritten shared read");
  CHECK(shared.findings[0].count == 16);

  // Writes of another block do not count.
  const KernelReport left = report_of([](float*, float* out) { book_left_by_another_block(stream(), out); });
  check_finding(left, FindingKind::unwritten_read, "another block's", "another block's");
  CHECK(left.findings[0].count == 32);

  const KernelReport global = report_of([](float* in, float* out) { book_copy(stream(), out, in, 0); });
  check_finding(global, FindingKind::unwritten_read, "copy read", "copy read");
  CHECK_THAT(global.findings[0].text, ContainsSubstring("'output'"));

  const KernelReport outside =
      report_of([](float* in, float* out) { book_copy(stream(), in, out, 4096 - 30); });
  check_finding(outside, FindingKind::outside, "copy write", "copy write");
  CHECK(outside.findings[0].count == 2);
}

TEST_CASE("analysis: a launch may read the memory that an earlier launch has written") {
  Memory memory;
  Analysis analysis;
  analysis.add_buffer("input", memory.input(), 128, true);
  analysis.add_buffer("output", memory.output(), 256, false);
  book_copy(stream(), memory.input(), memory.output(), 0);
  book_copy(stream(), memory.output(), memory.output(), 32);
  const std::vector<KernelReport> reports = analysis.reports();
  REQUIRE(reports.size() == 2);
  CHECK(reports[0].findings.empty());
  CHECK(reports[1].findings.empty());
  CHECK(reports[1].needed_read == 128);
}

TEST_CASE("analysis: a planted bank conflict and a planted uncoalesced access are found") {
  const KernelReport report =
      report_of([](float* in, float* out) { book_bad_transpose(stream(), in, out, 64); });
  const LineCounts conflict = counts(report, "planted conflict");
  CHECK(conflict.space == Space::shared);
  CHECK(conflict.requests == 32);
  CHECK(conflict.transactions == 32 * 32);
  CHECK(conflict.conflicts() == 32 * 31);
  const LineCounts uncoalesced = counts(report, "planted uncoalesced");
  CHECK(uncoalesced.space == Space::global);
  CHECK(uncoalesced.transactions_per_request() == 32);
  CHECK(uncoalesced.ideal == 32 * 4);
  CHECK(report.findings.empty());
  const std::string text = to_text(report);
  CHECK_THAT(text, ContainsSubstring("bad_transpose: 1 x 1 x 1 blocks of 32 x 32 x 1 threads"));
  CHECK_THAT(text, ContainsSubstring("textbook.cu:" + std::to_string(marked("planted conflict"))));
  // 32 requests of 32 sectors, with 128 bytes used of each 1024.
  const std::string line =
      text.substr(text.find("textbook.cu:" + std::to_string(marked("planted uncoalesced"))));
  CHECK_THAT(line.substr(0, line.find('\n')), Catch::Matchers::EndsWith(" 28672"));
}

TEST_CASE("analysis: a variable of the program counts as a constant, not as memory") {
  const KernelReport report = report_of([](float*, float* out) { book_read_table(stream(), out); });
  CHECK(report.findings.empty());
  CHECK(report.total(Space::global, Access::read).requests == 0);
}

TEST_CASE("analysis: only one Analysis exists at a time") {
  const Analysis first;
  CHECK_THROWS_WITH(Analysis(), ContainsSubstring("there is one already"));
}

}  // namespace ringtape::test
