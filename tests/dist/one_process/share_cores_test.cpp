#include "dist/share_cores.h"

#include <omp.h>

#include <cstdlib>
#include <vector>

#include "tests/support/catch.h"

using namespace ringtape;

namespace {

/// The cores first, ..., last.
CoreMask cores(std::size_t first, std::size_t last) {
  CoreMask mask{};
  for (std::size_t core = first; core <= last; ++core) mask[core / 64] |= std::uint64_t{1} << core % 64;
  return mask;
}

}  // namespace

TEST_CASE("ranks that may use the same cores share them, and no rank has less than one thread", "[launch]") {
  const CoreMask two = cores(0, 1), many = cores(0, 127);
  CHECK(threads_of_rank(two, std::vector{two}) == 2);
  CHECK(threads_of_rank(two, std::vector{two, two}) == 1);
  CHECK(threads_of_rank(two, std::vector{two, two, two}) == 1);
  CHECK(threads_of_rank(many, std::vector(8, many)) == 16);
  CHECK(threads_of_rank(many, std::vector(3, many)) == 42);
  CHECK(threads_of_rank(many, std::vector(128, many)) == 1);
}

TEST_CASE("ranks that the launcher has bound keep all of their cores", "[launch]") {
  const std::vector<CoreMask> bound = {cores(0, 3), cores(4, 7), cores(60, 67)};
  CHECK(threads_of_rank(bound[0], bound) == 4);
  CHECK(threads_of_rank(bound[1], bound) == 4);
  CHECK(threads_of_rank(bound[2], bound) == 8);
  // Two ranks on a socket of 8 cores, and one that may use both sockets: 8 cores shared by 3 ranks, 8 by 1.
  const std::vector<CoreMask> mixed = {cores(0, 7), cores(0, 7), cores(0, 15)};
  CHECK(threads_of_rank(mixed[0], mixed) == 2);
  CHECK(threads_of_rank(mixed[2], mixed) == 10);
}

TEST_CASE("sharing changes the number of threads unless the user has chosen it", "[launch]") {
  const int before = omp_get_max_threads();
  const char* const set = std::getenv("OMP_NUM_THREADS");
  const std::string kept = set != nullptr ? set : "";
  omp_set_num_threads(6);
  setenv("OMP_NUM_THREADS", "6", 1);
  share_cores(cores(0, 7), std::vector(4, cores(0, 7)));
  CHECK(omp_get_max_threads() == 6);
  unsetenv("OMP_NUM_THREADS");
  share_cores(cores(0, 7), std::vector(4, cores(0, 7)));
  CHECK(omp_get_max_threads() == 2);
  share_cores(cores(0, 7), std::vector{cores(0, 7)});  // never more than there were
  CHECK(omp_get_max_threads() == 2);
  if (set != nullptr) setenv("OMP_NUM_THREADS", kept.c_str(), 1);
  omp_set_num_threads(before);
}
