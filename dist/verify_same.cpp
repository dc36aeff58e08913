#include "dist/verify_same.h"

#include <sstream>
#include <vector>

#include "core/error.h"
#include "io/checksum.h"

namespace ringtape {
namespace {

/// The text of rank `root`; all ranks know its length.
std::string broadcast_text(Communicator& comm, const std::string& text, std::int64_t length, int root) {
  std::vector<std::int32_t> letters(static_cast<std::size_t>(length));
  if (comm.rank() == root) letters.assign(text.begin(), text.end());
  const Tensor sent = copy_to(from_vector(letters, {length}), comm.device());
  comm.broadcast(sent, root).wait();
  std::string received;
  for (const std::int32_t letter : sent.to_vector<std::int32_t>()) {
    received += static_cast<char>(letter);
  }
  return received;
}

[[noreturn]] void fail_at_first_difference(const std::string& what, const std::string& line,
                                           const std::string& of_rank_0, const std::string& of_other,
                                           int other) {
  std::istringstream first(of_rank_0), second(of_other);
  std::string found_0, found_other;
  for (int number = 0; first || second; ++number) {
    if (!std::getline(first, found_0)) found_0 = "missing";
    if (!std::getline(second, found_other)) found_other = "missing";
    if (found_0 == found_other) continue;
    const std::string place = line.empty() ? "" : fmt::format("{} {} is ", line, number);
    fail("{} differ: {}{} on rank 0, but {} on rank {}", what, place, found_0, found_other, other);
  }
  fail("{} differ: on rank 0 and on rank {} by a line end", what, other);
}

}  // namespace

void verify_same(Communicator& comm, const std::string& what, const std::string& line,
                 const std::string& text) {
  const std::vector<std::int64_t> summary = {crc32(0, text.data(), text.size()), std::ssize(text)};
  const Tensor gathered = empty({2 * comm.size()}, DType::i64, comm.device());
  comm.all_gather(copy_to(from_vector(summary, {2}), comm.device()), gathered).wait();
  const std::vector<std::int64_t> all = gathered.to_vector<std::int64_t>();
  for (int rank = 1; rank < comm.size(); ++rank) {
    const std::size_t at = 2 * static_cast<std::size_t>(rank);
    if (all[at] == all[0] && all[at + 1] == all[1]) continue;
    const std::string of_rank_0 = broadcast_text(comm, text, all[1], 0);
    const std::string of_other = broadcast_text(comm, text, all[at + 1], rank);
    fail_at_first_difference(what, line, of_rank_0, of_other, rank);
  }
}

}  // namespace ringtape
