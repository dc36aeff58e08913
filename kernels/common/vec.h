#pragma once

#include <cstdint>
#include <type_traits>

#include "core/target.h"

#if defined(RINGTAPE_ON_MODEL)
#include "kernels/common/check_alignment.h"
#endif

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

/// Whether vectors are moved in pieces of up to 16 bytes: on the GPU, and in the analysis, which counts the
/// GPU's accesses. On the CPU the compiler vectorises loops over elements.
#if defined(__CUDA_ARCH__)
inline constexpr bool kPieces = true;
using Piece16 = uint4;
using Piece8 = uint2;
#else
#if defined(RINGTAPE_ANALYSIS)
inline constexpr bool kPieces = true;
#else
inline constexpr bool kPieces = false;
#endif
using Piece16 = unsigned __int128;
using Piece8 = std::uint64_t;
#endif
using Piece4 = std::uint32_t;

/// The part of a Vec that one instruction moves: 16 bytes or, if the size of the Vec is not a multiple of 16,
/// 8 or 4.
template <class V>
using Piece = std::conditional_t<sizeof(V) % sizeof(Piece16) == 0, Piece16,
                                 std::conditional_t<sizeof(V) % sizeof(Piece8) == 0, Piece8, Piece4>>;
/// Whether a Vec of T moves in pieces of P: on the GPU, and on this target.
template <class T, class V, class P = Piece<V>>
inline constexpr bool kInPiecesOnGpu = sizeof(V) % sizeof(P) == 0 && sizeof(P) > sizeof(T);
template <class T, class V>
inline constexpr bool kInPieces = kPieces&& kInPiecesOnGpu<T, V>;

/// Whether a Vec at this address can be moved in pieces.
template <class V, class T>
RINGTAPE_HOST_DEVICE inline bool is_aligned(const T* address) {
  return reinterpret_cast<std::uintptr_t>(address) % sizeof(Piece<V>) == 0;
}

template <class P>
RINGTAPE_HOST_DEVICE inline P read_piece(const P* from) {
#if defined(RINGTAPE_ANALYSIS)
  return *static_cast<const volatile P*>(from);  // volatile: one access
#else
  return *from;
#endif
}
template <class P>
RINGTAPE_HOST_DEVICE inline void write_piece(P* to, P piece) {
#if defined(RINGTAPE_ANALYSIS)
  *static_cast<volatile P*>(to) = piece;
#else
#if defined(__CUDA_ARCH__)
  // nvcc 13.0 splits a 16-byte assignment where the same loop also accesses the elements one by one. It knows
  // at compile time which memory `to` points to.
  if constexpr (sizeof(P) == 16) {
    if (__isGlobal(to)) {
      asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(piece.x), "r"(piece.y),
                   "r"(piece.z), "r"(piece.w)
                   : "memory");
      return;
    }
    if (__isShared(to)) {
      asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(
                       static_cast<unsigned>(__cvta_generic_to_shared(to))),
                   "r"(piece.x), "r"(piece.y), "r"(piece.z), "r"(piece.w)
                   : "memory");
      return;
    }
  }
#endif
  *to = piece;
#endif
}

/// Reads W elements from `from` on, which must be a multiple of 16 bytes or, if the size of the Vec is not,
/// of 8 or 4 bytes like that size: the GPU reads pieces of this size.
template <int W, class T>
RINGTAPE_HOST_DEVICE inline Vec<T, W> load_aligned(const T* from) {
  using P = Piece<Vec<T, W>>;
  Vec<T, W> value;
  if constexpr (kInPieces<T, Vec<T, W>>) {
    constexpr int kCount = sizeof(value) / sizeof(P);
    P pieces[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) pieces[i] = read_piece(reinterpret_cast<const P*>(from) + i);
    __builtin_memcpy(&value, pieces, sizeof(value));
  } else {
#if defined(RINGTAPE_ON_MODEL)
    if constexpr (kInPiecesOnGpu<T, Vec<T, W>>) check_alignment<P>(from);
#endif
    for (int i = 0; i < W; ++i) value.lane[i] = from[i];
  }
  return value;
}

/// Writes W elements that start at `to`, as load_aligned reads them.
template <class T, int W>
RINGTAPE_HOST_DEVICE inline void store_aligned(T* to, const Vec<T, W>& value) {
  using P = Piece<Vec<T, W>>;
  if constexpr (kInPieces<T, Vec<T, W>>) {
    constexpr int kCount = sizeof(value) / sizeof(P);
    P pieces[kCount];
    __builtin_memcpy(pieces, &value, sizeof(value));
#pragma unroll
    for (int i = 0; i < kCount; ++i) write_piece(reinterpret_cast<P*>(to) + i, pieces[i]);
  } else {
#if defined(RINGTAPE_ON_MODEL)
    if constexpr (kInPiecesOnGpu<T, Vec<T, W>>) check_alignment<P>(to);
#endif
    for (int i = 0; i < W; ++i) to[i] = value.lane[i];
  }
}

/// load_aligned where the address allows it; otherwise element by element.
template <int W, class T>
RINGTAPE_HOST_DEVICE inline Vec<T, W> load_vec(const T* from) {
  if constexpr (kInPieces<T, Vec<T, W>>) {
    if (is_aligned<Vec<T, W>>(from)) return load_aligned<W>(from);
  }
  Vec<T, W> value;
#pragma unroll
  for (int i = 0; i < W; ++i) value.lane[i] = from[i];
  return value;
}

/// Writes W elements that start at `to`, as load_vec reads them.
template <class T, int W>
RINGTAPE_HOST_DEVICE inline void store_vec(T* to, const Vec<T, W>& value) {
  if constexpr (kInPieces<T, Vec<T, W>>) {
    if (is_aligned<Vec<T, W>>(to)) return store_aligned(to, value);
  }
#pragma unroll
  for (int i = 0; i < W; ++i) to[i] = value.lane[i];
}

}  // namespace ringtape::RINGTAPE_TARGET
