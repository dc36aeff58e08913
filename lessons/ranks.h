#pragma once

#include <memory>
#include <optional>
#include <string>

#include "dist/communicator.h"
#include "dist/slow_link.h"

/// Functions for the lessons with several ranks.
namespace ringtape::lessons {

/// The communicator of the ranks that mpirun has started, on CPUs; of one rank without mpirun.
/// `link`: slows down the messages between ranks.
std::shared_ptr<Communicator> connect_ranks(const std::optional<SlowLink>& link = {});

/// "100 us and 250 MB/s".
std::string link_text(const SlowLink& link);

/// Rank 0 prints the texts of all ranks in rank order. A collective: all ranks must call it.
void print_by_rank(Communicator& comm, const std::string& text);

/// True on the rank that prints what all ranks know: rank 0.
inline bool prints(const Communicator& comm) {
  return comm.rank() == 0;
}

/// True with at least `wanted` ranks; otherwise false, and rank 0 prints how to start `program` with them.
bool has_ranks(const Communicator& comm, int wanted, const char* program);

}  // namespace ringtape::lessons
