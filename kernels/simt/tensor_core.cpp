#include "kernels/simt/tensor_core.h"

#include <utility>

#include "core/half.h"

namespace ringtape::simt {
namespace {

constexpr int kLanes = 32;

/// A lane's word at the barrier is the address of its arguments, which stay on its stack while it waits.
template <class T>
std::uint64_t to_word(T& arguments) {
  return reinterpret_cast<std::uintptr_t>(&arguments);
}
template <class T>
T& from_word(std::uint64_t word) {
  return *reinterpret_cast<T*>(static_cast<std::uintptr_t>(word));
}

/// The 16-bit element at `column` of a row, or of a register's two halves.
unsigned half_of(const unsigned* words, int column) {
  return words[column / 2] >> column % 2 * 16 & 0xffffu;
}

struct Exchange {
  const MatrixRow* row;
  unsigned* registers;
  bool transposed;
};

std::uint64_t exchange_all(const std::uint64_t* words, int) {
  for (int lane = 0; lane < kLanes; ++lane) {
    const Exchange& to = from_word<Exchange>(words[lane]);
    for (int matrix = 0; matrix < 4; ++matrix) {
      unsigned halves[2];
      for (int half = 0; half < 2; ++half) {
        int row = lane / 4, column = lane % 4 * 2 + half;
        if (to.transposed) std::swap(row, column);
        halves[half] = half_of(from_word<Exchange>(words[matrix * 8 + row]).row->words, column);
      }
      to.registers[matrix] = halves[0] | halves[1] << 16;
    }
  }
  return 0;
}

struct Multiply {
  float* sums;
  const unsigned* a;
  const unsigned* b;
  DType dtype;
};

float value_of(DType dtype, const unsigned* registers, int element) {
  const auto bits = static_cast<std::uint16_t>(half_of(registers, element));
  return dtype == DType::bf16 ? on_cpu::to_float(bfloat16{bits}) : on_cpu::to_float(float16{bits});
}

// Layouts from the PTX ISA's figures for mma.m16n8k16, with its names: lane = 4 group + thread.
std::uint64_t multiply_all(const std::uint64_t* words, int) {
  float a[16][16], b[16][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const Multiply& from = from_word<Multiply>(words[lane]);
    const int group = lane / 4, thread = lane % 4;
    for (int i = 0; i < 8; ++i) {  // a0 to a7
      const int row = i / 2 % 2 == 0 ? group : group + 8;
      const int column = thread * 2 + i % 2 + (i < 4 ? 0 : 8);
      a[row][column] = value_of(from.dtype, from.a, i);
    }
    for (int i = 0; i < 4; ++i) {  // b0 to b3
      const int row = thread * 2 + i % 2 + (i < 2 ? 0 : 8);
      b[row][group] = value_of(from.dtype, from.b, i);
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    const Multiply& to = from_word<Multiply>(words[lane]);
    const int group = lane / 4, thread = lane % 4;
    for (int i = 0; i < 4; ++i) {  // c0 to c3
      const int row = i < 2 ? group : group + 8;
      const int column = thread * 2 + i % 2;
      for (int k = 0; k < 16; ++k) to.sums[i] += a[row][k] * b[k][column];
    }
  }
  return 0;
}

}  // namespace

void exchange_matrices(const MatrixRow& row, bool transposed, unsigned (&registers)[4],
                       SourceLocation location) {
  Exchange own{&row, registers, transposed};
  combine_warp(to_word(own), exchange_all, location);
}

void multiply_matrices(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2], DType dtype,
                       SourceLocation location) {
  Multiply own{sums, a, b, dtype};
  combine_warp(to_word(own), multiply_all, location);
}

}  // namespace ringtape::simt
