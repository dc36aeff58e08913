#include "nn/freeze.h"

#include <fnmatch.h>

#include "core/error.h"
#include "nn/arena.h"
#include "nn/gpt.h"
#include "tests/support/catch.h"
#include "tests/support/tensors.h"

namespace ringtape::test {
namespace {

using Catch::Matchers::Equals;

std::vector<std::string> trained_names(Module& model) {
  std::vector<std::string> names;
  for (const NamedParameter& parameter : model.named_parameters()) {
    if (parameter.tensor->requires_grad()) names.push_back(parameter.name);
  }
  return names;
}

GPT tiny() {
  return GPT({.vocabulary = 7, .context = 4, .layers = 3, .heads = 2, .width = 4});
}

TEST_CASE("patterns match as fnmatch() matches them", "[nn]") {
  const auto text = [](std::uint64_t seed, const std::string& letters) {
    std::string result;
    for (const double x : random_doubles(static_cast<std::int64_t>(seed % 7), seed, 0, 1)) {
      result += letters[static_cast<std::size_t>(x * static_cast<double>(letters.size()))];
    }
    return result;
  };
  int matches = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    const std::string pattern = text(seed, "ab.**"), name = text(seed / 7 + 1, "ab.");
    INFO(pattern << " and " << name);
    const bool expected = fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
    CHECK(matches_pattern(pattern, name) == expected);
    matches += expected ? 1 : 0;
  }
  CHECK(matches > 200);
}

TEST_CASE("parameters frozen by patterns lie in the arena without gradient and entry", "[nn]") {
  GPT model = tiny();
  freeze(model, {"h.*", "wpe.*"});
  CHECK(trained_names(model) == std::vector<std::string>{"wte.weight", "ln_f.weight", "ln_f.bias"});
  const ParameterArena arena(model, Device{});
  CHECK(arena.entries().size() == 3);
  CHECK(arena.trained_elements() == 7 * 4 + 4 + 4);
  CHECK(arena.gradients().elements() == 3 * 64);  // each padded to 256 bytes

  GPT other = tiny();
  train_only(other, {"h.1.mlp.*.bias", "ln_f.weight"});
  CHECK(trained_names(other) ==
        std::vector<std::string>{"h.1.mlp.c_fc.bias", "h.1.mlp.c_proj.bias", "ln_f.weight"});
  freeze(other, {"h.1.*"});
  CHECK(trained_names(other) == std::vector<std::string>{"ln_f.weight"});
  train_only(other, {"ln_f.*"});  // the frozen bias stays frozen
  CHECK(trained_names(other) == std::vector<std::string>{"ln_f.weight"});
}

TEST_CASE("a pattern that matches nothing is refused, and similar names are suggested", "[nn]") {
  GPT model = tiny();
  // One edit away, "attn" for "atn"; c_proj four more.
  CHECK_THROWS_WITH(freeze(model, {"wte.*", "h.*.atn.c_attn.bias"}),
                    Equals("no parameter matches 'h.*.atn.c_attn.bias': near are h.0.attn.c_attn.bias, "
                           "h.1.attn.c_attn.bias, h.2.attn.c_attn.bias, h.0.attn.c_proj.bias"));
  CHECK_THROWS_WITH(train_only(model, {"lm_head.weight"}),
                    ContainsSubstring("no parameter matches 'lm_head.weight'"));
  CHECK_THROWS_WITH(freeze(model, {"*"}), Equals("freezing * leaves none of the 40 parameters to train"));
  CHECK(trained_names(model).size() == 40);  // nothing was changed
}

}  // namespace
}  // namespace ringtape::test
