#include "lessons/ranks.h"

#include <fmt/format.h>

#include <cstdio>

#include "dist/connect.h"
#include "dist/gather_text.h"

namespace ringtape::lessons {

std::shared_ptr<Communicator> connect_ranks(const std::optional<SlowLink>& link) {
  const Launch launch = detect_launch(process_environment());
  return connect(launch, device_of_rank(launch, "cpu", 0), Seconds(60), link);
}

void print_by_rank(Communicator& ranks, const std::string& text) {
  for (const std::string& own : gather_text(ranks, text)) fmt::print("{}", own);
  std::fflush(stdout);
}

bool has_ranks(const Communicator& ranks, int wanted, const char* program) {
  if (ranks.size() >= wanted) return true;
  if (prints(ranks)) {
    fmt::print("This lesson needs at least {0} ranks: mpirun -n {0} {1}\n", wanted, program);
  }
  return false;
}

}  // namespace ringtape::lessons
