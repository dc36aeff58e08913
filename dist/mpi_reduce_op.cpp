#include "dist/mpi_reduce_op.h"

#include <algorithm>

#include "core/error.h"
#include "core/half.h"
#include "dist/mpi_thread.h"

namespace ringtape {
namespace {

void round_to(float value, float& to) {
  to = value;
}
void round_to(float value, bfloat16& to) {
  to = on_cpu::to_bfloat16(value);
}
void round_to(float value, float16& to) {
  to = on_cpu::to_float16(value);
}
float as_float(float value) {
  return value;
}
float as_float(bfloat16 value) {
  return on_cpu::to_float(value);
}
float as_float(float16 value) {
  return on_cpu::to_float(value);
}

struct Add {
  float operator()(float a, float b) const { return a + b; }
};
struct Min {
  float operator()(float a, float b) const { return std::min(a, b); }
};
struct Max {
  float operator()(float a, float b) const { return std::max(a, b); }
};

/// The function that MPI calls to combine elements: to[i] = combine(from[i], to[i]).
template <class T, class Combine>
void combine_halves(void* from, void* to, int* count, MPI_Datatype*) {
  const T* a = static_cast<const T*>(from);
  T* b = static_cast<T*>(to);
  for (int i = 0; i < *count; ++i) round_to(Combine()(as_float(a[i]), as_float(b[i])), b[i]);
}

template <class T, class Combine>
MPI_Op half_op() {
  static const MPI_Op op = [] {
    MPI_Op made = MPI_OP_NULL;
    RINGTAPE_MPI(MPI_Op_create(combine_halves<T, Combine>, /*commute=*/1, &made));
    return made;
  }();
  return op;
}

template <class T>
MPI_Op half_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean:
      return half_op<T, Add>();
    case ReduceOp::min:
      return half_op<T, Min>();
    case ReduceOp::max:
      return half_op<T, Max>();
  }
  fail("unknown reduction");
}

template <class T>
void divide_elements(void* x, std::int64_t n, int divisor) {
  T* elements = static_cast<T*>(x);
  const auto by = static_cast<float>(divisor);
  for (std::int64_t i = 0; i < n; ++i) round_to(as_float(elements[i]) / by, elements[i]);
}

}  // namespace

MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return MPI_FLOAT;
    case DType::f64:
      return MPI_DOUBLE;
    case DType::f16:
    case DType::bf16:
      return MPI_UINT16_T;
    case DType::i32:
      return MPI_INT32_T;
    case DType::i64:
      return MPI_INT64_T;
    default:
      fail("MPI: no type for {}", name_of(dtype));
  }
}

MPI_Op mpi_op(ReduceOp op, DType dtype) {
  if (dtype == DType::f16) return half_op<float16>(op);
  if (dtype == DType::bf16) return half_op<bfloat16>(op);
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean:
      return MPI_SUM;
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::max:
      return MPI_MAX;
  }
  fail("unknown reduction");
}

void divide(DType dtype, void* x, std::int64_t n, int divisor) {
  switch (dtype) {
    case DType::f32:
      return divide_elements<float>(x, n, divisor);
    case DType::f64: {
      double* elements = static_cast<double*>(x);
      for (std::int64_t i = 0; i < n; ++i) elements[i] /= divisor;
      return;
    }
    case DType::f16:
      return divide_elements<float16>(x, n, divisor);
    case DType::bf16:
      return divide_elements<bfloat16>(x, n, divisor);
    default:
      fail("mean of {}, expected a floating dtype", name_of(dtype));
  }
}

}  // namespace ringtape
