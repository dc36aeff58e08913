#include "nn/gpt_estimate.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "nn/memory_estimate.h"

namespace ringtape {
namespace {

bool is_swiglu(const TransformerOptions& model) {
  return model.mlp == MlpKind::swiglu;
}

/// Weights of a block's linear layers.
std::vector<std::int64_t> linear_weights(const TransformerOptions& o) {
  const std::int64_t mlp = o.width * o.hidden_or_default();
  std::vector<std::int64_t> weights = {o.width * o.qkv_columns(), o.width * o.width};
  weights.insert(weights.end(), is_swiglu(o) ? 3 : 2, mlp);
  return weights;
}

/// Goes through forward and backward as nn/gpt.cpp does, and finds the moment with the most memory.
class PeakOfGptUpdate {
 public:
  explicit PeakOfGptUpdate(const GptMemoryProblem& p)
      : layers_(p.model.layers), segment_(p.recompute), is_swiglu_(is_swiglu(p.model)) {
    const TransformerOptions& o = p.model;
    const std::int64_t rows = p.sequences * p.tokens;
    const auto values = [&](std::int64_t columns) { return allocated_bytes(rows * columns, p.compute); };
    stream_ = values(o.width);
    hidden_ = values(o.hidden_or_default());
    qkv_ = values(o.qkv_columns());
    logits_ = values(o.vocabulary);
    loss_in_place_ = p.compute != DType::f16;
    norm_ = stream_ + (o.norm == Norm::Kind::layer ? 2 : 1) * allocated_bytes(rows, DType::f32);
    const std::size_t attention = stream_ + allocated_bytes(rows * o.heads, DType::f32);
    mlp_ = (is_swiglu_ ? 3 : 2) * hidden_;
    block_ = norm_ + qkv_ + attention + stream_ + norm_ + mlp_ + stream_;
  }

  BytesByCategory find() {
    const std::int64_t segment = segment_ == 0 ? layers_ : segment_;
    const std::int64_t segments = (layers_ + segment - 1) / segment;
    const std::int64_t of_last = layers_ - (segments - 1) * segment;
    // Inputs of all segments, the first of which is the embeddings.
    std::size_t kept = static_cast<std::size_t>(segments) * stream_;
    if (segments > 1) {
      // A segment's first run holds all of it, and beside the last sum the branch that was added.
      note(kept - stream_ + static_cast<std::size_t>(segment) * block_ + stream_, 0);
    }
    const std::size_t last = kept + static_cast<std::size_t>(of_last) * block_;
    note(last + norm_ + logits_, loss_in_place_ ? stream_ : logits_);
    backward_of_mlp(last);
    if (segments > 1) {
      kept -= stream_;  // the last segment's input is gone
      const std::size_t again = kept + static_cast<std::size_t>(segment) * block_;
      note(again + stream_, stream_);  // the branch once more, and the gradient of the segment's result
      backward_of_mlp(again);
    }
    return peak_;
  }

 private:
  void note(std::size_t results, std::size_t of_results) {
    using enum MemoryCategory;
    if (results + of_results <= peak_[activations] + peak_[activation_gradients]) return;
    peak_[activations] = results;
    peak_[activation_gradients] = of_results;
  }

  /// The backward of the newest block's MLP, with `kept` live. The block's result is not needed any more; its
  /// gradient goes on in the stream and in the branch.
  void backward_of_mlp(std::size_t kept) {
    kept -= stream_;
    note(kept, 2 * stream_ + hidden_);  // and that of the branch's last linear layer's input
    // SwiGLU's result is gone with the branch's gradient, and two gradients follow from one.
    if (is_swiglu_) note(kept - hidden_, stream_ + 3 * hidden_);
  }

  std::int64_t layers_, segment_;
  bool is_swiglu_, loss_in_place_ = true;
  std::size_t stream_ = 0, hidden_ = 0, qkv_ = 0, logits_ = 0, norm_ = 0, mlp_ = 0, block_ = 0;
  BytesByCategory peak_;
};

void check_problem(const GptMemoryProblem& p) {
  const auto check_size = [](const char* what, std::int64_t value, std::int64_t least) {
    check(value >= least, "memory estimate: {}: expected at least {}, found {}", what, least, value);
  };
  check_size("sequences", p.sequences, 1);
  check_size("tokens", p.tokens, 1);
  check_size("layers", p.model.layers, 1);
  check_size("heads", p.model.heads, 1);
  check_size("width", p.model.width, 1);
  check_size("vocabulary", p.model.vocabulary, 1);
  check_size("values of state per parameter", p.state_per_parameter, 0);
  check_size("blocks in a segment", p.recompute, 0);
  check(p.tokens <= p.model.context, "memory estimate: {} tokens exceed the context of {}", p.tokens,
        p.model.context);
  check(p.compute == DType::f32 || p.compute == DType::bf16 || p.compute == DType::f16,
        "memory estimate: a model computes in f32, bf16 or f16, not in {}", name_of(p.compute));
}

}  // namespace

std::vector<std::int64_t> parameter_sizes(const TransformerOptions& o) {
  const bool norm_bias = o.norm == Norm::Kind::layer && o.bias;
  std::vector<std::int64_t> sizes = {o.vocabulary * o.width};
  const auto add_norm = [&] { sizes.insert(sizes.end(), norm_bias ? 2 : 1, o.width); };
  const auto add_linear = [&](std::int64_t in, std::int64_t out) {
    sizes.push_back(in * out);
    if (o.bias) sizes.push_back(out);
  };
  if (o.positions == PositionKind::learned) sizes.push_back(o.context * o.width);
  for (std::int64_t i = 0; i < o.layers; ++i) {
    const std::int64_t hidden = o.hidden_or_default();
    add_norm();
    add_linear(o.width, o.qkv_columns());
    add_linear(o.width, o.width);
    add_norm();
    if (is_swiglu(o)) add_linear(o.width, hidden);
    add_linear(o.width, hidden);
    add_linear(hidden, o.width);
  }
  add_norm();
  if (!o.tied) sizes.push_back(o.width * o.vocabulary);
  return sizes;
}

std::int64_t parameter_count(const TransformerOptions& model) {
  const std::vector<std::int64_t> sizes = parameter_sizes(model);
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

double forward_flops(const TransformerOptions& o, std::int64_t sequences, std::int64_t tokens) {
  const std::vector<std::int64_t> weights = linear_weights(o);
  const auto of_block = static_cast<double>(std::accumulate(weights.begin(), weights.end(), std::int64_t{0}));
  const auto t = static_cast<double>(tokens), layers = static_cast<double>(o.layers),
             width = static_cast<double>(o.width);
  const double linear = 2 * t * (layers * of_block + width * static_cast<double>(o.vocabulary));
  const double attention = layers * 2 * t * (t + 1) * width;
  return static_cast<double>(sequences) * (linear + attention);
}

BytesByCategory estimate_memory(const GptMemoryProblem& given) {
  using enum MemoryCategory;
  GptMemoryProblem problem = given;
  if (problem.tokens == 0) problem.tokens = problem.model.context;
  check_problem(problem);
  BytesByCategory estimate =
      estimate_arena(parameter_sizes(problem.model), {}, problem.state_per_parameter, problem.compute);
  const BytesByCategory peak = PeakOfGptUpdate(problem).find();
  estimate[activations] = peak[activations];
  estimate[activation_gradients] = peak[activation_gradients];
  estimate[data] = 2 * allocated_bytes(problem.sequences * problem.tokens, DType::i32);
  return estimate;
}

}  // namespace ringtape
