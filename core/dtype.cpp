#include "core/dtype.h"

namespace ringtape {
namespace {

struct Row {
  DType dtype;
  const char* name;
  std::size_t size;
};

constexpr Row kTypes[] = {
    {DType::f32, "f32", 4}, {DType::f64, "f64", 8}, {DType::bf16, "bf16", 2}, {DType::f16, "f16", 2},
    {DType::i32, "i32", 4}, {DType::i64, "i64", 8}, {DType::u8, "u8", 1},
};

const Row& row(DType dtype) {
  return kTypes[static_cast<std::size_t>(dtype)];
}

}  // namespace

std::size_t size_of(DType dtype) {
  return row(dtype).size;
}

const char* name_of(DType dtype) {
  return row(dtype).name;
}

bool is_floating(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::bf16 || dtype == DType::f16;
}

}  // namespace ringtape
