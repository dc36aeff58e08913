#include "gpu_model/cublas/product.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace gpu_model {
namespace {

std::size_t size_of(cudaDataType type) {
  return type == CUDA_R_32F ? 4 : 2;
}

float from_half(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  std::uint32_t wide = sign;
  if (magnitude >= 0x7c00u) {
    wide |= 0x7f800000u | ((magnitude & 0x3ffu) << 13);
  } else if (magnitude >= 0x0400u) {
    wide |= (magnitude << 13) + (112u << 23);
  } else {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

float read(const void* from, cudaDataType type, std::size_t i) {
  if (type == CUDA_R_32F) return static_cast<const float*>(from)[i];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(from)[i];
  if (type == CUDA_R_16F) return from_half(bits);
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

void write(void* to, cudaDataType type, std::size_t i, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(to)[i] = value;
  } else if (type == CUDA_R_16F) {
    const _Float16 half = static_cast<_Float16>(value);
    std::memcpy(static_cast<std::uint16_t*>(to) + i, &half, sizeof half);
  } else {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    bits = is_nan ? bits | 0x400000u : bits + 0x7fffu + ((bits >> 16) & 1u);
    static_cast<std::uint16_t*>(to)[i] = static_cast<std::uint16_t>(bits >> 16);
  }
}

/// Rounds an f32 operand to the 10 mantissa bits of a tensor core, to nearest.
float to_tf32(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x1000u) & ~0x1fffu;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Sums in f32, in the order of k.
void multiply(const Product& p) {
  std::vector<float> a(p.m * p.k), sums(p.m);
  for (std::size_t l = 0; l < p.k; ++l) {
    for (std::size_t i = 0; i < p.m; ++i)
      a[l * p.m + i] = read(p.a, p.a_type, p.transpose_a ? i * p.lda + l : l * p.lda + i);
  }
  if (p.rounds) std::transform(a.begin(), a.end(), a.begin(), to_tf32);
  for (std::size_t j = 0; j < p.n; ++j) {
    sums.assign(p.m, 0.0f);
    float sum_of_b = 0;
    for (std::size_t l = 0; l < p.k; ++l) {
      const float given = read(p.b, p.b_type, p.transpose_b ? l * p.ldb + j : j * p.ldb + l);
      const float b = p.rounds ? to_tf32(given) : given;
      for (std::size_t i = 0; i < p.m; ++i) sums[i] += a[l * p.m + i] * b;
      sum_of_b += given;
    }
    if (p.bias_gradient != nullptr) write(p.bias_gradient, p.c_type, j, sum_of_b);
    for (std::size_t i = 0; i < p.m; ++i) {
      const std::size_t at = j * p.ldc + i;
      const float before = p.beta == 0 ? 0 : p.beta * read(p.c, p.c_type, at);  // with beta 0 C is not read
      const float bias = p.bias == nullptr ? 0 : read(p.bias, p.c_type, i);
      const float result = p.alpha * sums[i] + before + bias;
      write(p.c, p.c_type, at, p.relu ? std::fmax(result, 0.0f) : result);
    }
  }
}

}  // namespace

Operation operation_of(const Product& product, const char* name, const void* caller) {
  const auto extent = [](std::size_t columns, std::size_t rows, std::size_t ld, cudaDataType type) {
    return ((columns - 1) * ld + rows) * size_of(type);
  };
  const Product& p = product;
  Operation operation;
  operation.name = name;
  operation.caller = caller;
  operation.reads = {
      {p.a, p.transpose_a ? extent(p.m, p.k, p.lda, p.a_type) : extent(p.k, p.m, p.lda, p.a_type)},
      {p.b, p.transpose_b ? extent(p.k, p.n, p.ldb, p.b_type) : extent(p.n, p.k, p.ldb, p.b_type)}};
  operation.writes = {{p.c, extent(p.n, p.m, p.ldc, p.c_type)}};
  if (p.bias != nullptr) operation.reads.push_back({p.bias, p.m * size_of(p.c_type)});
  if (p.bias_gradient != nullptr) operation.writes.push_back({p.bias_gradient, p.n * size_of(p.c_type)});
  operation.run = [product] {
    multiply(product);
    return Progress::done;
  };
  return operation;
}

}  // namespace gpu_model
