#include "kernels/common/kernel.h"

#include "kernels/common/rows.h"
#include "kernels/common/store_result.h"
#include "kernels/embedding.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

template <class T, class Token>
__global__ void embedding_forward(EmbeddingProblem p, const T* weight, const T* positions, T* y,
                                  int* invalid) {
  const Token* const tokens = static_cast<const Token*>(p.tokens);
  const BlockShare share = share_of_block(p.rows);
  for (std::int64_t row = share.first; row < share.end; row += share.step) {
    const std::int64_t token = tokens[row], own = token - p.first_token;
    const bool is_own = own >= 0 && own < p.vocabulary;
    const bool is_valid = is_own || (token >= 0 && token < p.all_tokens);
    if (!is_valid && threadIdx.x == 0) atomicExch(invalid, static_cast<int>(row + 1));
    const T* const from = is_own ? weight + own * p.columns : nullptr;
    const T* const added = !is_own || positions == nullptr
                               ? nullptr
                               : positions + (p.first_position + row % p.sequence) * p.columns;
    T* const to = y + row * p.columns;
    for_each_vec_in_block<T>(p.columns, [=](std::int64_t i, auto lanes) {
      Vec<accumulate_t<T>, lanes> values = {};
      if (from != nullptr) values = load_accumulate<lanes>(from + i);
      if (added != nullptr) {
        const auto more = load_accumulate<lanes>(added + i);
        for (int k = 0; k < lanes; ++k) values[k] += more[k];
      }
      store_result(to + i, values, false);
    });
  }
}

/// Rows whose tokens a block compares at a time.
constexpr int kComparedRows = 256;

/// Whether each of them has the block's token. Not in the kernel: in a template GCC does not keep a variable
/// in the section of shared memory (check builds).
__device__ int* compared_rows() {
  __shared__ int equal[kComparedRows];
  return equal;
}

/// Whether each of the rows from `first` on, kComparedRows of them or up to `end`, has this token, to
/// `equal`, by all threads of the block. Returns to every thread whether one has.
template <class Token>
__device__ bool compare_rows(const Token* tokens, Token token, std::int64_t first, std::int64_t end,
                             int* equal) {
  const int count = static_cast<int>(minimum<std::int64_t>(kComparedRows, end - first));
  int found = 0;
  __syncthreads();  // all threads have read the `equal` of the rows before
  for (int i = static_cast<int>(threadIdx.x); i < kComparedRows; i += static_cast<int>(blockDim.x)) {
    const int is_equal = i < count && tokens[first + i] == token ? 1 : 0;
    equal[i] = is_equal;
    found |= is_equal;
  }
  __syncthreads();
  return block_max(found) != 0;
}

template <class T, class Token>
__global__ void embedding_backward(EmbeddingProblem p, const T* dy, accumulate_t<T>* dweight) {
  int* const equal = compared_rows();
  const Token* const tokens = static_cast<const Token*>(p.tokens);
  const std::int64_t own = blockIdx.x;
  const Token token = tokens[own];
  const std::int64_t in_table = token - p.first_token;
  if (in_table < 0 || in_table >= p.vocabulary) return;
  for (std::int64_t first = 0; first < own; first += kComparedRows) {
    if (compare_rows(tokens, token, first, own, equal)) return;  // the block of an earlier row adds this one
  }
  accumulate_t<T>* const to = dweight + in_table * p.columns;
  for (std::int64_t first = own; first < p.rows; first += kComparedRows) {
    if (!compare_rows(tokens, token, first, p.rows, equal)) continue;
    for (int r = 0; r < kComparedRows; ++r) {
      if (equal[r] == 0) continue;
      const T* const from = dy + (first + r) * p.columns;
      for_each_vec_in_block<T>(p.columns, [=](std::int64_t i, auto lanes) {
        auto sum = load_vec<lanes>(to + i);
        const auto added = load_accumulate<lanes>(from + i);
        for (int k = 0; k < lanes; ++k) sum[k] += added[k];
        store_vec(to + i, sum);
      });
    }
  }
}

}  // namespace

/// Runs the statements with `Token` as the type of the tokens.
#define RINGTAPE_WITH_TOKEN(dtype, ...) \
  do {                                  \
    if ((dtype) == DType::i64) {        \
      using Token = std::int64_t;       \
      __VA_ARGS__;                      \
    } else {                            \
      using Token = std::int32_t;       \
      __VA_ARGS__;                      \
    }                                   \
  } while (false)

void embedding_forward(const Stream& stream, DType dtype, const EmbeddingProblem& problem, const void* weight,
                       const void* positions, void* y, int* invalid) {
  RINGTAPE_DISPATCH_FLOATING(dtype, T, {
    const LaunchShape shape = rows_shape<T>(problem.rows, problem.columns);
    RINGTAPE_WITH_TOKEN(
        problem.token_dtype,
        launch(embedding_forward<T, Token>, shape, stream, problem, static_cast<const T*>(weight),
               static_cast<const T*>(positions), static_cast<T*>(y), invalid));
  });
}

void embedding_backward(const Stream& stream, DType dtype, const EmbeddingProblem& problem, const void* dy,
                        void* dweight) {
  RINGTAPE_DISPATCH_FLOATING(dtype, T, {
    const LaunchShape shape = row_shape<T>(problem.rows, problem.columns);
    RINGTAPE_WITH_TOKEN(problem.token_dtype,
                        launch(embedding_backward<T, Token>, shape, stream, problem,
                               static_cast<const T*>(dy), static_cast<accumulate_t<T>*>(dweight)));
  });
}

}  // namespace ringtape::RINGTAPE_TARGET
