#include "nn/compute_dtype.h"

namespace ringtape {

DType half_dtype(Device device) {
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
