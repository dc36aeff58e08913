#pragma once

#include <utility>
#include <vector>

#include "autograd/creation.h"
#include "core/tensor.h"

/// Differentiable operations. Forward and backward of each are side by side in one file of this folder.
/// Unless said otherwise the inputs must have one dtype (f32, bf16, f16, or f64 on the CPU) and one device,
/// and the result has them too. All throw Error for shapes, dtypes or devices that do not fit.
///
/// The operations of layers (linear, embedding, norms) compute with the 16-bit copy of a parameter for inputs
/// of its dtype, and refuse f32 inputs (autograd/low_precision.h). All others take a parameter as the f32
/// tensor that it is, so that a penalty on the weights is f32; a layer of your own that multiplies by a
/// parameter takes the copy by in_dtype().
namespace ringtape {

// ---- pointwise, equal shapes ----
/// a + b
Tensor add(const Tensor& a, const Tensor& b);
/// a * b
Tensor multiply(const Tensor& a, const Tensor& b);
/// alpha * x
Tensor scale(const Tensor& x, double alpha);
/// e^x
Tensor exp(const Tensor& x);
/// max(x, 0)
Tensor relu(const Tensor& x);
/// x Phi(x), with the normal distribution's Phi (Hendrycks and Gimpel, "Gaussian error linear units", 2016).
Tensor gelu(const Tensor& x);
/// The same paper's approximation by tanh, which GPT-2 uses: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) /
/// 2
Tensor gelu_tanh(const Tensor& x);
/// x / (1 + e^-x), also called swish.
Tensor silu(const Tensor& x);
/// silu(gate) * up: the gated unit of Llama's MLP (Shazeer, "GLU variants improve transformer", 2020).
Tensor swiglu(const Tensor& gate, const Tensor& up);

// ---- products ----
/// op(a) op(b) for a [M, K] and b [K, N] (stored as [K, M] and [N, K] where transposed): [M, N].
Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a = false, bool transpose_b = false);
/// x weight^T + bias for x [.., K], weight [N, K], bias [N] (may be undefined): [.., N]. The parameters of a
/// 16-bit x may be f32 if they have a copy of its dtype (ParameterArena): the product uses the copy, and the
/// gradient is added up in f32.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
/// relu(linear(x, weight, bias)) as one operation. The result of linear() is not kept.
Tensor linear_relu(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

// ---- rows: over the last dimension ----
/// (x - mean) / sqrt(variance + eps) * weight + bias over the last dimension of x [.., C], with the variance
/// divided by C; weight and bias [C] (Ba et al., "Layer normalization", 2016). bias may be undefined. As in
/// linear(), the parameters of a 16-bit x may be f32 with a copy. C is at most 12288.
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, double eps = 1e-5);
/// x / sqrt(mean of x^2 + eps) * weight (Zhang and Sennrich, "Root mean square layer normalization", 2019).
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps = 1e-5);

/// A sum and its normalised rows.
struct AddNorm {
  Tensor sum;
  Tensor normed;
};
/// a + b and layer_norm(a + b), computed in one pass over the memory: the residual connection of a
/// transformer with the norm that follows it.
AddNorm add_layer_norm(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias = {},
                       double eps = 1e-5);
/// a + b and rms_norm(a + b).
AddNorm add_rms_norm(const Tensor& a, const Tensor& b, const Tensor& weight, double eps = 1e-5);

/// e^x / (sum of e^x) over the last dimension.
Tensor softmax(const Tensor& x);

// ---- tokens ----
/// The rows of a larger table that `weight` has: from `first_token` on.
struct TablePart {
  std::int64_t first_token = 0;
  std::int64_t all_tokens = 0;  ///< rows of the larger table; 0: weight is the whole table
};

/// Row `tokens[..]` of weight [V, C] for each token of [.., T], i32 or i64 in [0, V): [.., T, C]. With
/// `positions` [P, C], row first_position + t of it is added to token t; T + first_position must not exceed
/// P. The result has the dtype of weight, or of its 16-bit copy (ParameterArena). An invalid token gives a
/// row of zeros and an Error: on the CPU in this call, on a GPU in the next check_indices().
///
/// If `weight` is a part of a table of part.all_tokens rows, its rows are those of the tokens from
/// part.first_token on, and the tokens of other parts give zeros too.
Tensor embedding(const Tensor& tokens, const Tensor& weight, const Tensor& positions = {},
                 std::int64_t first_position = 0, const TablePart& part = {});
/// The cosines and sines [positions, D / 2] of the angles t * base^(-2 i / D), for heads of an even size D.
struct RotaryTable {
  Tensor cosines, sines;
};
/// `dtype`: f64 for an x of f64, else f32. Throws Error for another dtype, fewer than 1 position, a head size
/// that is odd or below 2, and a base that is not above 0.
RotaryTable make_rotary_table(std::int64_t positions, std::int64_t head_size, double base, DType dtype,
                              Device device);
/// Rotary position embedding (Su et al., "RoFormer", 2021) in the rotate-half order of Llama: x [B, T, N * D]
/// with N heads of the table's D, of which the first `heads` are rotated and the others copied. In a head of
/// token t, elements i and i + D / 2 are rotated by the table's angle i at position first_position + t.
Tensor rotary(const Tensor& x, const RotaryTable& table, std::int64_t heads, std::int64_t first_position = 0);

// ---- random ----
/// 0 with probability p, else x / (1 - p). The mask is a function of the default generator's seed and offset
/// and of the element's index: nothing is stored for backward, and a recomputed segment repeats it. p in
/// [0, 1); with 0 the result is x itself.
Tensor dropout(const Tensor& x, double p);

/// Consecutive tokens of a sequence.
struct TokenRun {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// dropout() of some tokens of sequences of `tokens` tokens, with the mask that these tokens have in the
/// whole sequence: x [B, T, C] has the tokens of `runs`, run after run, of each sequence. Throws Error unless
/// the elements of each run and the elements before it are multiples of 4, and for B > 1 those of a sequence:
/// one counter of the generator serves 4 elements.
Tensor dropout_of_tokens(const Tensor& x, double p, const std::vector<TokenRun>& runs, std::int64_t tokens);

// ---- sums ----
/// Sum of all elements: a scalar.
Tensor sum(const Tensor& x);
/// Mean of all elements: a scalar. NaN for no element, as in PyTorch.
Tensor mean(const Tensor& x);
/// Sum over dimension `dim` (negative counts from the last). The dimension is removed, or with keep_dim stays
/// with size 1.
Tensor sum(const Tensor& x, int dim, bool keep_dim = false);
/// Mean over dimension `dim`.
Tensor mean(const Tensor& x, int dim, bool keep_dim = false);

// ---- shape ----
/// The same elements with another shape. One size may be -1: it follows from the others. Shares memory with
/// x.
Tensor view(const Tensor& x, std::vector<std::int64_t> sizes);
/// Concatenates tensors along dimension `dim`; all other sizes must be equal.
Tensor cat(const std::vector<Tensor>& tensors, int dim = 0);
/// Stacks tensors of equal shapes along a new dimension `dim`.
Tensor stack(const std::vector<Tensor>& tensors, int dim = 0);

// ---- dtype and device ----
/// x converted to another dtype; x itself if it has that dtype. Conversion to integers rounds toward 0; for
/// u8 all values must be in [0, 255]. The gradient is converted back.
Tensor to(const Tensor& x, DType dtype);
/// x copied to another device; x itself if it is on that device. The gradient is copied back.
Tensor to(const Tensor& x, Device device);

// ---- attention ----
/// Dropout of the attention weights and, if ranks divide the heads, the place of these heads, for its mask.
struct AttentionOptions {
  double dropout = 0;  ///< probability, in [0, 1), that a weight is 0; others are divided by 1 - dropout
  /// The mask is a function of seed, counter, head, query and key: the same in the backward and in a
  /// recomputed segment. Take one counter from a generator for each call (core/random.h).
  std::uint64_t seed = 0;
  std::uint64_t counter = 0;
  /// If qkv has only some of a layer's heads: the number of all heads of the layer, and the index of qkv's
  /// first head among them, so that each head has the same mask as on one rank with all heads. 0: qkv has all
  /// heads.
  std::int64_t all_heads = 0;
  std::int64_t first_head = 0;
};

/// Causal self-attention: [B, T, heads D] from qkv [B, T, (heads + 2 kv_heads) D], which has for each token
/// the queries of all heads, then their keys, then their values. With a head's q, k, v [T, D], and p =
/// softmax(q k^T / sqrt(D)) over the tokens up to each one's own, its result is p v. Head h reads the keys
/// and values of head h / (heads / kv_heads), so kv_heads must divide heads (grouped-query attention; Ainslie
/// et al., "GQA", 2023). D is 1 to 128; multiples of 16 are fastest.
///
/// Nothing of size T x T is stored: the forward goes through the keys in tiles with an online softmax, and
/// the backward computes p again from the log-sum-exp that is kept for each query and head (Dao,
/// "FlashAttention-2", 2023; kernels/attention.h).
Tensor causal_self_attention(const Tensor& qkv, int heads, int kv_heads,
                             const AttentionOptions& options = {});

/// The same for T new tokens that follow `length` others, whose keys and values are in `cache` [B, capacity,
/// 2 kv_heads D], for each token the keys of all heads, then their values. Appends the keys and values of the
/// new tokens; each of them sees the tokens up to itself. Has no backward: throws Error if qkv requires a
/// gradient, unless under NoGrad.
Tensor cached_self_attention(const Tensor& qkv, int heads, int kv_heads, const Tensor& cache,
                             std::int64_t length);

// ---- losses ----
/// How a loss combines its terms.
enum class Reduction { mean, sum };

/// Squared error (prediction - target)^2, equal shapes, averaged or summed over all elements: a scalar, f32
/// (f64 for f64). `divisor` divides the result (see CrossEntropyOptions).
Tensor mse_loss(const Tensor& prediction, const Tensor& target, Reduction reduction = Reduction::mean,
                double divisor = 1);

/// Arguments of torch.nn.functional.cross_entropy, with the same names, and a divisor.
struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;  ///< mean over the non-ignored targets
  std::int64_t ignore_index = -100;       ///< rows with this target have no loss and no gradient
  double label_smoothing = 0;             ///< in [0, 1]
  /// Divides the result. With the sum of a micro-batch and the number of targets in the whole accumulation
  /// window, the gradients of the micro-batches add up to the gradient of the mean over the window
  /// (optim/accumulation.h).
  double divisor = 1;
};

/// Softmax cross-entropy of logits [N, C] with targets [N] of i32 or i64 in [0, C), as PyTorch computes it: a
/// scalar, f32 (f64 for f64). The mean loss without any non-ignored target is NaN. So is, on a GPU, the loss
/// for a row of more than 32 classes whose largest f32 or 16-bit logit is not between -2^30 and 2^30.
///
/// If no other handle holds f32 or bf16 logits (`cross_entropy(model(x), y)`), the gradient is computed with
/// the loss and overwrites the logits, which saves a pass over the memory and a second buffer.
///
/// An invalid target is found on the device, and its row counts as ignored: on the CPU this call throws
/// Error, on a GPU the next check_indices() does.
Tensor cross_entropy(Tensor logits, const Tensor& targets, const CrossEntropyOptions& options = {});

/// A loss and, if the same operation has counted them, the number of correct predictions: an f32 scalar.
struct LossAndCorrect {
  LossAndCorrect(Tensor loss_alone) : loss(std::move(loss_alone)) {}  // NOLINT(google-explicit-constructor)
  LossAndCorrect(Tensor of_loss, Tensor of_correct)
      : loss(std::move(of_loss)), correct(std::move(of_correct)) {}
  Tensor loss;
  Tensor correct;  ///< undefined if it is not counted
};

/// cross_entropy() that also counts the correct predictions, as count_correct() does; for up to 32 classes in
/// the same launch.
LossAndCorrect cross_entropy_and_correct(Tensor logits, const Tensor& targets,
                                         const CrossEntropyOptions& options = {});

/// Throws Error if an operation that this thread called on this device has had an index outside its range
/// since the last check (a target of cross_entropy(), a token of embedding()), naming the operation and the
/// position. Waits for the device: call it where the loss is read anyway.
void check_indices(Device device);

/// Number of correct predictions: rows of logits [N, C] whose largest value (the first of equals) is at the
/// target. An f32 scalar, exact up to 2^24, without a gradient.
Tensor count_correct(const Tensor& logits, const Tensor& targets);

}  // namespace ringtape
