#include "dist/share_cores.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/error.h"

namespace ringtape {
namespace {

bool has_core(const CoreMask& mask, std::size_t core) {
  return (mask[core / 64] >> core % 64 & 1) != 0;
}

}  // namespace

CoreMask usable_cores() {
  cpu_set_t set;
  static_assert(sizeof set == sizeof(CoreMask));
  CPU_ZERO(&set);
  check(sched_getaffinity(0, sizeof set, &set) == 0, "sched_getaffinity failed: {}", std::strerror(errno));
  CoreMask mask{};
  for (std::size_t core = 0; core < 64 * mask.size(); ++core) {
    if (CPU_ISSET(core, &set)) mask[core / 64] |= std::uint64_t{1} << core % 64;
  }
  return mask;
}

int threads_of_rank(const CoreMask& own, std::span<const CoreMask> all) {
  double share = 0;
  for (std::size_t core = 0; core < 64 * own.size(); ++core) {
    if (!has_core(own, core)) continue;
    const auto ranks =
        std::count_if(all.begin(), all.end(), [core](const CoreMask& mask) { return has_core(mask, core); });
    share += 1.0 / static_cast<double>(std::max<std::ptrdiff_t>(ranks, 1));
  }
  return std::max(1, static_cast<int>(share + 1e-6));  // shares may sum to slightly less
}

void share_cores(const CoreMask& own, std::span<const CoreMask> all) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return;
  omp_set_num_threads(std::min(omp_get_max_threads(), threads_of_rank(own, all)));
}

}  // namespace ringtape
