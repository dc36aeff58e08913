#include "nn/lora.h"

#include <algorithm>

#include "autograd/tape.h"
#include "nn/arena.h"
#include "nn/gpt.h"
#include "nn/hugging_face.h"
#include "optim/adam.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tensors.h"

namespace ringtape::test {
namespace {

using Catch::Matchers::Equals;

using Values = std::vector<double>;

/// a [m, k] times b [k, n], in double precision.
Values product(const Values& a, const Values& b, std::size_t m, std::size_t k, std::size_t n) {
  Values c(m * n);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t l = 0; l < k; ++l) {
      for (std::size_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + l] * b[l * n + j];
    }
  }
  return c;
}

Values turned(const Values& a, std::size_t rows, std::size_t columns) {
  Values t(a.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) t[j * rows + i] = a[i * columns + j];
  }
  return t;
}

Values sum_of(const Values& a, double factor, const Values& b) {
  Values c = a;
  for (std::size_t i = 0; i < a.size(); ++i) c[i] += factor * b[i];
  return c;
}

void fill_randomly(Module& model, std::uint64_t seed, double size = 1) {
  for (const NamedParameter& parameter : model.named_parameters()) {
    parameter.tensor->copy_from(tensor_of(random_doubles(parameter.tensor->elements(), ++seed, -size, size),
                                          parameter.tensor->shape()));
  }
}

std::shared_ptr<GPT> tiny(bool llama = false) {
  TransformerOptions options{.vocabulary = 23, .context = 12, .layers = 2, .heads = 4, .width = 16};
  if (llama) options = llama_options(options);
  const auto model = std::make_shared<GPT>(options);
  fill_randomly(*model, 7, 0.4);
  return model;
}

Tensor some_tokens() {
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < 20; ++i) tokens.push_back((i * i + 3 * i) % 23);
  return from_vector(tokens, {2, 10});
}

TEST_CASE("a linear layer with LoRA: result and gradients are those of the formula", "[lora]") {
  constexpr std::size_t kRows = 5, kIn = 6, kOut = 4, kRank = 2;
  constexpr double kAlpha = 3, s = kAlpha / kRank;
  Linear layer(kIn, kOut);
  layer.set_lora(std::make_shared<Lora>(kIn, kOut, kRank, kAlpha));
  fill_randomly(layer, 1);
  const Values w = layer.parameter("weight").to_doubles(), bias = layer.parameter("bias").to_doubles(),
               a = layer.parameter("lora.A").to_doubles(), b = layer.parameter("lora.B").to_doubles();
  const Values x = random_doubles(kRows * kIn, 11), dy = random_doubles(kRows * kOut, 12);
  const Tensor input = leaf(x, {kRows, kIn});
  const Tensor y = layer(input);

  const Values xa = product(x, turned(a, kRank, kIn), kRows, kIn, kRank);
  Values expected = sum_of(product(x, turned(w, kOut, kIn), kRows, kIn, kOut), s,
                           product(xa, turned(b, kOut, kRank), kRows, kRank, kOut));
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += bias[i % kOut];
  check_close(y.to_doubles(), expected, 0, 1e-5);

  sum(multiply(y, tensor_of(dy, {kRows, kOut}))).backward();
  const Values dyb = product(dy, b, kRows, kOut, kRank);
  check_close(layer.parameter("lora.B").grad().to_doubles(),
              sum_of(Values(kOut * kRank), s, product(turned(dy, kRows, kOut), xa, kOut, kRows, kRank)), 0,
              1e-5);
  check_close(layer.parameter("lora.A").grad().to_doubles(),
              sum_of(Values(kRank * kIn), s, product(turned(dyb, kRows, kRank), x, kRank, kRows, kIn)), 0,
              1e-5);
  check_close(input.grad().to_doubles(),
              sum_of(product(dy, w, kRows, kOut, kIn), s, product(dyb, a, kRows, kRank, kIn)), 0, 1e-5);

  layer.lora()->merge_into(layer.parameter("weight"));
  check_close(layer.parameter("weight").to_doubles(), sum_of(w, s, product(b, a, kOut, kRank, kIn)), 1e-6,
              1e-6);
  CHECK(layer.lora()->is_merged());
  check_close(layer(input).to_doubles(), expected, 0, 1e-5);
}

TEST_CASE("LoRA leaves a model as it is at first, and trains nothing else", "[lora]") {
  for (const bool llama : {false, true}) {
    const auto model = tiny(llama);
    const NoGrad no_grad;
    const Values before = (*model)(some_tokens()).to_doubles();
    const std::vector<std::string> targets = {"h.*.attn.c_attn", "h.1.mlp.*",
                                              llama ? "lm_head" : "h.0.mlp.c_fc"};
    CHECK(add_lora(*model, {.rank = 3, .targets = targets}) == (llama ? 6 : 5));
    CHECK((*model)(some_tokens()).to_doubles() == before);
    std::int64_t trained = 0;
    for (const auto& [name, tensor] : model->named_parameters()) {
      const bool is_lora = name.find(".lora.") != std::string::npos;
      CHECK(tensor->requires_grad() == is_lora);
      if (is_lora) trained += tensor->elements();
    }
    // 3 (in + out): c_attn is 16 to 48, c_fc (and Llama's gate) 16 to 64, c_proj back, lm_head 16 to 23.
    CHECK(trained == 3 * (llama ? 2 * (16 + 48) + 3 * (16 + 64) + 16 + 23 : 2 * (16 + 48) + 3 * (16 + 64)));
  }
}

TEST_CASE("a model to which LoRA cannot be added stays as it was", "[lora]") {
  const auto model = tiny();
  const auto is_trained = [](const NamedParameter& parameter) { return parameter.tensor->requires_grad(); };
  const std::size_t parameters = model->named_parameters().size();
  const auto check_unchanged = [&](std::size_t expected) {
    const std::vector<NamedParameter> found = model->named_parameters();
    CHECK(found.size() == expected);
    CHECK(std::all_of(found.begin(), found.end(), is_trained));
  };
  // c_attn and c_fc are as wide as the model, 16; the head has 64.
  CHECK_THROWS_WITH(add_lora(*model, {.rank = 17, .targets = {"h.*.attn.c_attn"}}),
                    ContainsSubstring("the rank for a layer of 16 inputs"));
  check_unchanged(parameters);
  CHECK_THROWS_WITH(add_lora(*model, {.alpha = 0, .targets = {"*"}}), ContainsSubstring("alpha"));
  check_unchanged(parameters);
  add_lora(*model, {.rank = 2, .targets = {"h.1.mlp.c_fc"}});
  model->requires_grad(true);
  CHECK_THROWS_WITH(add_lora(*model, {.rank = 2, .targets = {"*"}}),
                    ContainsSubstring("the linear layer h.1.mlp.c_fc has a Lora already"));
  check_unchanged(parameters + 2);
}

TEST_CASE("a step with LoRA alone has gradients, optimizer state and buckets for the factors alone",
          "[lora]") {
  const auto model = tiny();
  model->parameter("ln_f.weight").copy_from(full({16}, 8));  // or no logit could be large
  add_lora(*model, {.rank = 2, .alpha = 8, .targets = {"h.*.c_proj", "h.0.attn.c_attn"}});
  constexpr std::int64_t kFactors = 2 * (2 * (16 + 16) + 2 * (64 + 16) + (16 + 48));
  const auto sharded = tiny();
  add_lora(*sharded, {.rank = 2, .targets = {"h.*.c_proj", "h.0.attn.c_attn"}});
  const ParameterArena of_two(*sharded, Device{}, DType::f32, {.zero_stage = 2, .rank = 0, .world_size = 2});
  std::size_t entries = 0;
  for (const GradientBucket& bucket : of_two.buckets()) entries += bucket.entries;
  CHECK(entries == 10);

  ParameterArena arena(*model, Device{});
  CHECK(arena.trained_elements() == kFactors);
  CHECK(arena.entries().size() == 10);
  AdamW optimizer(arena, {.learning_rate = 0.03});
  CHECK(optimizer.state()[0].tensor.elements() == arena.size());
  CHECK(arena.size() < kFactors + 10 * 64);
  std::vector<std::pair<std::string, Values>> frozen;
  for (const auto& [name, tensor] : model->named_parameters()) {
    if (!tensor->requires_grad()) frozen.emplace_back(name, tensor->to_doubles());
  }
  const Tensor tokens = some_tokens();
  const Tensor targets = from_vector(std::vector<std::int32_t>(20, 3), {20});
  double first = 0, last = 0;
  for (int step = 0; step < 150; ++step) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(view((*model)(tokens), {20, 23}), targets);
    loss.backward();
    optimizer.step();
    (step == 0 ? first : last) = loss.item();
  }
  CHECK(last < 0.3 * first);
  for (const auto& [name, values] : frozen) CHECK(model->parameter(name).to_doubles() == values);
}

TEST_CASE("a model with merged LoRA has the logits of the unmerged one, and is saved as an ordinary model",
          "[lora]") {
  for (const bool llama : {false, true}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      INFO(name_of(dtype));
      const TemporaryFolder folder;
      const auto model = tiny(llama);
      add_lora(*model, {.rank = 4, .alpha = 2});
      for (const auto& [name, tensor] : model->named_parameters()) {
        if (tensor->requires_grad()) {
          tensor->copy_from(tensor_of(random_doubles(tensor->elements(), 5, -0.3, 0.3), tensor->shape()));
        }
      }
      ParameterArena arena(*model, Device{}, dtype);
      const NoGrad no_grad;
      model->eval();
      const Values unmerged = (*model)(some_tokens()).to_doubles();
      CHECK_THROWS_WITH(save_gpt(*model, folder / "model"), ContainsSubstring("expected merge_lora() first"));
      merge_lora(*model);
      CHECK_FALSE(has_unmerged_lora(*model));
      const Values merged = (*model)(some_tokens()).to_doubles();
      // About 40 roundings one after the other, in two layers.
      check_close(merged, unmerged, 0, 8 * rounding_of(dtype) * largest_of(unmerged));
      save_gpt(*model, folder / "model");
      const auto loaded = load_gpt(folder / "model");
      CHECK(loaded->named_parameters().size() == (llama ? 17 : 28));
      const ParameterArena of_loaded(*loaded, Device{}, dtype);
      loaded->eval();
      CHECK((*loaded)(some_tokens()).to_doubles() == merged);
    }
  }
}

TEST_CASE("LoRA refuses targets and settings that do not fit", "[lora]") {
  const auto model = tiny();
  CHECK_THROWS_WITH(
      add_lora(*model, {.targets = {"h.*.attn.c_atn"}}),
      Equals("no linear layer matches 'h.*.attn.c_atn': near are h.0.attn.c_attn, h.1.attn.c_attn, "
             "h.0.attn.c_proj, h.1.attn.c_proj"));
  CHECK(model->parameter("wte.weight").requires_grad());
  CHECK_THROWS_WITH(Lora(4, 8, 5, 1),
                    Equals("LoRA: the rank for a layer of 4 inputs and 8 outputs must be 1 to 4, found 5"));
  CHECK_THROWS_WITH(Lora(4, 8, 0, 1), ContainsSubstring("must be 1 to 4, found 0"));
  CHECK_THROWS_WITH(Lora(4, 8, 2, 0), Equals("LoRA: alpha must be finite and above 0, found 0"));
  add_lora(*model, {.rank = 2});
  CHECK_THROWS_WITH(add_lora(*model, {.rank = 2}), ContainsSubstring("h.0.attn.c_attn has a Lora already"));
}

}  // namespace
}  // namespace ringtape::test
