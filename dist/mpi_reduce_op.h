#pragma once

#include <mpi.h>

#include <cstdint>

#include "core/dtype.h"
#include "dist/call.h"

namespace ringtape {

/// MPI's type for elements of `dtype`. MPI has no 16-bit floats: they are sent as 16-bit integers.
MPI_Datatype mpi_type(DType dtype);

/// MPI's operation for `op` on elements of `dtype`; for `mean` the sum. 16-bit floats have user-defined
/// operations, which combine two elements in f32 and round the result. Call it on the MPI thread.
MPI_Op mpi_op(ReduceOp op, DType dtype);

/// x[i] = x[i] / divisor, rounded once. Throws Error for a dtype that is not floating.
void divide(DType dtype, void* x, std::int64_t n, int divisor);

}  // namespace ringtape
