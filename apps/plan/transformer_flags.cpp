#include "apps/plan/transformer_flags.h"

#include "planner/numbers.h"

namespace ringtape::planner {

Flag TransformerFlags::add(CommandLine& app, bool with_context) {
  Flag of_layers =
      app.option("--layers", between(layers, 1, kLargestSize), "transformer blocks, as in GPT-2");
  const auto add_size = [&](const char* name, std::int64_t& size, const char* help) {
    const Flag flag = app.option(name, between(size, 1, kLargestSize), help).no_default().needs(of_layers);
    of_layers.needs(flag);
  };
  add_size("--width", sizes.hidden, "elements of a token's vector");
  add_size("--heads", sizes.heads, "attention heads");
  if (with_context) add_size("--context", sizes.sequence, "tokens in a sequence, which is a sample");
  add_size("--vocabulary", sizes.vocabulary, "size of its vocabulary");
  return of_layers;
}

Transformer TransformerFlags::model() const {
  Transformer model = sizes;
  model.layers = layers.value_or(0);
  return model;
}

}  // namespace ringtape::planner
