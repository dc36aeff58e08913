#include "apps/model_flags.h"

#include "core/error.h"

namespace ringtape {

const char* name_of(Architecture architecture) {
  return architecture == Architecture::llama ? "llama" : "gpt2";
}

void ModelFlags::add(CommandLine& flags) {
  using enum Architecture;
  flags.option(
      "--architecture",
      named_option_value<Architecture>(architecture, {{name_of(gpt2), gpt2}, {name_of(llama), llama}}),
      "gpt2: layer norms, learned positions, GELU, a tied output layer; llama: RMS norms, rotary "
      "positions, SwiGLU, no biases, an untied output layer");
  flags.option("--layers", between(options.layers, 1, 1000), kLayersHelp);
  flags.option("--heads", between(options.heads, 1, 1000), kHeadsHelp);
  flags.option("--kv-heads", between(options.kv_heads, 0, 1000),
               "heads of keys and values, each shared by several query heads; 0: the number of --heads");
  flags.option("--width", between(options.width, 1, 1 << 16), kWidthHelp);
  flags.option("--ffn-hidden-size", between(options.hidden, 0, 1 << 18),
               "hidden elements of the MLP; 0: four times --width");
  flags.option("--context", between(options.context, 1, 1 << 20), kContextHelp);
  flags.option("--bias", options.bias, "linear layers and layer norms have biases (gpt2)");
}

TransformerOptions ModelFlags::shape(std::int64_t vocabulary) const {
  TransformerOptions shape = options;
  const bool is_llama = architecture == Architecture::llama;
  check(!is_llama || !options.bias, "--bias: the architecture llama has none, expected gpt2");
  if (is_llama) shape = llama_options(options);
  shape.vocabulary = vocabulary;
  return shape;
}

}  // namespace ringtape
