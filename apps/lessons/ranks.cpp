#include "apps/lessons/ranks.h"

#include <fmt/format.h>

#include <cstdio>
#include <vector>

#include "dist/connect.h"
#include "dist/launch.h"

namespace ringtape::lessons {

std::shared_ptr<Communicator> connect_ranks() {
  const Launch launch = detect_launch(process_environment());
  return connect(launch, device_of_rank(launch, "cpu", 0));
}

void print_by_rank(Communicator& ranks, const std::string& text) {
  const std::vector<std::int64_t> length = {std::ssize(text)};
  const Tensor lengths = empty({ranks.size()}, DType::i64);
  ranks.all_gather(from_vector(length, {1}), lengths).wait();
  const std::vector<std::int64_t> counts = lengths.to_vector<std::int64_t>();

  std::int64_t all = 0;
  for (const std::int64_t count : counts) all += count;
  const std::vector<std::int32_t> own(text.begin(), text.end());
  const Tensor gathered = empty({all}, DType::i32);
  ranks.gather(from_vector(own, {std::ssize(own)}), gathered, 0, counts).wait();
  if (!prints(ranks)) return;
  const std::vector<std::int32_t> letters = gathered.to_vector<std::int32_t>();
  fmt::print("{}", std::string(letters.begin(), letters.end()));
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
