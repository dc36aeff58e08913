#include "dist/traffic.h"

#include <fmt/format.h>

#include "core/numbers.h"

namespace ringtape {
namespace {

/// (n - 1) / n: the share of a buffer that belongs to other ranks.
double share_of_others(int world_size) {
  return (world_size - 1.0) / world_size;
}

}  // namespace

double bytes_on_link(CommOperation operation, int world_size, double bytes) {
  switch (operation) {
    case CommOperation::all_reduce:
      return 2 * share_of_others(world_size) * bytes;
    case CommOperation::all_gather:
    case CommOperation::reduce_scatter:
    case CommOperation::gather:
    case CommOperation::scatter:
      return share_of_others(world_size) * bytes;
    case CommOperation::broadcast:
    case CommOperation::reduce:
    case CommOperation::exchange:
      return bytes;
    case CommOperation::barrier:
    case CommOperation::split:
    case CommOperation::connect:
    case CommOperation::disconnect:
      return 0;
  }
  return 0;
}

double bytes_sent(CommOperation operation, int world_size, double bytes) {
  if (operation == CommOperation::broadcast || operation == CommOperation::reduce) {
    return share_of_others(world_size) * bytes;
  }
  return bytes_on_link(operation, world_size, bytes);
}

CollectiveCounts difference(const CollectiveCounts& before, const CollectiveCounts& after) {
  CollectiveCounts counts{};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    counts[i] = {after[i].calls - before[i].calls, after[i].bytes - before[i].bytes};
  }
  return counts;
}

double bytes_sent(const CollectiveCounts& counts, int world_size) {
  double sent = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    sent += bytes_sent(static_cast<CommOperation>(i), world_size, static_cast<double>(counts[i].bytes));
  }
  return sent;
}

std::string traffic_table(const CollectiveCounts& counts, const std::string& group, int world_size) {
  const std::string title = group.empty() ? "traffic" : "traffic, " + group;
  std::string text =
      fmt::format("{:<22} {:>12} {:>12} {:>12}\n", title, "calls", "tensors, MiB", "sent, MiB");
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto operation = static_cast<CommOperation>(i);
    if (counts[i].calls == 0) continue;
    const auto bytes = static_cast<double>(counts[i].bytes);
    text += fmt::format("{:<22} {:>12} {:>12.3f} {:>12.3f}\n", name_of(operation), counts[i].calls,
                        mebibytes(bytes), mebibytes(bytes_sent(operation, world_size, bytes)));
  }
  return text + fmt::format("{:<22} {:>12} {:>12} {:>12.3f}\n", "total", "", "",
                            mebibytes(bytes_sent(counts, world_size)));
}

}  // namespace ringtape
