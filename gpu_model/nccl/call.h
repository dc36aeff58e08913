#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <string>

/// A call of one of NCCL's operations.
namespace gpu_model::nccl {

enum class Function : std::int32_t {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  send,
  receive
};

/// The parameters on which the ranks of a communicator must agree. In shared memory.
struct Shape {
  Function function;
  ncclDataType_t type;
  ncclRedOp_t op;     ///< ncclSum for operations without one
  std::int32_t root;  ///< or the peer of ncclSend and ncclRecv; -1 without one
  std::uint64_t count;

  bool operator==(const Shape&) const = default;
};

struct NcclCall {
  Shape shape;
  const char* send;  ///< null if the rank sends nothing
  char* receive;     ///< null if the rank receives nothing

  bool is_collective() const {
    return shape.function != Function::send && shape.function != Function::receive;
  }
};

const char* name_of(Function function);
const char* name_of(ncclDataType_t type);
/// "ncclAllReduce of 1024 ncclFloat32, ncclSum"
std::string describe(const Shape& shape);

/// Bytes of the send and the receive buffer of a rank, which depend on whether the rank is the root.
struct Buffers {
  std::size_t send;
  std::size_t receive;
};
Buffers buffers_of(const Shape& shape, int ranks, int rank);

}  // namespace gpu_model::nccl
