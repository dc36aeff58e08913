#include "kernels/attention.h"

#include <cmath>

#include "benchmarks/kernels/case.h"

namespace ringtape::kernel_cases {
namespace {

constexpr std::int64_t kFloat = sizeof(float);

/// Size::rows sequences of one head of `width`, each of Size::columns elements: q, k and v packed as the
/// projection leaves them.
struct Sequences {
  Sequences(Setup& s, const Size& size, std::int64_t width) {
    const std::int64_t n = size.elements(), tokens = size.columns / width;
    float* const qkv = s.floats("qkv", 3 * n);
    const auto packed = [=](float* data) { return AttentionOperand{data, 3 * size.columns, 3 * width, 0}; };
    args.batch = size.rows;
    args.heads = args.kv_heads = 1;
    args.queries = args.keys = tokens;
    args.width = width;
    args.scale = 1 / std::sqrt(static_cast<double>(width));
    args.q = packed(qkv);
    args.k = packed(qkv + width);
    args.v = packed(qkv + 2 * width);
  }

  /// Makes the queries a sequence's second half and the keys its first half, so that all queries see all
  /// keys.
  void second_half_of_first() {
    args.piece.is_one = true;
    args.piece.causal = false;
    args.piece.tokens = 2 * args.keys;
    args.piece.first_query = args.keys;
  }

  AttentionArgs args;
};

/// A forward of whole sequences, or of a piece of them, whose results are added to those of another piece.
template <bool kIsPiece>
void prepare_forward(Setup& s, const Size& size, std::int64_t width) {
  Sequences sequences(s, size, width);
  AttentionArgs& args = sequences.args;
  if (kIsPiece) sequences.second_half_of_first();
  args.piece.resumes = kIsPiece;
  const auto result = [&](const char* name, std::int64_t n) {
    return kIsPiece ? s.floats(name, n) : s.output(name, n);
  };
  args.out = {result("out", size.elements()), size.columns, width, 0};
  args.lse = result("lse", args.batch * args.queries);
  s.launch = [args](const Stream& stream) { attention_forward(stream, args); };
}

template <bool kIsPiece>
void prepare_backward(Setup& s, const Size& size, std::int64_t width) {
  Sequences sequences(s, size, width);
  AttentionArgs& args = sequences.args;
  if (kIsPiece) sequences.second_half_of_first();
  const std::int64_t rows = args.batch * args.queries;
  args.out = {s.floats("out", size.elements()), size.columns, width, 0};
  args.lse = s.floats("lse", rows);
  float* const dqkv = s.output("dqkv", 3 * size.elements());
  const auto packed = [&](std::int64_t part) {
    return AttentionOperand{dqkv + part * width, 3 * size.columns, 3 * width, 0};
  };
  AttentionGradients gradients;
  gradients.dout = {s.floats("dout", size.elements()), size.columns, width, 0};
  gradients.dq = packed(0);
  gradients.dk = packed(1);
  gradients.dv = packed(2);
  gradients.delta = s.output("delta", rows);
  s.launch = [args, gradients](const Stream& stream) { attention_backward(stream, args, gradients); };
}

/// A case of sequences with one head each. Not measured by bench_kernels; bench_attention measures attention.
Case attention_case(const std::string& name, const std::string& does, std::int64_t tokens, std::int64_t width,
                    void (*prepare)(Setup&, const Size&, std::int64_t)) {
  return {.name = name,
          .does = does,
          .prepare = [=](Setup& s, const Size& size) { prepare(s, size, width); },
          .usual = 2 * tokens * width,
          .columns = tokens * width,
          .most = 64 * tokens * width};
}

}  // namespace

std::vector<Case> attention_cases() {
  // Sequences of one tile. A product has 2 FLOPs for every element and every token that its query sees: 65 /
  // 2 tokens on average, or all 64.
  constexpr std::int64_t kTokens = 64, kWidth = 64;
  constexpr double kProduct = 65, kProductOfPiece = 2 * kTokens;
  Case forward =
      attention_case("attention_forward", "64 tokens, a head of 64", kTokens, kWidth, prepare_forward<false>);
  forward.bytes = 4 * kFloat;               // q, k, v, out
  forward.bytes_of_row = kTokens * kFloat;  // lse
  forward.flops = 2 * kProduct;
  Case backward =
      attention_case("attention_backward", "its gradient", kTokens, kWidth, prepare_backward<false>);
  // delta: out, dout; the queries' pass: q, k, v, dout, dq; the keys' pass: q, k, v, dout, dk, dv.
  backward.bytes = (2 + 5 + 6) * kFloat;
  backward.bytes_of_row = 5 * kTokens * kFloat;  // delta written, lse and delta read twice
  backward.flops = 7 * kProduct;
  Case forward_piece = attention_case("attention_forward_piece", "64 queries and keys before them", kTokens,
                                      kWidth, prepare_forward<true>);
  forward_piece.bytes = forward.bytes + kFloat;  // out and lse are read too
  forward_piece.bytes_of_row = 2 * forward.bytes_of_row;
  forward_piece.flops = 2 * kProductOfPiece;
  Case backward_piece =
      attention_case("attention_backward_piece", "its gradient", kTokens, kWidth, prepare_backward<true>);
  backward_piece.bytes = backward.bytes;
  backward_piece.bytes_of_row = backward.bytes_of_row;
  backward_piece.flops = 7 * kProductOfPiece;
  // The wide cases have several tiles, of the smaller size that wide heads need.
  return {
      forward,
      backward,
      forward_piece,
      backward_piece,
      attention_case("attention_forward_query", "1 token, a head of 64", 1, 64, prepare_forward<false>),
      attention_case("attention_forward_wide", "80 tokens, a head of 128", 80, 128, prepare_forward<false>),
      attention_case("attention_backward_wide", "its gradient", 80, 128, prepare_backward<false>)};
}

}  // namespace ringtape::kernel_cases
