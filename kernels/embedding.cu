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
    if (!kGpuGeometry && is_own) {  // GCC vectorises loops without branches
      if (added == nullptr) {
        for (std::int64_t i = 0; i < p.columns; ++i) to[i] = from[i];
      } else {
        for (std::int64_t i = 0; i < p.columns; ++i) {
          to[i] = from_accumulate<T>(to_accumulate(from[i]) + to_accumulate(added[i]));
        }
      }
      continue;
    }
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

/// A row and its token, as a row of the table: p.vocabulary for a token that the table does not have.
struct TokenRow {
  std::int32_t token, row;
};

/// Tokens are sorted by 8 bits at a time.
constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;

/// Lanes of a warp: on the CPU a thread is its own warp.
constexpr int kLanes = kGpuGeometry ? 32 : 1;

/// Counters that a thread adds up.
constexpr int kCountersOfThread = kDigits / kLanes;

/// The place of counter i in shared memory. Without the gaps the counters of a warp's threads would be in few
/// banks.
__device__ int place_of(int i) {
  return i + i / kCountersOfThread;
}

/// The sum of the values of the threads before this one (Hillis and Steele, "Data parallel algorithms",
/// 1986). `sums`: an int for each thread.
__device__ int sum_before(int value, int* sums) {
  const int thread = thread_rank();
  int sum = value;
  sums[thread] = sum;
  for (int step = 1; step < block_threads(); step *= 2) {
    __syncthreads();
    const int other = thread >= step ? sums[thread - step] : 0;
    __syncthreads();
    sum += other;
    sums[thread] = sum;
  }
  return sum - value;
}

/// Replaces each of the counters [digit][warp] by the sum of the counters before it.
__device__ void sum_counters(int* counters, int* sums) {
  __syncthreads();  // all warps have counted
  const int first = thread_rank() * kCountersOfThread;
  int sum = 0;
  for (int i = first; i < first + kCountersOfThread; ++i) sum += counters[place_of(i)];
  int before = sum_before(sum, sums);
  for (int i = first; i < first + kCountersOfThread; ++i) {
    const int count = counters[place_of(i)];
    counters[place_of(i)] = before;
    before += count;
  }
  __syncthreads();
}

/// Shared memory of sort_rows: the counters with their gaps, and an int for each thread.
std::size_t sort_bytes(unsigned threads) {
  return ((kCountersOfThread + 1) * threads + threads) * sizeof(int);
}

/// The lanes of a warp that have rows with this lane's digit. All lanes take part; `is_valid`: whether this
/// one has a row.
struct Peers {
  __device__ Peers([[maybe_unused]] int digit, bool is_valid) {
    if constexpr (kGpuGeometry) {
      unsigned lanes = __ballot_sync(0xffffffffu, is_valid);
      for (int bit = 0; bit < kDigitBits; ++bit) {
        const bool is_set = (digit >> bit) % 2 != 0;
        const unsigned set = __ballot_sync(0xffffffffu, is_set);
        lanes &= is_set ? set : ~set;
      }
      count = __popc(lanes);
      before = __popc(lanes & ((1u << (thread_rank() % kLanes)) - 1));
    }
    is_first = is_valid && before == 0;
  }
  int count = 1, before = 0;  ///< all of them, and those before this lane
  bool is_first;
};

/// __syncwarp(), for a warp of kLanes.
__device__ void sync_lanes() {
  if constexpr (kLanes > 1) __syncwarp();
}

/// Writes the rows in the order of their tokens, rows of equal tokens in their own order, to `sorted`: a
/// radix sort from the lowest bits on, by one block. Each warp has a range of the rows; in each pass it
/// counts its rows with each digit, and so knows where they go. Its lanes take neighbouring rows, and those
/// with the same digit find each other by ballots. `other` has room for as many rows.
template <class Token>
__global__ void __launch_bounds__(1024) sort_rows(EmbeddingProblem p, TokenRow* sorted, TokenRow* other) {
  const Token* const tokens = static_cast<const Token*>(p.tokens);
  const int thread = thread_rank(), threads = block_threads();
  const int warp = thread / kLanes, lane = thread % kLanes, warps = threads / kLanes;
  int* const counters = dynamic_shared<int>();
  int* const sums = counters + (kCountersOfThread + 1) * threads;
  int bits = 0;
  while (p.vocabulary >> bits != 0) bits += kDigitBits;

  TokenRow* from = bits / kDigitBits % 2 == 0 ? sorted : other;
  TokenRow* to = bits / kDigitBits % 2 == 0 ? other : sorted;
  for (std::int64_t row = thread; row < p.rows; row += threads) {
    const std::int64_t token = tokens[row] - p.first_token;
    const bool is_own = token >= 0 && token < p.vocabulary;
    from[row] = {static_cast<std::int32_t>(is_own ? token : p.vocabulary), static_cast<std::int32_t>(row)};
  }
  const std::int64_t share = round_up(ceil_div(p.rows, warps), kLanes);
  const std::int64_t first = minimum(p.rows, warp * share), end = minimum(p.rows, first + share);
  for (int shift = 0; shift < bits; shift += kDigitBits) {
    // Calls body(row, is_valid, counter, peers) in every lane, for all rows of the warp.
    const auto for_each_row = [&](const auto& body) {
      for (std::int64_t i = first; i < end; i += kLanes) {
        const bool is_valid = i + lane < end;
        const TokenRow row = is_valid ? from[i + lane] : TokenRow{0, 0};
        const int digit = (row.token >> shift) % kDigits;
        body(row, is_valid, counters[place_of(digit * warps + warp)], Peers(digit, is_valid));
        sync_lanes();  // the next rows may have the same counters
      }
    };
    for (int i = 0; i < kCountersOfThread; ++i) counters[place_of(i * threads + thread)] = 0;
    __syncthreads();  // the counters are zero, and before the first pass `from` is complete
    for_each_row([](const TokenRow&, bool, int& counter, const Peers& peers) {
      if (peers.is_first) counter += peers.count;
    });
    sum_counters(counters, sums);
    for_each_row([=](const TokenRow& row, bool is_valid, int& counter, const Peers& peers) {
      const int place = counter + peers.before;
      sync_lanes();
      if (peers.is_first) counter = place + peers.count;
      if (is_valid) to[place] = row;
    });
    __syncthreads();
    TokenRow* const written = to;
    to = from;
    from = written;
  }
}

/// Columns that a thread adds up: on the CPU a loop over contiguous memory; on the GPU a vector of 16 bytes,
/// or one column where rows do not consist of aligned vectors.
constexpr int kCpuColumns = 1024;

/// sums[k] += dy[rows[r].row][column + k] for the N rows, in their order.
template <int N, class T, int W>
__device__ void add_rows(Vec<accumulate_t<T>, W>& sums, const TokenRow* rows, const T* dy,
                         std::int64_t columns, std::int64_t column) {
  if constexpr (kGpuGeometry) {
    Vec<T, W> read[N];  // the loads are in flight together
#pragma unroll
    for (int r = 0; r < N; ++r) read[r] = load_aligned<W>(dy + rows[r].row * columns + column);
#pragma unroll
    for (int r = 0; r < N; ++r) {
      const auto values = to_accumulate(read[r]);
      for (int k = 0; k < W; ++k) sums[k] += values[k];
    }
  } else {
    const T* from[N];
    for (int r = 0; r < N; ++r) from[r] = dy + rows[r].row * columns + column;
    const int width = static_cast<int>(minimum<std::int64_t>(W, columns - column));
    for (int k = 0; k < width; ++k) {
      for (int r = 0; r < N; ++r) sums[k] += to_accumulate(from[r][k]);
    }
  }
}

/// A block has a share of the sorted rows (blockIdx.x) and of the columns (blockIdx.y). For the first row of
/// each token it adds up all rows of that token, which follow.
template <class T, int W>
__global__ void embedding_backward(EmbeddingProblem p, const TokenRow* sorted, const T* dy,
                                   accumulate_t<T>* dweight) {
  using A = accumulate_t<T>;
  const std::int64_t column = (std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * W;
  if (column >= p.columns) return;
  [[maybe_unused]] const int width = static_cast<int>(minimum<std::int64_t>(W, p.columns - column));
  const BlockShare share = share_of_block(p.rows);
  for (std::int64_t first = share.first; first < share.end; first += share.step) {
    const std::int32_t token = sorted[first].token;
    if (token == p.vocabulary) return;  // as have all rows that follow
    if (first > 0 && sorted[first - 1].token == token) continue;
    A* const to = dweight + token * p.columns + column;
    Vec<A, W> sums;
    if constexpr (kGpuGeometry) {
      sums = load_vec<W>(to);
    } else {
      for (int k = 0; k < width; ++k) sums[k] = to[k];
    }
    constexpr int kRows = 4;
    std::int64_t i = first;
    for (; i + kRows <= p.rows && sorted[i + kRows - 1].token == token; i += kRows) {
      add_rows<kRows>(sums, sorted + i, dy, p.columns, column);
    }
    for (; i < p.rows && sorted[i].token == token; ++i) {
      add_rows<1>(sums, sorted + i, dy, p.columns, column);
    }
    if constexpr (kGpuGeometry) {
      store_vec(to, sums);
    } else {
      for (int k = 0; k < width; ++k) to[k] = sums[k];
    }
  }
}

template <int W, class T>
void launch_sums(const Stream& stream, const EmbeddingProblem& p, const TokenRow* sorted, const T* dy,
                 accumulate_t<T>* dweight) {
  constexpr std::int64_t kRowsOfBlock = kGpuGeometry ? 1 : 32, kMaxThreads = kGpuGeometry ? 256 : 1;
  const std::int64_t vectors = ceil_div(p.columns, W);
  const std::int64_t threads = minimum(kMaxThreads, kGpuGeometry ? round_up(vectors, 32) : 1);
  const LaunchShape shape{dim3(static_cast<unsigned>(ceil_div(p.rows, kRowsOfBlock)),
                               static_cast<unsigned>(ceil_div(vectors, threads))),
                          static_cast<unsigned>(threads)};
  launch(embedding_backward<T, W>, shape, stream, p, sorted, dy, dweight);
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
                        void* workspace, void* dweight) {
  if (problem.rows == 0 || problem.columns == 0) return;
  TokenRow* const sorted = static_cast<TokenRow*>(workspace);
  // A GPU thread has up to 16 rows; more only in a full block.
  constexpr int kRowsOfThread = 16;
  const auto threads = static_cast<unsigned>(
      minimum<std::int64_t>(round_up(ceil_div(problem.rows, kRowsOfThread), 32), kGpuGeometry ? 1024 : 1));
  RINGTAPE_WITH_TOKEN(problem.token_dtype, launch(sort_rows<Token>, {1, threads, sort_bytes(threads)}, stream,
                                                  problem, sorted, sorted + problem.rows));
  RINGTAPE_DISPATCH_FLOATING(dtype, T, {
    const T* const rows = static_cast<const T*>(dy);
    auto* const sums = static_cast<accumulate_t<T>*>(dweight);
    constexpr int kWidth = kVecLanes<T>;
    if constexpr (!kGpuGeometry) {
      launch_sums<kCpuColumns>(stream, problem, sorted, rows, sums);
    } else if (problem.columns % kWidth == 0 && is_aligned<Vec<T, kWidth>>(rows)) {
      launch_sums<kWidth>(stream, problem, sorted, rows, sums);
    } else {
      launch_sums<1>(stream, problem, sorted, rows, sums);
    }
  });
}

}  // namespace ringtape::RINGTAPE_TARGET
