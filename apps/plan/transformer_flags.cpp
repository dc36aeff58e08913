#include "apps/plan/transformer_flags.h"

#include "apps/model_flags.h"
#include "planner/numbers.h"

namespace ringtape::planner {

Flag TransformerFlags::add(CommandLine& app, bool with_context) {
  Flag of_layers = app.option("--layers", between(layers, 1, kMaxSize), kLayersHelp);
  const auto add_size = [&](const char* name, std::int64_t& size, const char* help) {
    const Flag flag = app.option(name, between(size, 1, kMaxSize), help).no_default().needs(of_layers);
    of_layers.needs(flag);
  };
  add_size("--width", sizes.width, kWidthHelp);
  add_size("--heads", sizes.heads, kHeadsHelp);
  if (with_context) add_size("--context", sizes.context, kContextHelp);
  add_size("--vocabulary", sizes.vocabulary, kVocabularyHelp);
  return of_layers;
}

TransformerOptions TransformerFlags::model() const {
  TransformerOptions model = sizes;
  model.layers = layers.value_or(0);
  return model;
}

}  // namespace ringtape::planner
