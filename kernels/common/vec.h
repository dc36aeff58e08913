#pragma once

#include <cstdint>
#include <type_traits>

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

#if defined(__CUDA_ARCH__)
#define RINGTAPE_VEC_PIECES
using Piece16 = uint4;
using Piece8 = uint2;
using Piece4 = unsigned;
#elif defined(RINGTAPE_ANALYSIS)  // counts the GPU's accesses
#define RINGTAPE_VEC_PIECES
using Piece16 = unsigned __int128;
using Piece8 = std::uint64_t;
using Piece4 = std::uint32_t;
#endif

#if defined(RINGTAPE_VEC_PIECES)
/// The part of a Vec that one instruction moves: 16 bytes or, where its size is not a multiple of that, 8 or
/// 4.
template <class V>
using Piece = std::conditional_t<sizeof(V) % sizeof(Piece16) == 0, Piece16,
                                 std::conditional_t<sizeof(V) % sizeof(Piece8) == 0, Piece8, Piece4>>;
/// Whether a Vec of T moves in pieces of P.
template <class T, class V, class P>
inline constexpr bool kInPieces = sizeof(V) % sizeof(P) == 0 && sizeof(P) > sizeof(T);

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
  *to = piece;
#endif
}
#endif

/// Reads W elements that start at `from`. Where `from` and the size of the Vec are multiples of 16 bytes, or
/// both of 8 or of 4, the GPU reads that many at a time; otherwise element by element.
template <int W, class T>
RINGTAPE_HOST_DEVICE inline Vec<T, W> load_vec(const T* from) {
  Vec<T, W> value;
#if defined(RINGTAPE_VEC_PIECES)
  using P = Piece<decltype(value)>;
  constexpr int kPieces = sizeof(value) / sizeof(P);
  if constexpr (kInPieces<T, decltype(value), P>) {
    if (reinterpret_cast<std::uintptr_t>(from) % sizeof(P) == 0) {
      P pieces[kPieces];
#pragma unroll
      for (int i = 0; i < kPieces; ++i) pieces[i] = read_piece(reinterpret_cast<const P*>(from) + i);
      __builtin_memcpy(&value, pieces, sizeof(value));
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
#if defined(RINGTAPE_VEC_PIECES)
  using P = Piece<Vec<T, W>>;
  constexpr int kPieces = sizeof(value) / sizeof(P);
  if constexpr (kInPieces<T, Vec<T, W>, P>) {
    if (reinterpret_cast<std::uintptr_t>(to) % sizeof(P) == 0) {
      P pieces[kPieces];
      __builtin_memcpy(pieces, &value, sizeof(value));
#pragma unroll
      for (int i = 0; i < kPieces; ++i) write_piece(reinterpret_cast<P*>(to) + i, pieces[i]);
      return;
    }
  }
#pragma unroll
#endif
  for (int i = 0; i < W; ++i) to[i] = value.lane[i];
}

}  // namespace ringtape::RINGTAPE_TARGET
