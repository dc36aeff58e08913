#pragma once

#include "kernels/common/launcher.h"

namespace ringtape {

/// The tokens of an embedding, i32 or i64 [rows], and the table's sizes. A row is a token of a sequence of
/// `sequence` tokens; with positions, its position is first_position + row % sequence. A table may be a part
/// of a larger one: then its first row belongs to token `first_token`, and the tokens of other parts give
/// zeros.
struct EmbeddingProblem {
  DType token_dtype;
  const void* tokens;
  std::int64_t rows;
  std::int64_t sequence;
  std::int64_t first_position;
  std::int64_t vocabulary;  ///< rows of the table
  std::int64_t columns;
  std::int64_t first_token = 0;
  std::int64_t all_tokens = 0;  ///< of the larger table; 0: there is none
};

/// Elements of 8 bytes in the workspace of embedding_backward: two lists of the rows and their tokens.
constexpr std::int64_t embedding_workspace(std::int64_t rows) {
  return 2 * rows;
}

/// The most rows, and the most tokens of a table, that embedding_backward() supports.
inline constexpr std::int64_t kMaxEmbeddingRows = (std::int64_t{1} << 31) - 1;

}  // namespace ringtape

/// y [rows, columns] = weight[token] + positions[position]; positions null for none. weight
/// [vocabulary, columns], positions [.., columns] and y have one dtype: f32, bf16, f16 or, on the CPU, f64. A
/// token outside [0, vocabulary), or outside [0, all_tokens) of the larger table, gives zeros, and 1 + its
/// row is written to *invalid, which the caller zeroes.
RINGTAPE_LAUNCHER(embedding_forward, DType dtype, const EmbeddingProblem& problem, const void* weight,
                  const void* positions, void* y, int* invalid);

/// dweight[token] += dy for each row, in the order of the rows, whatever the number of threads; dweight is
/// f32 (f64 for f64). The rows are sorted by their tokens, in a pass for each 8 bits of a token, and the rows
/// of a token are then added up together: the work is linear in the rows whatever the tokens, and takes no
/// atomics. At most kMaxEmbeddingRows rows and tokens of the table.
RINGTAPE_LAUNCHER(embedding_backward, DType dtype, const EmbeddingProblem& problem, const void* dy,
                  void* workspace, void* dweight);
