#include "dist/traffic.h"

#include "tests/support/catch.h"

using namespace ringtape;

TEST_CASE("bytes sent for a collective: what a ring sends", "[traffic]") {
  for (const int n : {1, 2, 3, 8}) {
    // Each of n chunks is passed on n - 1 times to be added up, and n - 1 times more to go round.
    CHECK(bytes_sent(CommOperation::all_reduce, n, 240) == Approx(2 * (n - 1) * (240.0 / n)));
    CHECK(bytes_sent(CommOperation::reduce_scatter, n, 240) == Approx((n - 1) * (240.0 / n)));
    CHECK(bytes_sent(CommOperation::all_gather, n, 240) == Approx((n - 1) * (240.0 / n)));
    CHECK(bytes_sent(CommOperation::broadcast, n, 240) * n == Approx((n - 1) * 240));
  }
  CHECK(bytes_sent(CommOperation::exchange, 4, 240) == 240);
  CHECK(bytes_sent(CommOperation::barrier, 4, 240) == 0);
}

TEST_CASE("the traffic between two moments as a table", "[traffic]") {
  CollectiveCounts before{}, after{};
  const auto at = [](CommOperation operation) { return static_cast<std::size_t>(operation); };
  before[at(CommOperation::all_reduce)] = {2, 1 << 20};
  after[at(CommOperation::all_reduce)] = {6, 5 << 20};
  after[at(CommOperation::all_gather)] = {1, 1 << 20};
  const CollectiveCounts counts = difference(before, after);
  CHECK(bytes_sent(counts, 4) == 6.75 * (1 << 20));
  CHECK(traffic_table(counts, "data", 4) ==
        "traffic, data                 calls tensors, MiB    sent, MiB\n"
        "all_reduce                        4        4.000        6.000\n"
        "all_gather                        1        1.000        0.750\n"
        "total                                                   6.750\n");
}
