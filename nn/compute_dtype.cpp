#include "nn/compute_dtype.h"

#include "core/error.h"

namespace ringtape {

DType parse_compute_dtype(std::string_view text, Device device) {
  if (text == "f32") return DType::f32;
  if (text == "bf16") return DType::bf16;
  if (text == "f16") return DType::f16;
  check(text == "auto", "dtype '{}' cannot be computed in: expected f32, bf16, f16 or auto", text);
  return has_bf16_instructions(device) ? DType::bf16 : DType::f16;
}

std::string describe_compute_dtype(DType dtype, Device device) {
  if (device.is_cpu() && dtype == DType::f16) {
    return "f16 (multiplied in f32 on a CPU)";
  }
  if (device.is_cpu() && dtype == DType::bf16 && !has_bf16_instructions(device)) {
    return "bf16 (multiplied in f32: this CPU has no bf16 instructions)";
  }
  return name_of(dtype);
}

}  // namespace ringtape
