#pragma once

#include "kernels/common/launcher.h"

namespace ringtape {

/// Rotary position embedding (Su et al., "RoFormer", 2021) in the rotate-half order of Llama. x and y [rows,
/// columns], row r at position first_position + r % sequence. The first `heads` heads of head_size elements
/// turn; the other columns are copied.
struct RotaryProblem {
  DType dtype;        ///< f32, bf16, f16 or, on the CPU, f64
  std::int64_t rows;  ///< below 2^32, as are the elements of a row
  std::int64_t columns;
  std::int64_t sequence;
  std::int64_t heads;
  std::int64_t head_size;  ///< even
  const void* cosines;     ///< [sequence, head_size / 2] of f32 (f64 for f64), by rotary_table
  const void* sines;
};

}  // namespace ringtape

/// cosines[t, i] and sines[t, i] of the angle (first_position + t) * base^(-2 i / head_size), f32 or f64, for
/// `sequence` positions. Power, frequency and angle are rounded to f32 for every dtype, as in the code with
/// which Llama's models are trained and run: at large positions a more exact angle would differ from it.
RINGTAPE_LAUNCHER(rotary_table, DType dtype, void* cosines, void* sines, std::int64_t sequence,
                  std::int64_t first_position, std::int64_t head_size, double base);

/// For elements i and j = i + head_size / 2 of a head: y[i] = x[i] cos - x[j] sin, y[j] = x[j] cos + x[i]
/// sin. `inverse` turns by the negative angle, which is the gradient. y may be x.
RINGTAPE_LAUNCHER(rotary, const RotaryProblem& problem, const void* x, void* y, bool inverse);
