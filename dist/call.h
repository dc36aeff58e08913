#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/dtype.h"

namespace ringtape {

/// How the elements of several ranks are combined. `mean` is the sum divided by the number of ranks, and
/// requires a floating dtype.
enum class ReduceOp : std::uint8_t { sum, mean, min, max };

/// What a communicator is asked to do.
enum class CommOperation : std::uint8_t {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  gather,
  scatter,
  exchange,
  barrier,
  split,
  connect,
  disconnect,
};
constexpr std::size_t kOperations = 12;

/// "sum", "all_reduce" and so on.
const char* name_of(ReduceOp op);
const char* name_of(CommOperation operation);

/// One call of a communicator's operation. All ranks must make the same calls in the same order, so they
/// compare their Calls: a rank finds that its neighbour's call differs before it overwrites data.
struct Call {
  CommOperation operation = CommOperation::barrier;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  std::uint8_t reduces = 0;    ///< 1 where `op` matters
  std::int32_t root = -1;      ///< -1 for an operation without a root
  std::int64_t elements = 0;   ///< of the larger tensor; of an exchange: sent by this rank
  std::uint64_t sequence = 0;  ///< counts a communicator's collectives, and separately its exchanges
  std::uint64_t counts = 0;    ///< hash_of_counts() of the ranks' parts; 0 for an operation without parts

  bool operator==(const Call&) const = default;
};

/// The 64-bit FNV-1a hash (Fowler, Noll, Vo) of the number of elements of each rank.
std::uint64_t hash_of_counts(std::span<const std::int64_t> counts);

/// "all_reduce #17 (sum of 1024 f32, 4096 bytes)"
std::string describe(const Call& call);

}  // namespace ringtape
