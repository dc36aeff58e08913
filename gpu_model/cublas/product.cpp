#include "gpu_model/cublas/product.h"

#include <algorithm>
#include <cstring>

namespace gpu_model {
namespace {

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
  if (value != value) return value;  // the addition would carry a NaN's bits over to 0
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x1000u) & ~0x1fffu;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

float to_16_bits(float value, cudaDataType type) {
  std::uint16_t bits;
  write(&bits, type, 0, value);
  return read(&bits, type, 0);
}

/// "Down-conversion" of an operand, as cublasComputeType_t describes it.
float round_operand(float value, cublasComputeType_t compute_type) {
  switch (compute_type) {
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return to_tf32(value);
    case CUBLAS_COMPUTE_32F_FAST_16F:
      return to_16_bits(value, CUDA_R_16F);
    case CUBLAS_COMPUTE_32F_FAST_16BF:
      return to_16_bits(value, CUDA_R_16BF);
    default:
      return value;
  }
}

float value_of(const Scale& scale) {
  return scale.device == nullptr ? scale.value : *scale.device;
}

}  // namespace

std::size_t size_of(cudaDataType type) {
  return type == CUDA_R_32F ? 4 : 2;
}

std::size_t Layout::bytes() const {
  return rows == 0 || columns == 0 ? 0
                                   : ((columns - 1) * static_cast<std::size_t>(ld) + rows) * size_of(type);
}

std::vector<Operand> operands_of(const Product& p) {
  const auto matrix = [](const char* name, const void* at, const Layout& layout, bool written) {
    return Operand{name, {at, layout.bytes()}, size_of(layout.type), written};
  };
  std::vector<Operand> operands = {matrix("A", p.a, p.a_layout, false), matrix("B", p.b, p.b_layout, false),
                                   matrix("C", p.c, p.c_layout, true)};
  const std::size_t element = size_of(p.c_layout.type);
  if (p.bias != nullptr) operands.push_back({"the bias", {p.bias, p.m() * element}, element, false});
  if (p.bias_gradient != nullptr) {
    operands.push_back({"the bias' gradient", {p.bias_gradient, p.n() * element}, element, true});
  }
  if (p.alpha.device != nullptr) {
    operands.push_back({"alpha", {p.alpha.device, sizeof(float)}, sizeof(float), false});
    operands.push_back({"beta", {p.beta.device, sizeof(float)}, sizeof(float), false});
  }
  return operands;
}

bool overlap(const void* a, const Layout& a_layout, const void* b, const Layout& b_layout) {
  if (a_layout.bytes() == 0 || b_layout.bytes() == 0) return false;
  const auto column_bytes = [](const Layout& of) { return of.rows * size_of(of.type); };
  const auto step = [](const Layout& of) { return static_cast<std::size_t>(of.ld) * size_of(of.type); };
  const auto first = reinterpret_cast<std::uintptr_t>(b);
  for (std::uint64_t i = 0; i < a_layout.columns; ++i) {
    const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(a) + i * step(a_layout);
    const std::uintptr_t end = begin + column_bytes(a_layout);
    if (end <= first) continue;
    // The last column of b that begins before `end`.
    const std::uint64_t last =
        std::min<std::uint64_t>((end - 1 - first) / step(b_layout), b_layout.columns - 1);
    if (first + last * step(b_layout) + column_bytes(b_layout) > begin) return true;
  }
  return false;
}

bool has_aligned_columns(const void* first, const Layout& layout) {
  return reinterpret_cast<std::uintptr_t>(first) % 16 == 0 &&
         static_cast<std::size_t>(layout.ld) * size_of(layout.type) % 16 == 0;
}

void multiply(const Product& p) {
  const std::size_t m = p.m(), n = p.n(), k = p.k();
  const auto lda = static_cast<std::size_t>(p.a_layout.ld), ldb = static_cast<std::size_t>(p.b_layout.ld),
             ldc = static_cast<std::size_t>(p.c_layout.ld);
  const cudaDataType type = p.c_layout.type;
  const float alpha = value_of(p.alpha), beta = value_of(p.beta);
  std::vector<float> a(m * k), sums(m);
  for (std::size_t l = 0; l < k; ++l) {
    for (std::size_t i = 0; i < m; ++i) {
      a[l * m + i] = read(p.a, p.a_layout.type, p.op_a == CUBLAS_OP_N ? l * lda + i : i * lda + l);
    }
  }
  const bool rounds = p.compute_type != CUBLAS_COMPUTE_32F;
  if (rounds) {
    std::transform(a.begin(), a.end(), a.begin(),
                   [&](float value) { return round_operand(value, p.compute_type); });
  }
  const bool rounds_before_bias =
      !(has_aligned_columns(p.a, p.a_layout) && has_aligned_columns(p.b, p.b_layout) &&
        has_aligned_columns(p.c, p.c_layout));
  for (std::size_t j = 0; j < n; ++j) {
    sums.assign(m, 0.0f);
    float sum_of_b = 0;
    for (std::size_t l = 0; l < k; ++l) {
      const float given = read(p.b, p.b_layout.type, p.op_b == CUBLAS_OP_N ? j * ldb + l : l * ldb + j);
      const float b = rounds ? round_operand(given, p.compute_type) : given;
      const float* const column = a.data() + l * m;
      for (std::size_t i = 0; i < m; ++i) sums[i] += column[i] * b;
      sum_of_b += given;
    }
    if (p.bias_gradient != nullptr) write(p.bias_gradient, type, j, sum_of_b);
    for (std::size_t i = 0; i < m; ++i) {
      const std::size_t at = j * ldc + i;
      const float before = beta == 0 ? 0 : beta * read(p.c, type, at);  // with beta 0 C is not read
      const float sum = alpha * sums[i] + before;
      const bool has_bias = p.bias != nullptr;
      if (!has_bias || rounds_before_bias) write(p.c, type, at, sum);
      if (has_bias) {
        write(p.c, type, at, (rounds_before_bias ? read(p.c, type, at) : sum) + read(p.bias, type, i));
      }
    }
  }
}

}  // namespace gpu_model
