#include "apps/plan/transformer_flags.h"

#include "planner/numbers.h"

namespace ringtape::planner {

Flag TransformerFlags::add(CommandLine& app, bool with_sequence) {
  Flag of_layers =
      app.option("--layers", between(layers, 1, kLargestSize), "layers of a transformer, as in GPT-2");
  const auto add_size = [&](const char* name, std::int64_t& size, const char* help) {
    const Flag flag = app.option(name, between(size, 1, kLargestSize), help).no_default().needs(of_layers);
    of_layers.needs(flag);
  };
  add_size("--hidden", sizes.hidden, "its hidden size");
  add_size("--heads", sizes.heads, "its attention heads");
  if (with_sequence) add_size("--sequence", sizes.sequence, "tokens in a sample");
  add_size("--vocabulary", sizes.vocabulary, "size of its vocabulary");
  return of_layers;
}

Transformer TransformerFlags::model() const {
  Transformer model = sizes;
  model.layers = layers.value_or(0);
  return model;
}

}  // namespace ringtape::planner
