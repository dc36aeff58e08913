#include "autograd/low_precision.h"

#include "autograd/arguments.h"
#include "autograd/operation_scope.h"
#include "autograd/tape.h"
#include "kernels/elementwise.h"

namespace ringtape {

Tensor in_dtype(const Tensor& parameter, DType dtype, const char* operation) {
  if (!parameter.defined() || parameter.autograd == nullptr) return parameter;
  AutogradMeta& meta = *parameter.autograd;
  if (!meta.low_precision.defined()) return parameter;
  if (meta.low_precision.dtype() != dtype) {
    if (meta.arena.expired()) return parameter;
    fail("{}: the input is {}, but the arena of {} computes in {}: expected to(input, arena.compute_dtype())",
         operation, name_of(dtype), meta.name.empty() ? "the parameter" : meta.name,
         name_of(meta.low_precision.dtype()));
  }
  Tensor copy = meta.low_precision;
  if (meta.low_precision_version != parameter.storage()->version) {
    add_work({.bytes = bytes_of({&parameter, &copy})});
    cast(stream_of(copy), parameter.dtype(), parameter.raw(), dtype, copy.raw(), copy.elements(), false);
    copy.bump_version();
    meta.low_precision_version = parameter.storage()->version;
  }
  copy.autograd = parameter.autograd;  // for the name in messages; parameters do not count as saved memory
  return copy;
}

DType compute_dtype_of(const Tensor& parameter) {
  const bool has_copy = parameter.autograd != nullptr && parameter.autograd->low_precision.defined();
  return has_copy ? parameter.autograd->low_precision.dtype() : parameter.dtype();
}

}  // namespace ringtape
