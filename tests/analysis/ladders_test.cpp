// The analysis must confirm the gain that each rung of the ladders claims.
#include <functional>
#include <vector>

#include "kernels/analysis/totals.h"
#include "kernels/ladders/ladders.h"
#include "tests/support/catch.h"

namespace ringtape::test {
namespace {

using analysis::Access;
using analysis::Analysis;
using analysis::KernelReport;
using analysis::LineCounts;
using analysis::Space;
using analysis::Totals;

/// The cost of each rung's launches, first rung to last; checks their results, and that there are no
/// findings.
std::vector<std::vector<KernelReport>> all_reports_of(const std::string& ladder, int size) {
  const ladders::Trial trial = ladders::make_trial(ladder, size, {});
  std::vector<std::vector<KernelReport>> reports;
  for (int version = 1; version <= static_cast<int>(trial.rungs.size()); ++version) {
    Analysis analysis;
    for (const ladders::TrialBuffer& memory : trial.memory) {
      analysis.add_buffer(memory.name, memory.data, memory.bytes, memory.written);
    }
    INFO(ladder << ", version " << version);
    CHECK(error_of(trial, trial.run, Stream::current({}), version) <= 1);
    reports.push_back(analysis.reports());
    REQUIRE(!reports.back().empty());
    for (const KernelReport& report : reports.back()) {
      INFO(to_text(report));
      CHECK(report.findings.empty());
    }
  }
  return reports;
}

/// The same, of the first launch of each rung.
std::vector<KernelReport> reports_of(const std::string& ladder, int size) {
  std::vector<KernelReport> first;
  for (const auto& launches : all_reports_of(ladder, size)) first.push_back(launches[0]);
  return first;
}

struct Cost {
  std::int64_t requests = 0, transactions = 0, conflicts = 0;
};
Cost cost_of(const KernelReport& report, Space space) {
  Cost cost;
  for (const LineCounts& line : report.lines) {
    if (line.space != space) continue;
    cost.requests += line.requests;
    cost.transactions += line.transactions;
    if (space == Space::shared) cost.conflicts += line.conflicts();
  }
  return cost;
}

/// A counter in which a rung is better than the one before it.
struct Gain {
  int rung;
  const char* name;
  std::function<double(const Totals&)> counter;
};

double conflicts(const Totals& totals) {
  return static_cast<double>(totals.shared.conflicts());
}
double global_requests(const Totals& totals) {
  return static_cast<double>(totals.global.requests);
}
double shared_requests(const Totals& totals) {
  return static_cast<double>(totals.shared.requests);
}
double bank_cycles(const Totals& totals) {
  return static_cast<double>(totals.shared.transactions);
}
double barriers(const Totals& totals) {
  return static_cast<double>(totals.barriers);
}
double divergent_branches(const Totals& totals) {
  return static_cast<double>(totals.divergent_branches);
}
double moved(const Totals& totals) {
  return static_cast<double>(totals.moved());
}
/// Requests to shared memory without asynchronous copies in flight.
double without_copies(const Totals& totals) {
  return static_cast<double>(totals.shared.requests - totals.shared.while_copying);
}

/// Every rung from the second on must have a gain, of at least a tenth.
void check_gains(const std::string& ladder, int size, const std::vector<Gain>& gains) {
  std::vector<Totals> totals;
  for (const auto& launches : all_reports_of(ladder, size)) totals.push_back(totals_of(launches));
  std::vector<bool> gained(totals.size());
  gained[0] = true;
  for (const Gain& gain : gains) {
    const auto rung = static_cast<std::size_t>(gain.rung) - 1;
    INFO(ladder << ", version " << gain.rung << ": " << gain.name);
    CHECK(gain.counter(totals[rung]) < 0.9 * gain.counter(totals[rung - 1]));
    gained[rung] = true;
  }
  CHECK(gained == std::vector<bool>(totals.size(), true));
}

}  // namespace

TEST_CASE("analysis: every rung of every ladder is better than the one before in a counter") {
  check_gains("transpose", 64,
              {{2, "moved", moved},
               {3, "conflicts", conflicts},
               {4, "requests", global_requests},
               {4, "shared requests", shared_requests},
               {5, "conflicts", conflicts}});
  const std::vector<Gain> reduction = {{2, "divergent branches", divergent_branches},
                                       {2, "shared requests", shared_requests},
                                       {3, "conflicts", conflicts},
                                       {4, "barriers", barriers},
                                       {4, "shared requests", shared_requests},
                                       {5, "barriers", barriers},
                                       {5, "shared requests", shared_requests},
                                       {6, "requests", global_requests}};
  check_gains("reduce", 128, reduction);
  check_gains("norm", 128, reduction);
  check_gains("softmax", 256,
              {{2, "moved", moved},
               {3, "moved", moved},
               {3, "requests", global_requests},
               {4, "requests", global_requests},
               {5, "moved", moved}});
  check_gains("layer_norm", 256,
              {{2, "moved", moved},
               {3, "moved", moved},
               {4, "requests", global_requests},
               {5, "moved", moved},
               {5, "requests", global_requests}});
  check_gains("attention", 128,
              {{2, "moved", moved},
               {2, "requests", global_requests},
               {3, "moved", moved},
               {3, "requests", global_requests},
               {4, "moved", moved},
               {4, "requests", global_requests},
               {4, "shared requests", shared_requests},
               {5, "moved", moved},
               {5, "shared requests", shared_requests},
               {5, "bank cycles", bank_cycles},
               {5, "barriers", barriers}});
  check_gains("gemm", 128,
              {{2, "moved", moved},
               {3, "moved", moved},
               {4, "moved", moved},
               {4, "shared requests", shared_requests},
               {5, "requests", global_requests},
               {5, "shared requests", shared_requests},
               {6, "bank cycles", bank_cycles},
               {6, "moved", moved},
               {7, "conflicts", conflicts},
               {7, "barriers", barriers},
               {7, "requests while nothing is copied", without_copies},
               {8, "shared requests", shared_requests},
               {8, "bank cycles", bank_cycles},
               {9, "moved", moved},
               {9, "shared requests", shared_requests},
               {9, "bank cycles", bank_cycles},
               {9, "barriers", barriers}});
}

TEST_CASE("analysis: each rung of the transpose ladder shows what it gains") {
  constexpr std::int64_t n = 128, kWarps = n * n / 32;
  const std::vector<KernelReport> reports = reports_of("transpose", n);
  REQUIRE(reports.size() == 5);
  const KernelReport &naive = reports[0], &tile = reports[1], &padded = reports[2], &vectorised = reports[3],
                     &swizzled = reports[4];
  for (const KernelReport& report : reports) {
    CHECK(report.needed_read == n * n * 4);
    CHECK(report.needed_written == n * n * 4);
    CHECK(report.divergent_branches() == 0);
  }
  // A warp reads 4 sectors and writes 32.
  CHECK(naive.total(Space::global, Access::read).transactions == 4 * kWarps);
  CHECK(naive.total(Space::global, Access::write).transactions == 32 * kWarps);
  CHECK(naive.barrier_count() == 0);
  // Reads and writes of whole rows; a column of the tile is in one bank.
  CHECK(tile.bytes_moved() == 2 * n * n * 4);
  CHECK(tile.total(Space::shared, Access::write).conflicts() == 0);
  CHECK(tile.total(Space::shared, Access::read).transactions == 32 * kWarps);
  CHECK(tile.barrier_count() == n / 64 * (n / 64));
  CHECK(padded.bytes_moved() == tile.bytes_moved());
  CHECK(cost_of(padded, Space::shared).conflicts == 0);
  CHECK(cost_of(padded, Space::shared).requests == cost_of(tile, Space::shared).requests);
  // A quarter of the instructions for the same bytes; four cycles instead of one for the writes to the tile.
  CHECK(vectorised.bytes_moved() == tile.bytes_moved());
  CHECK(4 * cost_of(vectorised, Space::global).requests == cost_of(padded, Space::global).requests);
  CHECK(4 * cost_of(vectorised, Space::shared).requests == cost_of(padded, Space::shared).requests);
  CHECK(vectorised.total(Space::shared, Access::write).transactions_per_request() == 16);
  CHECK(vectorised.total(Space::shared, Access::read).conflicts() == 0);
  CHECK(cost_of(swizzled, Space::shared).conflicts == 0);
  CHECK(cost_of(swizzled, Space::shared).requests == cost_of(vectorised, Space::shared).requests);
  CHECK(swizzled.bytes_moved() == tile.bytes_moved());
}

TEST_CASE("analysis: each rung of the reduction ladders shows what it gains") {
  const std::string ladder = GENERATE("reduce", "norm");
  constexpr std::int64_t n = 128 * 128, kBlocks = n / 256;
  const std::vector<KernelReport> reports = reports_of(ladder, 128);
  REQUIRE(reports.size() == 6);
  std::vector<Cost> shared, global;
  for (const KernelReport& report : reports) {
    shared.push_back(cost_of(report, Space::shared));
    global.push_back(cost_of(report, Space::global));
    CHECK(report.total(Space::global, Access::read).transactions >= n * 4 / 32);
  }
  // 1: 8 warps diverge in each of 8 rounds but the last three, where 4, 2 and 1 warps still add; and at the
  // end.
  CHECK(reports[0].divergent_branches() == kBlocks * (8 * 5 + 4 + 2 + 1 + 1));
  // 2: one warp diverges where fewer than 32 threads add: in the last five rounds, and at the end.
  CHECK(reports[1].divergent_branches() == kBlocks * (5 + 1));
  CHECK(shared[1].requests < shared[0].requests);
  CHECK(shared[1].conflicts > shared[0].conflicts);
  CHECK(shared[2].conflicts == 0);
  CHECK(shared[2].requests == shared[1].requests);
  CHECK(reports[2].barrier_count() == 9 * kBlocks);
  // 4: a quarter of the blocks. 5: one barrier in place of nine, a write and a read in place of the tree.
  CHECK(4 * shared[3].requests == shared[2].requests);
  CHECK(4 * reports[3].barrier_count() == reports[2].barrier_count());
  CHECK(9 * reports[4].barrier_count() == reports[3].barrier_count());
  CHECK(shared[4].requests == kBlocks / 4 * (8 + 1));
  CHECK(global[5].requests < global[4].requests / 2);
}

TEST_CASE("analysis: each rung of the softmax ladder shows what it gains") {
  constexpr std::int64_t n = 512, kBytes = n * n * 4;
  const std::vector<KernelReport> reports = reports_of("softmax", n);
  REQUIRE(reports.size() == 5);
  std::vector<std::int64_t> read, written, requests;
  for (const KernelReport& report : reports) {
    read.push_back(32 * report.total(Space::global, Access::read).transactions);
    written.push_back(32 * report.total(Space::global, Access::write).transactions);
    requests.push_back(cost_of(report, Space::global).requests);
    CHECK(report.needed_read == kBytes + n * 4);
    CHECK(report.needed_written == kBytes + n * 4);
  }
  // Besides the passes over the row there are the targets, the target's logits and the losses: a few sectors
  // a row.
  const auto walks = [](std::int64_t bytes) { return static_cast<double>(bytes) / kBytes; };
  CHECK(walks(read[0]) == Approx(3 * 8).epsilon(0.01));  // an eighth of each sector is used
  CHECK(walks(written[0]) == Approx(8).epsilon(0.01));
  CHECK(walks(read[1]) == Approx(3).epsilon(0.1));
  CHECK(walks(read[2]) == Approx(2).epsilon(0.1));
  CHECK(walks(read[3]) == Approx(2).epsilon(0.1));
  CHECK(walks(read[4]) == Approx(1).epsilon(0.1));
  for (int version = 2; version <= 5; ++version)
    CHECK(walks(written[version - 1]) == Approx(1).epsilon(0.05));
  // 2: a warp's lanes read neighbours. 3: one pass less of the three, of 32 floats a request. 4: 128 floats.
  constexpr std::int64_t kWalk = n * n / 32;
  CHECK(requests[0] >= 4 * kWalk);
  CHECK(requests[1] - requests[2] == kWalk + 4 * n);  // each of 4 warps began with the row's first logit
  CHECK(2 * requests[3] < requests[2]);
  // 5: one pass less, of 128 floats; the maximum does not start from the first element.
  CHECK(requests[3] - requests[4] == kWalk / 4);
  // 5 makes three passes in shared memory: two reads and two writes, each of four cycles, and no conflict.
  const Cost staged = cost_of(reports[4], Space::shared), vectorised = cost_of(reports[3], Space::shared);
  CHECK(staged.conflicts == 0);
  CHECK(staged.requests - vectorised.requests == 4 * kWalk / 4);
}

TEST_CASE("analysis: each rung of the layer norm ladder shows what it gains") {
  constexpr std::int64_t n = 256, kRow = n * 4 / 32;  // sectors of a row
  const std::vector<KernelReport> reports = reports_of("layer_norm", n);
  REQUIRE(reports.size() == 5);
  std::vector<std::int64_t> sectors_read;
  for (const KernelReport& report : reports) {
    sectors_read.push_back(report.total(Space::global, Access::read).transactions);
    CHECK(report.needed_read == n * n * 4 + 2 * n * 4);
    CHECK(report.needed_written == n * n * 4 + 2 * n * 4);
  }
  // 1: three passes in which each lane has its own sector, and two floats for all lanes.
  CHECK(sectors_read[0] == 3 * n * n + 2 * n * n / 32);
  CHECK(reports[0].total(Space::global, Access::write).transactions == n * n + 2 * kRow);
  // 2: three passes over whole sectors, weight and bias. 3: one pass less, and each of 4 warps reads x[0].
  CHECK(sectors_read[1] == n * (3 + 2) * kRow);
  CHECK(sectors_read[2] == n * ((2 + 2) * kRow + 4));
  CHECK(reports[1].barrier_count() == n * 4);
  // 4: the same sectors by a quarter of the requests, but for x[0], mean and rstd.
  CHECK(sectors_read[3] == sectors_read[2]);
  CHECK(cost_of(reports[2], Space::global).requests == n * (5 * n / 32 + 4 + 2));
  CHECK(cost_of(reports[3], Space::global).requests == n * (5 * n / 128 + 4 + 2));
  // 5: the row is read once.
  CHECK(sectors_read[4] == n * (1 + 2) * kRow);
  CHECK(cost_of(reports[4], Space::global).requests == n * (4 * n / 128 + 2));
}

TEST_CASE("analysis: each rung of the attention ladder shows what it gains") {
  constexpr std::int64_t n = 128, kHeads = 4, kWidth = 64, kRow = kWidth * 4 / 32;  // sectors of a key
  constexpr std::int64_t kPairs = n * (n + 1) / 2, kBlocks = n / 64, kWarps = n / 32;
  const std::vector<KernelReport> reports = reports_of("attention", n);
  REQUIRE(reports.size() == 5);
  std::vector<std::int64_t> sectors_read;
  for (const KernelReport& report : reports) {
    sectors_read.push_back(report.total(Space::global, Access::read).transactions);
  }
  for (std::size_t rung = 1; rung < 5; ++rung) {
    INFO("version " << rung + 1);
    CHECK(reports[rung].needed_read == 3 * kHeads * n * kWidth * (rung == 4 ? 2 : 4));
    CHECK(reports[rung].needed_written == kHeads * n * kWidth * 4);
  }
  // 1, the scores: for each element of the head a sector for each key, and one of the query for each warp.
  constexpr std::int64_t kWarpsWithKeys = 32 * kWarps * (kWarps + 1) / 2;
  CHECK(sectors_read[0] == kHeads * kWidth * (kPairs + kWarpsWithKeys));
  CHECK(reports[0].needed_written == kHeads * kPairs * 4);
  // 2: each key and value whole, for each query, and the query for each of 4 warps.
  CHECK(sectors_read[1] == kHeads * (2 * kPairs * kRow + 4 * n * kRow));
  // 3: tiles of 32 keys and values for each block, and the queries, a sector for each element.
  constexpr std::int64_t kTiles = kBlocks * (kBlocks + 1);
  CHECK(sectors_read[2] == kHeads * (kTiles * 2 * 32 * kRow + n * kWidth));
  // A warp sees as many tiles as there are warps up to it; in a tile, 32 keys and values.
  const std::int64_t reads = kHeads * kWarps * (kWarps + 1) / 2 * 32 * 2 * kWidth;
  CHECK(reports[2].total(Space::shared, Access::read).requests == reads);
  // 4: four floats a request.
  CHECK(sectors_read[3] == kHeads * (kTiles * 2 * 32 * kRow + n * kWidth / 4));
  CHECK(reports[3].total(Space::shared, Access::read).requests == reads / 4);
  // 5: half the bytes. ldmatrix: 16 for each product of a warp with a tile of 64 keys, and 4 for its queries.
  constexpr std::int64_t kTensorTiles = kBlocks * (kBlocks + 1) / 2;
  CHECK(sectors_read[4] == kHeads * (kTensorTiles * 2 * 64 * kRow / 2 + n * kRow / 2));
  CHECK(reports[4].total(Space::shared, Access::read).requests ==
        kHeads * 4 * (kTensorTiles * 2 * 16 + kBlocks * 4));
  CHECK(cost_of(reports[4], Space::shared).conflicts == 0);
}

TEST_CASE("analysis: each rung of the GEMM ladder shows what it gains") {
  constexpr std::int64_t n = 128, kWarps = n * n / 32;
  const std::vector<KernelReport> reports = reports_of("gemm", n);
  REQUIRE(reports.size() == 9);
  std::vector<Cost> global, shared;
  for (const KernelReport& report : reports) {
    global.push_back(cost_of(report, Space::global));
    shared.push_back(cost_of(report, Space::shared));
    CHECK(report.divergent_branches() == 0);
    CHECK(report.needed_written == n * n * 4);
    CHECK(report.needed_read == 2 * n * n * (report.kernel == "tensor_core" ? 2 : 4));
  }
  // 1: 32 rows of A and one float of B for each k, C by rows. 2: one of A, 4 sectors of B, C whole.
  CHECK(global[0].transactions == kWarps * n * (32 + 1) + kWarps * 32);
  CHECK(global[1].transactions == kWarps * n * (1 + 4) + kWarps * 4);
  CHECK(global[1].requests == global[0].requests);
  // 3: each float is read once for 32 rows or columns. 4: for 64.
  CHECK(global[2].transactions == 2 * (n / 32) * n * n * 4 / 32 + n * n * 4 / 32);
  CHECK(global[3].transactions == 2 * (n / 64) * n * n * 4 / 32 + n * n * 4 / 32);
  // 3 reads two floats of shared memory for a multiply-add; 4 nine for eight, 5 sixteen for 64.
  CHECK(reports[2].total(Space::shared, Access::read).requests == 2 * kWarps * n);
  CHECK(reports[3].total(Space::shared, Access::read).requests == 9 * kWarps * n / 8);
  CHECK(reports[4].total(Space::shared, Access::read).requests == 16 * kWarps * n / 64);
  CHECK(global[4].requests < global[3].requests);
  // 6: four at a time, and B without conflicts.
  CHECK(4 * global[5].requests == global[4].requests);
  CHECK(reports[5].total(Space::shared, Access::read).requests == 4 * kWarps * n / 64);
  CHECK(reports[4].total(Space::shared, Access::read).conflicts() > 0);
  CHECK(reports[5].total(Space::shared, Access::read).conflicts() == 0);
  CHECK(2 * shared[5].transactions < shared[4].transactions);
  // 7: no conflicts at all, one barrier for sixteen k in place of two for eight.
  CHECK(shared[5].conflicts > 0);
  CHECK(shared[6].conflicts == 0);
  CHECK(4 * reports[6].barrier_count() == reports[5].barrier_count());
  // While it multiplies, the tiles of the next step are in flight: in all steps but the last.
  constexpr std::int64_t kSteps = n / 16;
  for (std::size_t rung = 0; rung < 6; ++rung)
    CHECK(reports[rung].total(Space::shared, Access::read).while_copying == 0);
  const LineCounts reads = reports[6].total(Space::shared, Access::read);
  CHECK(reads.while_copying * kSteps == reads.requests * (kSteps - 1));
  // 8: 24 floats for 128 multiply-adds in place of 32.
  CHECK(4 * reports[7].total(Space::shared, Access::read).requests ==
        3 * reports[6].total(Space::shared, Access::read).requests);
  CHECK(shared[7].transactions < shared[6].transactions);
  // 9: half the bytes, and ldmatrix: 8 instructions for 4 x 8 products of 16 x 8 x 16, 4 cycles each.
  CHECK(reports[8].bytes_moved() == 2 * n * n * 2 + n * n * 4);
  CHECK(reports[8].total(Space::shared, Access::read).requests == 8 * (n / 64) * (n / 64) * (n / 16));
  CHECK(shared[8].transactions * 5 < shared[7].transactions);
  CHECK(shared[8].conflicts == 0);
  CHECK(2 * reports[8].barrier_count() == reports[7].barrier_count());
}

}  // namespace ringtape::test
