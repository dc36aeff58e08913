#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dist/communicator.h"
#include "tests/support/tensors.h"

// Functions for tests that run on several ranks: every rank runs all tests, in the same order.
namespace ringtape::test {

/// The communicators to test, each of all ranks: this run's, and MPI in pieces of at most 7 elements, as if
/// that were the largest int.
struct NamedCommunicator {
  std::string name;
  std::shared_ptr<Communicator> communicator;
};
std::vector<NamedCommunicator>& all_communicators();

/// The ranks' device, as --device has it: RINGTAPE_DIST_DEVICE, or "cpu".
std::optional<Device> device_of_run();

/// Integers from -5 to 5 that differ between ranks: their sums are exact in every dtype.
inline double value_of(int rank, std::int64_t i) {
  return static_cast<double>((7 * i + 3 * rank) % 11 - 5);
}

/// `n` elements of `rank`, starting at its element `first`.
inline std::vector<double> values_of(int rank, std::int64_t n, std::int64_t first = 0) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(value_of(rank, first + i));
  return values;
}

/// The result of `op` over the elements of all ranks.
inline std::vector<double> reduced(ReduceOp op, int world_size, std::int64_t n, std::int64_t first = 0) {
  std::vector<double> result = values_of(0, n, first);
  for (int rank = 1; rank < world_size; ++rank) {
    for (std::int64_t i = 0; i < n; ++i) {
      const double value = value_of(rank, first + i);
      double& so_far = result[static_cast<std::size_t>(i)];
      so_far = op == ReduceOp::min   ? std::min(so_far, value)
               : op == ReduceOp::max ? std::max(so_far, value)
                                     : so_far + value;
    }
  }
  for (double& value : result) value /= op == ReduceOp::mean ? world_size : 1;
  return result;
}

}  // namespace ringtape::test
