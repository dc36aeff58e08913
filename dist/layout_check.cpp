#include "dist/layout_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "core/error.h"
#include "kernels/pointwise_table.h"
#include "nn/parameter_shard.h"

namespace ringtape {
namespace {

using Kind = Layout::Kind;

/// An operation, and the layouts of its operands.
struct Operands {
  const Node& node;
  std::vector<Layout> layouts;
  bool context = false;  // context parallelism: each rank has a part of the tokens

  const Layout& operator[](std::size_t i) const { return layouts[i]; }
  std::size_t size() const { return layouts.size(); }
  const Shape& shape(std::size_t i) const { return node.inputs[i].shape; }
  int last_dim(std::size_t i) const { return shape(i).dims() - 1; }
  bool is_equal(std::size_t i) const {
    return layouts[i].kind == Kind::replicated || layouts[i].kind == Kind::entered;
  }
  bool is_shard(std::size_t i, int dim) const { return layouts[i] == Layout{Kind::shard, dim}; }

  bool has_entered() const {
    return std::any_of(layouts.begin(), layouts.end(),
                       [](const Layout& each) { return each.kind == Kind::entered; });
  }
  /// If the gradient of one operand is partial, a replicated operand's would be too, and no sum would follow.
  void expect_whole_gradients() const {
    if (!has_entered()) return;
    for (std::size_t i = 0; i < size(); ++i) {
      expect(layouts[i].kind == Kind::entered || node.inputs[i].meta == nullptr,
             "no replicated operand with a gradient beside one that has entered the divided layers");
    }
  }

  [[noreturn]] void mixes_up(const char* expected) const {
    std::vector<std::string> found;
    for (const Layout& layout : layouts) found.push_back(to_string(layout));
    fail("layouts: {} of operands that are {}: expected {}", node.operation, fmt::join(found, ", "),
         expected);
  }
  void expect(bool fits, const char* expected) const {
    if (!fits) mixes_up(expected);
  }
};

using Rule = Layout (*)(const Operands&);

/// The operands have one layout, and the result has it too.
Layout elementwise(const Operands& x) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    x.expect(x[i] == x[0] || (x.is_equal(i) && x.is_equal(0)), "one layout");
  }
  x.expect(x[0].kind != Kind::partial, "a complete sum");
  x.expect_whole_gradients();
  return x.has_entered() ? Layout{Kind::entered, 0} : x[0];
}

/// The same, for operands that are equal on all ranks: an operation that reads several places of a tensor.
Layout undivided(const Operands& x) {
  for (std::size_t i = 0; i < x.size(); ++i) x.expect(x.is_equal(i), "what is equal on all ranks");
  return elementwise(x);
}

Layout by_token(const Operands& x) {
  x.expect(x.is_equal(0) || (x[0].kind == Kind::shard && x[0].dim != x.last_dim(0)), "whole rows");
  for (std::size_t i = 1; i < x.size(); ++i) x.expect(x.is_equal(i), "whole weights");
  x.expect_whole_gradients();
  return x[0];
}

Layout by_head(const Operands& x) {
  x.expect(x.is_equal(0) || x.is_shard(0, x.last_dim(0)), "all heads or a part of them");
  return x[0];
}

/// x weight^T + bias
Layout linear(const Operands& x) {
  const bool has_bias = x.size() > 2;
  if (x.is_shard(1, 0)) {
    const bool has_gradient = x.node.inputs[0].meta != nullptr;
    x.expect(x.is_equal(0) && (!has_gradient || x[0].kind == Kind::entered),
             "an input that has entered the divided layers (copy_to_region, all_gather_tokens)");
    x.expect(!has_bias || x.is_shard(2, 0), "a bias divided as the weight");
    return {Kind::shard, x.last_dim(0)};
  }
  if (x.is_shard(1, 1)) {
    x.expect(x.is_shard(0, x.last_dim(0)), "an input divided as the weight");
    x.expect(!has_bias, "no bias, which every rank would add");
    return {Kind::partial, 0};
  }
  x.expect(x.is_equal(0) || (x[0].kind == Kind::shard && x[0].dim != x.last_dim(0)), "whole rows");
  x.expect_whole_gradients();
  return x[0];
}

/// The ReLU of an addend is not an addend of the sum's ReLU.
Layout linear_relu(const Operands& x) {
  const Layout result = linear(x);
  x.expect(result.kind != Kind::partial, "a complete sum");
  return result;
}

Layout embedding(const Operands& x) {
  if (!x.is_shard(0, 0)) return undivided(x);
  x.expect(x.size() == 1, "no positions, which every rank would add");
  return {Kind::partial, 0};
}

Layout view(const Operands& x) {
  const Shape& to = x.node.output_shape;
  if (x[0].kind != Kind::shard) return x[0];
  x.expect(x[0].dim == x.last_dim(0) && to.dims() > 0 && to[to.dims() - 1] == x.shape(0)[x.last_dim(0)],
           "the divided dimension to stay the last");
  return {Kind::shard, to.dims() - 1};
}

/// The ranks compute the same result from the same values, and so each computes the whole gradient of them.
Layout whole(const Operands& x) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    x.expect(x.is_equal(i), "what is equal on all ranks");
    x.expect(x[i].kind == Kind::replicated, "an operand whose gradient is not summed over the ranks");
  }
  return {};
}

Layout enters(const Operands& x) {
  x.expect(x[0].kind == Kind::replicated, "what is equal on all ranks");
  return {Kind::entered, 0};
}

Layout gathers_tokens(const Operands& x) {
  x.expect(x.is_shard(0, 1), "tokens of which each rank has its part");
  return {Kind::entered, 0};
}

void expect_sum(const Operands& x) {
  x.expect(x[0].kind == Kind::partial, "a sum over the ranks");
  for (std::size_t i = 1; i < x.size(); ++i) x.expect(x.is_equal(i), "a whole bias");
}

Layout reduces(const Operands& x) {
  expect_sum(x);
  return {};
}

Layout scatters_tokens(const Operands& x) {
  expect_sum(x);
  return {Kind::shard, 1};
}

Layout loss_of_parts(const Operands& x) {
  x.expect(x.is_shard(0, x.last_dim(0)), "logits of which each rank has its part");
  return {};
}

Layout receives(const Operands&) {
  return {};
}

Layout receives_tokens(const Operands&) {
  return {Kind::shard, 1};
}

Layout part_of_tokens(const Operands& x) {
  x.expect(x.is_shard(0, 1) || (x.context && x.is_equal(0)), "tokens of which each rank has its part");
  return x[0];
}

Layout dropout(const Operands& x) {
  x.expect(!x.context, "dropout_of_tokens, as ranks divide them");
  return undivided(x);
}

Layout attention(const Operands& x) {
  const bool is_ring = x.node.operation == std::string_view("ring_attention");
  x.expect(is_ring || !x.context, "ring_attention, as ranks divide the tokens");
  return by_head(x);
}

/// The rules of all operations: those below, and `elementwise` for each pointwise operation of the table.
std::map<std::string_view, Rule> all_rules() {
  std::map<std::string_view, Rule> rules = {
      {"relu", elementwise},
      {"to", elementwise},
      {"cat", undivided},
      {"linear", linear},
      {"linear_relu", linear_relu},
      {"embedding", embedding},
      {"layer_norm", by_token},
      {"rms_norm", by_token},
      {"softmax", by_token},
      {"causal_self_attention", attention},
      {"ring_attention", attention},
      {"rotary", by_head},
      {"view", view},
      {"dropout", dropout},
      {"cross_entropy", whole},
      {"mse_loss", whole},
      {"matmul", whole},
      {"sum", whole},
      {"mean", whole},
      {"copy_to_region", enters},
      {"reduce_from_region", reduces},
      {"all_gather_tokens", gathers_tokens},
      {"reduce_scatter_tokens", scatters_tokens},
      {"dropout_of_tokens", part_of_tokens},
      {"receive", receives},
      {"receive_tokens", receives_tokens},
      {"cross_entropy_of_parts", loss_of_parts},
  };
  const PointwiseTable table = pointwise_table(Device{});
  for (const PointwiseOperation& row : std::span(table.rows, table.size)) rules[row.name] = elementwise;
  return rules;
}

Rule rule_of(std::string_view operation) {
  static const std::map<std::string_view, Rule> rules = all_rules();
  const auto found = rules.find(operation);
  check(found != rules.end(),
        "layouts: {} has no rule, expected an operation of autograd/ops.h or of dist/ with one in "
        "dist/layout_check.cpp",
        operation);
  return found->second;
}

}  // namespace

std::string to_string(const Layout& layout) {
  switch (layout.kind) {
    case Kind::replicated:
      return "replicated";
    case Kind::entered:
      return "replicated with a partial gradient";
    case Kind::shard:
      return fmt::format("shard({})", layout.dim);
    case Kind::partial:
      return "partial";
  }
  return "";
}

Layout LayoutCheck::of(const NodeInput& input) const {
  if (input.meta == nullptr) return {};
  if (input.meta->shard != nullptr) return {Kind::shard, input.meta->shard->dim};
  const auto found = layouts_.find(input.meta.get());
  return found == layouts_.end() ? Layout{} : found->second;
}

Layout LayoutCheck::of(const Tensor& output) const {
  return of(NodeInput{output.autograd, output.shape(), output.dtype(), output.device()});
}

Layout LayoutCheck::derive(const Node& node) const {
  if (node.operation == std::string_view("recompute")) return of_segment_;
  Operands operands{node, {}, context_};
  for (const NodeInput& input : node.inputs) operands.layouts.push_back(of(input));
  return rule_of(node.operation)(operands);
}

void LayoutCheck::on_record(const Node& node, std::size_t index, const Tensor& output) {
  layouts_[node.output.get()] = derive(node);
  if (next_ != nullptr) next_->on_record(node, index, output);
}

void LayoutCheck::on_record_in_segment(const Node& node) {
  layouts_[node.output.get()] = derive(node);
  in_segments_.push_back(node.output);
}

void LayoutCheck::on_backward(const Node& node, std::size_t index, const Tensor& gradient) {
  if (next_ != nullptr) next_->on_backward(node, index, gradient);
}

}  // namespace ringtape
