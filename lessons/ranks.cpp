#include "lessons/ranks.h"

#include <fmt/format.h>

#include <cstdio>

#include "dist/connect.h"
#include "dist/gather_text.h"

namespace ringtape::lessons {

std::shared_ptr<Communicator> connect_ranks(const std::optional<SlowLink>& link) {
  const RankEnvironment env = detect_rank_environment(process_environment());
  return connect(env, device_of_rank(env, Device{}, 0), Seconds(60), link);
}

std::string link_text(const SlowLink& link) {
  return fmt::format("{:g} us and {:g} MB/s", link.latency.count() * 1e6, link.bytes_per_second * 1e-6);
}

void print_by_rank(Communicator& comm, const std::string& text) {
  for (const std::string& own : gather_text(comm, text)) fmt::print("{}", own);
  std::fflush(stdout);
}

bool has_ranks(const Communicator& comm, int wanted, const char* program) {
  if (comm.size() >= wanted) return true;
  if (prints(comm)) {
    fmt::print("This lesson needs at least {0} ranks: mpirun -n {0} {1}\n", wanted, program);
  }
  return false;
}

}  // namespace ringtape::lessons
