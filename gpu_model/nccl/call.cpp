#include "gpu_model/nccl/call.h"

#include "gpu_model/nccl/reduce.h"

namespace gpu_model::nccl {
namespace {

const char* name_of(ncclRedOp_t op) {
  switch (op) {
    case ncclSum:
      return "ncclSum";
    case ncclProd:
      return "ncclProd";
    case ncclMax:
      return "ncclMax";
    case ncclMin:
      return "ncclMin";
    case ncclAvg:
      return "ncclAvg";
  }
  return "?";
}

}  // namespace

const char* name_of(Function function) {
  switch (function) {
    case Function::all_reduce:
      return "ncclAllReduce";
    case Function::broadcast:
      return "ncclBroadcast";
    case Function::reduce:
      return "ncclReduce";
    case Function::all_gather:
      return "ncclAllGather";
    case Function::reduce_scatter:
      return "ncclReduceScatter";
    case Function::send:
      return "ncclSend";
    case Function::receive:
      return "ncclRecv";
  }
  return "?";
}

const char* name_of(ncclDataType_t type) {
  static const char* const names[] = {"ncclInt8",    "ncclUint8",   "ncclInt32",   "ncclUint32",
                                      "ncclInt64",   "ncclUint64",  "ncclFloat16", "ncclFloat32",
                                      "ncclFloat64", "ncclBfloat16"};
  return is_type(type) ? names[type] : "?";
}

std::string describe(const Shape& shape) {
  std::string text =
      std::string(name_of(shape.function)) + " of " + std::to_string(shape.count) + " " + name_of(shape.type);
  switch (shape.function) {
    case Function::all_reduce:
    case Function::reduce_scatter:
      return text + ", " + name_of(shape.op);
    case Function::reduce:
      return text + ", " + name_of(shape.op) + ", root " + std::to_string(shape.root);
    case Function::broadcast:
      return text + ", root " + std::to_string(shape.root);
    case Function::send:
      return text + " to rank " + std::to_string(shape.root);
    case Function::receive:
      return text + " from rank " + std::to_string(shape.root);
    case Function::all_gather:
      return text;
  }
  return text;
}

Buffers buffers_of(const Shape& shape, int ranks, int rank) {
  const std::size_t bytes = shape.count * size_of(shape.type), all = bytes * static_cast<std::size_t>(ranks);
  const bool is_root = shape.root == rank;
  switch (shape.function) {
    case Function::all_reduce:
      return {bytes, bytes};
    case Function::broadcast:
      return {is_root ? bytes : 0, bytes};
    case Function::reduce:
      return {bytes, is_root ? bytes : 0};
    case Function::all_gather:
      return {bytes, all};
    case Function::reduce_scatter:
      return {all, bytes};
    case Function::send:
      return {bytes, 0};
    case Function::receive:
      return {0, bytes};
  }
  return {0, 0};
}

}  // namespace gpu_model::nccl
