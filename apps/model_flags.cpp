#include "apps/model_flags.h"

namespace ringtape {

void ModelFlags::add(CommandLine& flags) {
  flags.option("--architecture", word(architecture, {"gpt2", "llama"}),
               "gpt2: layer norms, learned positions, GELU, a tied output layer; llama: RMS norms, rotary "
               "positions, SwiGLU, an output layer of its own");
  flags.option("--layers", between(options.layers, 1, 1000), "transformer blocks");
  flags.option("--heads", between(options.heads, 1, 1000), "heads of the attention");
  flags.option("--kv-heads", between(options.kv_heads, 0, 1000),
               "heads of keys and values, each for several heads of queries; 0: the number of --heads");
  flags.option("--width", between(options.width, 1, 1 << 16), "elements of a token's vector");
  flags.option("--hidden", between(options.hidden, 0, 1 << 18),
               "elements of the MLP; 0: four times the width");
  flags.option("--context", between(options.context, 1, 1 << 20), "tokens of a sequence");
  flags.option("--bias", options.bias, "linear layers and layer norms have biases (gpt2)");
}

TransformerOptions ModelFlags::shape(std::int64_t vocabulary) const {
  TransformerOptions shape = options;
  if (architecture == "llama") shape = llama_options(options);
  shape.vocabulary = vocabulary;
  return shape;
}

}  // namespace ringtape
