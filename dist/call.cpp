#include "dist/call.h"

#include "core/error.h"

namespace ringtape {

const char* name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::mean:
      return "mean";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
  }
  return "unknown";
}

const char* name_of(CommOperation operation) {
  switch (operation) {
    case CommOperation::all_reduce:
      return "all_reduce";
    case CommOperation::broadcast:
      return "broadcast";
    case CommOperation::reduce:
      return "reduce";
    case CommOperation::all_gather:
      return "all_gather";
    case CommOperation::reduce_scatter:
      return "reduce_scatter";
    case CommOperation::gather:
      return "gather";
    case CommOperation::scatter:
      return "scatter";
    case CommOperation::exchange:
      return "exchange";
    case CommOperation::barrier:
      return "barrier";
    case CommOperation::split:
      return "split";
    case CommOperation::connect:
      return "connect";
    case CommOperation::disconnect:
      return "disconnect";
  }
  return "unknown";
}

std::uint64_t hash_of_counts(std::span<const std::int64_t> counts) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : std::as_bytes(counts)) {
    hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3;
  }
  return hash;
}

std::string describe(const Call& call) {
  if (call.operation == CommOperation::connect || call.operation == CommOperation::disconnect) {
    return name_of(call.operation);
  }
  const std::string op = call.reduces ? fmt::format("{} of ", name_of(call.op)) : "";
  const std::string root = call.root >= 0 ? fmt::format(", root {}", call.root) : "";
  return fmt::format("{} #{} ({}{} {}, {} bytes{})", name_of(call.operation), call.sequence, op,
                     call.elements, name_of(call.dtype),
                     call.elements * static_cast<std::int64_t>(size_of(call.dtype)), root);
}

}  // namespace ringtape
