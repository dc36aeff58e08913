#pragma once

#include <cstdint>

#include "core/target.h"

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11): for each 64-bit key, a
/// bijection from 128-bit counters to 128 random bits. Element i of a random tensor is word i % 4 of counter
/// offset + i / 4, so the CPU and the GPU, and any number of threads, give the same values.
namespace ringtape::RINGTAPE_TARGET {

/// The four 32-bit numbers of a counter.
struct Philox4 {
  std::uint32_t x, y, z, w;
};

/// The 64-bit product.
RINGTAPE_HOST_DEVICE inline std::uint64_t wide_product(std::uint32_t a, std::uint32_t b) {
#if defined(__CUDA_ARCH__)
  // One instruction. For a constant above 2^31 nvcc 13.0 adds 0 to the upper half of a product of 64-bit
  // numbers.
  std::uint64_t product;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
#else
  return std::uint64_t{a} * b;
#endif
}

RINGTAPE_HOST_DEVICE inline Philox4 philox4x32_10(std::uint64_t seed, std::uint64_t counter_low,
                                                  std::uint64_t counter_high) {
  Philox4 c{static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
            static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)};
  std::uint32_t key0 = static_cast<std::uint32_t>(seed);
  std::uint32_t key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = wide_product(0xD2511F53u, c.x);
    const std::uint64_t product1 = wide_product(0xCD9E8D57u, c.z);
    c = {static_cast<std::uint32_t>(product1 >> 32) ^ c.y ^ key0, static_cast<std::uint32_t>(product1),
         static_cast<std::uint32_t>(product0 >> 32) ^ c.w ^ key1, static_cast<std::uint32_t>(product0)};
    key0 += 0x9E3779B9u;  // golden ratio
    key1 += 0xBB67AE85u;  // sqrt(3) - 1
  }
  return c;
}

/// 24 random bits as a float in [0, 1): exact on every target.
RINGTAPE_HOST_DEVICE inline float uniform_float(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * 5.9604644775390625e-8f;
}

}  // namespace ringtape::RINGTAPE_TARGET
