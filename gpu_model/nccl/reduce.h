#pragma once

#include <nccl.h>

#include <cstddef>

/// The arithmetic of the elements.
namespace gpu_model::nccl {

bool is_type(ncclDataType_t type);
bool is_op(ncclRedOp_t op);
/// Bytes of an element.
std::size_t size_of(ncclDataType_t type);

/// Prepares the elements of one rank before they are combined: with ncclAvg, floating-point elements are
/// multiplied by 1 / ranks, rounded to the element's type, and the product is rounded to it too. Other
/// operations change nothing.
void prepare(ncclDataType_t type, ncclRedOp_t op, int ranks, void* elements, std::size_t count);
/// into[i] = op(into[i], from[i]), rounded to the element's type each time.
void combine(ncclDataType_t type, ncclRedOp_t op, void* into, const void* from, std::size_t count);
/// Finishes the combined result: with ncclAvg, integers are divided by the number of ranks, towards zero.
void finish(ncclDataType_t type, ncclRedOp_t op, int ranks, void* elements, std::size_t count);

}  // namespace gpu_model::nccl
