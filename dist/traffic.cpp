#include "dist/traffic.h"

#include <fmt/format.h>

namespace ringtape {

double bytes_sent(Operation operation, int world_size, double bytes) {
  const double all_but_own = (world_size - 1.0) / world_size;
  switch (operation) {
    case Operation::all_reduce:
      return 2 * all_but_own * bytes;
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::broadcast:
    case Operation::reduce:
    case Operation::gather:
    case Operation::scatter:
      return all_but_own * bytes;
    case Operation::exchange:
      return bytes;
    case Operation::barrier:
    case Operation::split:
    case Operation::connect:
    case Operation::disconnect:
      return 0;
  }
  return 0;
}

std::string traffic_table(const CollectiveCounts& before, const CollectiveCounts& after, int world_size,
                          std::int64_t updates) {
  constexpr double kMiB = 1024 * 1024;
  std::string text = fmt::format("{:<22} {:>12} {:>12} {:>12}\n", "traffic, by formula", "calls",
                                 "tensors, MiB", "sent, MiB");
  double sent = 0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const auto operation = static_cast<Operation>(i);
    const auto per_update = [&](std::uint64_t first, std::uint64_t last) {
      return static_cast<double>(last - first) / static_cast<double>(updates);
    };
    const double calls = per_update(before[i].calls, after[i].calls);
    const double bytes = per_update(before[i].bytes, after[i].bytes);
    if (calls == 0) continue;
    const double of_operation = bytes_sent(operation, world_size, bytes);
    sent += of_operation;
    text += fmt::format("{:<22} {:>12g} {:>12.3f} {:>12.3f}\n", name_of(operation), calls, bytes / kMiB,
                        of_operation / kMiB);
  }
  return text + fmt::format("{:<22} {:>12} {:>12} {:>12.3f}\n", "total", "", "", sent / kMiB);
}

}  // namespace ringtape
