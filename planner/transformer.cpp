#include "planner/transformer.h"

#include <algorithm>

#include "core/error.h"
#include "planner/numbers.h"

namespace ringtape::planner {
namespace {

std::int64_t layer_parameters(const TransformerOptions& model) {
  return product(product(12, model.width) + 13, model.width);
}

std::int64_t embedding_parameters(const TransformerOptions& model) {
  return product(model.vocabulary + model.context, model.width);
}

/// Elements of tensors that occur in several formulas, for b samples.
struct Elements {
  Elements(const TransformerOptions& model, std::int64_t b)
      : sbh(product(product(model.context, b), model.width)),
        scores(product(product(product(model.heads, model.context), model.context), b)),
        logits(product(product(model.context, b), model.vocabulary)) {}

  std::int64_t sbh;
  std::int64_t scores;  ///< a s^2 b
  std::int64_t logits;
};

/// "120 x 1,000 + 5 x 10", without parts that are 0.
std::string sum_text(std::int64_t a, std::int64_t x, std::int64_t b, std::int64_t y) {
  std::string text = fmt::format("{} x {}", a, grouped(x));
  if (b > 0) text += fmt::format(" + {} x {}", b, grouped(y));
  return text;
}

void check_batch(const TransformerOptions& model, std::int64_t micro_batch) {
  check_sizes(model);
  check_size("the micro-batch", micro_batch);
}

}  // namespace

void check_sizes(const TransformerOptions& model) {
  check_size("the number of layers", model.layers);
  check_size("the width", model.width);
  check_size("the number of heads", model.heads);
  check_size("the number of heads of keys and values", model.kv_heads_or_default());
  check_size("the width of the MLP", model.hidden_or_default());
  check_size("the sequence length", model.context);
  check_size("the vocabulary", model.vocabulary);
  check(model.width % model.heads == 0, "{} heads do not divide the width of {}", model.heads, model.width);
  check(model.heads % model.kv_heads_or_default() == 0, "{} heads of keys and values do not divide {}",
        model.kv_heads, counted(model.heads, "head"));
  // Throws where the number of parameters would be out of range.
  product(model.layers, layer_parameters(model));
  embedding_parameters(model);
}

std::int64_t largest_layer(const TransformerOptions& model) {
  check_sizes(model);
  return std::max(layer_parameters(model), embedding_parameters(model));
}

std::vector<MemoryRow> training_activations(const TransformerOptions& model, std::int64_t micro_batch,
                                            std::int64_t value_bytes, Recompute recompute) {
  check_batch(model, micro_batch);
  const Elements elements(model, micro_batch);
  const std::int64_t whole = 16 * value_bytes + 2, of_scores = 2 * value_bytes + 1;
  const std::int64_t kept = recompute == Recompute::full ? value_bytes : whole;
  const std::int64_t kept_scores = recompute == Recompute::none ? of_scores : 0;
  const std::int64_t layer = product(kept, elements.sbh) + product(kept_scores, elements.scores);
  const std::int64_t outside = product(1 + 2 * value_bytes, elements.sbh) + product(4, elements.logits);
  std::vector<MemoryRow> rows = {
      {"activations of layers", product(model.layers, layer),
       fmt::format("{} x ({})", grouped(model.layers, "layer"),
                   sum_text(kept, elements.sbh, kept_scores, elements.scores))},
      {"activations outside", outside, sum_text(1 + 2 * value_bytes, elements.sbh, 4, elements.logits)},
  };
  if (recompute == Recompute::full) {
    const std::int64_t again = whole - kept;
    rows.push_back({"recomputed, one layer",
                    product(again, elements.sbh) + product(of_scores, elements.scores),
                    sum_text(again, elements.sbh, of_scores, elements.scores)});
  } else if (recompute == Recompute::selective) {
    rows.push_back({"recomputed, one layer", product(of_scores, elements.scores),
                    fmt::format("{} x {}", of_scores, grouped(elements.scores))});
  }
  return rows;
}

std::vector<MemoryRow> inference_activations(const TransformerOptions& model, std::int64_t micro_batch,
                                             std::int64_t value_bytes) {
  check_batch(model, micro_batch);
  const Elements elements(model, micro_batch);
  const std::int64_t of_layer = 16 * value_bytes, of_scores = 2 * value_bytes;
  return {
      {"keys and values", product(model.layers, product(2 * value_bytes, elements.sbh)),
       fmt::format("{} x {} x {}", grouped(model.layers, "layer"), 2 * value_bytes, grouped(elements.sbh))},
      {"activations, one layer", product(of_layer, elements.sbh) + product(of_scores, elements.scores),
       sum_text(of_layer, elements.sbh, of_scores, elements.scores)},
      {"logits in f32", product(4, elements.logits), fmt::format("4 x {}", grouped(elements.logits))},
  };
}

}  // namespace ringtape::planner
