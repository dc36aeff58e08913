#pragma once

#include <cstdint>

#include "core/target.h"

/// Several neighbouring elements as one value, so that the GPU moves 16 bytes with one instruction.
namespace ringtape::RINGTAPE_TARGET {

/// A number of lanes known at compile time: use it as a loop bound or a template argument.
template <int N>
struct Lanes {
  RINGTAPE_HOST_DEVICE constexpr operator int() const { return N; }
};

/// Lanes of T in 16 bytes.
template <class T>
inline constexpr int kVecLanes = 16 / static_cast<int>(sizeof(T));

/// W neighbouring elements.
template <class T, int W>
struct Vec {
  T lane[W];
  RINGTAPE_HOST_DEVICE constexpr T& operator[](int i) { return lane[i]; }
  RINGTAPE_HOST_DEVICE constexpr const T& operator[](int i) const { return lane[i]; }
};

/// Reads W elements that start at `from`. Where `from` is a multiple of 16 bytes and so is the size of the
/// Vec, the GPU reads 16 bytes at a time; otherwise element by element.
template <int W, class T>
RINGTAPE_HOST_DEVICE inline Vec<T, W> load_vec(const T* from) {
  Vec<T, W> value;
#if defined(__CUDA_ARCH__)
  constexpr int kPieces = sizeof(value) / sizeof(uint4);
  if constexpr (sizeof(value) % sizeof(uint4) == 0) {
    if (reinterpret_cast<std::uintptr_t>(from) % sizeof(uint4) == 0) {
      uint4 pieces[kPieces];
#pragma unroll
      for (int i = 0; i < kPieces; ++i) pieces[i] = reinterpret_cast<const uint4*>(from)[i];
      memcpy(&value, pieces, sizeof(value));
      return value;
    }
  }
#pragma unroll
#endif
  for (int i = 0; i < W; ++i) value.lane[i] = from[i];
  return value;
}

/// Writes W elements that start at `to`, as load_vec reads them.
template <class T, int W>
RINGTAPE_HOST_DEVICE inline void store_vec(T* to, const Vec<T, W>& value) {
#if defined(__CUDA_ARCH__)
  constexpr int kPieces = sizeof(value) / sizeof(uint4);
  if constexpr (sizeof(value) % sizeof(uint4) == 0) {
    if (reinterpret_cast<std::uintptr_t>(to) % sizeof(uint4) == 0) {
      uint4 pieces[kPieces];
      memcpy(pieces, &value, sizeof(value));
#pragma unroll
      for (int i = 0; i < kPieces; ++i) reinterpret_cast<uint4*>(to)[i] = pieces[i];
      return;
    }
  }
#pragma unroll
#endif
  for (int i = 0; i < W; ++i) to[i] = value.lane[i];
}

}  // namespace ringtape::RINGTAPE_TARGET
