#include "nn/gpt.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/ceil_div.h"
#include "core/error.h"
#include "core/memory.h"
#include "nn/arena.h"
#include "nn/sampling.h"
#include "tests/support/catch.h"
#include "tests/support/check_build.h"
#include "tests/support/gpu.h"
#include "tests/support/tensors.h"

namespace ringtape::test {
namespace {

TransformerOptions tiny(bool llama = false) {
  TransformerOptions options{.vocabulary = 23, .context = 12, .layers = 2, .heads = 4, .width = 16};
  if (llama) {
    options = llama_options(options);
    options.kv_heads = 2;
    options.hidden = 20;
  }
  return options;
}

/// A model whose weights are large enough for all terms to matter; every seed gives a different one.
std::shared_ptr<GPT> make_model(const TransformerOptions& options, std::uint64_t seed = 1) {
  manual_seed(seed);
  auto model = std::make_shared<GPT>(options);
  for (const NamedParameter& parameter : model->named_parameters()) {
    const NoGrad no_grad;
    parameter.tensor->copy_from(
        add(parameter.tensor->detach(), randn(parameter.tensor->shape(), DType::f32, {}, 0, 0.2)));
  }
  return model;
}

Tensor some_tokens(std::int64_t batch, std::int64_t length, std::int64_t vocabulary = 23) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < batch * length; ++i) {
    tokens.push_back(static_cast<std::int32_t>((i * i + 3 * i) % vocabulary));
  }
  return from_vector(tokens, {batch, length});
}

TEST_CASE("a GPT has the parameters of the paper's formula, named as Hugging Face names GPT-2's", "[gpt]") {
  const TransformerOptions o = tiny();
  GPT model(o);
  std::int64_t count = 0;
  for (const NamedParameter& parameter : model.named_parameters()) count += parameter.tensor->elements();
  // Embeddings; a block's 12 C^2 weights, its biases 3C + C + 4C + C and its norms 4C; the last norm.
  const std::int64_t c = o.width;
  CHECK(count == 23 * c + 12 * c + 2 * (12 * c * c + 13 * c) + 2 * c);
  CHECK(model.parameter("h.1.attn.c_attn.weight").shape() == Shape{3 * c, c});
  CHECK(model.parameter("h.0.mlp.c_proj.bias").shape() == Shape{c});
  CHECK_THROWS_WITH(model.parameter("lm_head.weight"), ContainsSubstring("no parameter"));

  if (kCheckBuild) return;
  GPT gpt2{TransformerOptions()};
  count = 0;
  for (const NamedParameter& parameter : gpt2.named_parameters()) count += parameter.tensor->elements();
  CHECK(count == 124'439'808);  // of GPT2LMHeadModel in transformers
}

TEST_CASE("a GPT's initial values are GPT-2's", "[gpt]") {
  manual_seed(3);
  GPT model({.vocabulary = 100, .context = 8, .layers = 8, .heads = 2, .width = 64});
  const auto deviation = [&](const char* name) {
    double sum = 0;
    const std::vector<double> values = model.parameter(name).to_doubles();
    for (const double value : values) sum += value * value;
    return std::sqrt(sum / static_cast<double>(values.size()));
  };
  // Of n values the deviation is off by 1 / sqrt(2 n) in one of three cases; four times that here.
  CHECK(std::abs(deviation("h.3.attn.c_attn.weight") / 0.02 - 1) < 4 / std::sqrt(2.0 * 3 * 64 * 64));
  CHECK(std::abs(deviation("h.3.attn.c_proj.weight") / (0.02 / 4) - 1) < 4 / std::sqrt(2.0 * 64 * 64));
  CHECK(std::abs(deviation("h.7.mlp.c_proj.weight") / (0.02 / 4) - 1) < 4 / std::sqrt(2.0 * 4 * 64 * 64));
  CHECK(std::abs(deviation("wpe.weight") / 0.02 - 1) < 4 / std::sqrt(2.0 * 8 * 64));
  CHECK(deviation("h.3.attn.c_attn.bias") == 0);
  CHECK(deviation("h.3.ln_1.weight") == 1);
}

TEST_CASE("a GPT draws each initial value once", "[gpt]") {
  manual_seed(3);
  GPT model(tiny());
  std::uint64_t counters = 0;  // each gives four values
  for (const auto& [name, tensor] : model.named_parameters()) {
    if (tensor->dims() == 2) counters += static_cast<std::uint64_t>(ceil_div(tensor->elements(), 4));
  }
  CHECK(default_generator().offset == counters);
}

TEST_CASE("the layers of a model share the table of rotary positions", "[gpt]") {
  RotaryPositions positions(tiny(true));  // a context of 12
  const Tensor x = zeros({1});
  const RotaryTable of_5 = positions.table(5, x);
  CHECK(of_5.cosines.shape() == Shape{8, 2});
  CHECK(positions.table(8, x).cosines.raw() == of_5.cosines.raw());
  const RotaryTable of_9 = positions.table(9, x);
  CHECK(of_9.cosines.shape() == Shape{12, 2});
  CHECK(of_9.sines.alias({8, 2}).to_doubles() == of_5.sines.to_doubles());
  // The angle t * base^(-2 i / D), here of t = 7, i = 1, D = 4.
  CHECK(of_5.sines.to_doubles()[7 * 2 + 1] == Approx(std::sin(7 / std::sqrt(10000.0))));
  CHECK(positions.table(5, zeros({1}, DType::f64)).cosines.dtype() == DType::f64);
}

TEST_CASE("a GPT refuses sizes that do not fit", "[gpt]") {
  TransformerOptions o = tiny();
  o.heads = 3;
  CHECK_THROWS_WITH(GPT(o), ContainsSubstring("a width of 16 is not divisible by 3 heads"));
  o = tiny();
  o.kv_heads = 3;
  CHECK_THROWS_WITH(GPT(o), ContainsSubstring("4 heads cannot be divided among 3 heads of keys and values"));
  o = tiny();
  o.layers = 0;
  CHECK_THROWS_WITH(GPT(o), ContainsSubstring("GPT: layers: expected 1 to 10000, found 0"));
  GPT model(tiny());
  CHECK_THROWS_WITH(model(some_tokens(1, 13)), ContainsSubstring("13 tokens exceed the context of 12"));
  CHECK_THROWS_WITH(model(from_vector(std::vector<std::int32_t>{1, 23}, {1, 2})),
                    ContainsSubstring("embedding: token number 1 is outside of [0, vocabulary)"));
  CHECK_THROWS_WITH(model(randn({1, 2})), ContainsSubstring("tokens must be i32 or i64, found f32[1, 2]"));
}

TEST_CASE("no logit depends on a later token", "[gpt]") {
  for (const bool llama : {false, true}) {
    const auto model = make_model(tiny(llama));
    const NoGrad no_grad;
    std::vector<std::int32_t> tokens = some_tokens(1, 9).to_vector<std::int32_t>();
    const std::vector<float> before = (*model)(from_vector(tokens, {1, 9})).to_vector<float>();
    tokens[6] = (tokens[6] + 1) % 23;
    const std::vector<float> after = (*model)(from_vector(tokens, {1, 9})).to_vector<float>();
    CHECK(std::equal(before.begin(), before.begin() + 6 * 23, after.begin()));
    for (std::size_t t = 6; t < 9; ++t) {
      CHECK_FALSE(std::equal(before.begin() + t * 23, before.begin() + (t + 1) * 23, after.begin() + t * 23));
    }
  }
}

TEST_CASE("logits with a cache are those of a full pass", "[gpt]") {
  for (const bool llama : {false, true}) {
    INFO("llama " << llama);
    const auto model = make_model(tiny(llama));
    model->eval();
    const NoGrad no_grad;
    const Tensor tokens = some_tokens(3, 11);
    const Tensor full = (*model)(tokens);
    const double largest = largest_of(full.to_doubles());
    // A prompt of 4 tokens, then pieces of 1, 3, 1, 1 and 1.
    KVCache cache(model->options(), 3, 12, DType::f32, Device{});
    std::int64_t first = 0;
    for (const std::int64_t count : {4, 1, 3, 1, 1, 1}) {
      std::vector<std::int32_t> piece;
      std::vector<double> expected;
      for (std::int64_t b = 0; b < 3; ++b) {
        const auto all = tokens.to_vector<std::int32_t>();
        for (std::int64_t t = first; t < first + count; ++t) piece.push_back(all[b * 11 + t]);
        const auto row = full.alias({23}, (b * 11 + first + count - 1) * 23).to_doubles();
        expected.insert(expected.end(), row.begin(), row.end());
      }
      first += count;
      const Tensor logits = model->next(from_vector(piece, {3, count}), cache);
      CHECK(cache.length() == first);
      check_close(logits.to_doubles(), expected, 0, 1e-5 * largest);
    }
    CHECK_THROWS_WITH(model->next(some_tokens(3, 2), cache),
                      ContainsSubstring("13 tokens exceed the cache's 12"));
    CHECK_THROWS_WITH(model->next(some_tokens(2, 1), cache), ContainsSubstring("cache's 3 sequences"));
  }
}

/// Loss and gradients of one batch.
std::vector<std::vector<double>> loss_and_gradients(GPT& model) {
  ParameterArena arena(model, Device{});
  const Tensor logits = model(some_tokens(2, 12));
  const Tensor loss = cross_entropy(view(logits, {-1, 23}), some_tokens(24, 1).alias({24}));
  loss.backward();
  std::vector<std::vector<double>> results = {loss.to_doubles()};
  for (const NamedParameter& p : model.named_parameters()) results.push_back(p.tensor->grad().to_doubles());
  return results;
}

TEST_CASE("recomputed blocks leave loss and gradients as they are, with dropout too", "[gpt]") {
  for (const bool llama : {false, true}) {
    TransformerOptions options = tiny(llama);
    options.layers = 4;
    options.dropout = 0.25;
    const auto plain = make_model(options), again = make_model(options);
    again->set_recompute(1);
    manual_seed(5);
    const auto expected = loss_and_gradients(*plain);
    manual_seed(5);
    CHECK(loss_and_gradients(*again) == expected);
    manual_seed(6);
    CHECK(loss_and_gradients(*make_model(options)) != expected);
  }
}

TEST_CASE("dropout is off in evaluation mode", "[gpt]") {
  TransformerOptions options = tiny();
  options.dropout = 0.5;
  const auto model = make_model(options);
  const NoGrad no_grad;
  const auto logits = [&] { return (*model)(some_tokens(1, 5)).to_doubles(); };
  CHECK(logits() != logits());
  model->eval();
  CHECK(logits() == logits());
}

TEST_CASE("a model in bf16 computes the logits of f32 within the roundings of bf16", "[gpt]") {
  const auto model = make_model(tiny());
  const NoGrad no_grad;
  const std::vector<double> exact = (*model)(some_tokens(2, 12)).to_doubles();
  ParameterArena arena(*model, Device{}, DType::bf16);
  const Tensor logits = (*model)(some_tokens(2, 12));
  CHECK(logits.dtype() == DType::bf16);
  // About ten roundings in a row for each of the two blocks, each of 2^-9 of a value of the residual stream,
  // with random signs: sqrt(20) 2^-9, and the largest of 552 normal deviates is about three of them.
  check_close(to(logits, DType::f32).to_doubles(), exact, 0,
              3 * std::sqrt(20.0) * 0x1p-9 * largest_of(exact));
}

GPU_TEST_CASE("a GPT on the GPU computes the loss and gradients of the CPU", "[gpt]") {
  const auto run = [](Device device) {
    const auto model = make_model(tiny());
    ParameterArena arena(*model, device);
    const Tensor logits = (*model)(to(some_tokens(2, 12), device));
    const Tensor loss = cross_entropy(view(logits, {-1, 23}), to(some_tokens(24, 1).alias({24}), device));
    loss.backward();
    std::vector<std::vector<double>> results = {loss.to_doubles()};
    for (const NamedParameter& p : model->named_parameters())
      results.push_back(p.tensor->grad().to_doubles());
    return results;
  };
  const auto found = run(Device::parse("cuda")), expected = run(Device{});
  for (std::size_t i = 0; i < found.size(); ++i) {
    check_close(found[i], expected[i], 0, 1e-5 * largest_of(expected[i]));
  }
}

TEST_CASE("generating a token allocates no more memory than the tokens before it", "[gpt][memory]") {
  for (const bool llama : {false, true}) {
    INFO("llama " << llama);
    TransformerOptions options = tiny(llama);
    const std::int64_t table = kCheckBuild ? 128 : 256;  // beyond a tile of keys
    options.context = table + 44;
    const auto model = make_model(options);
    model->eval();
    std::vector<std::size_t> reserved;
    generate(*model, {1, 2, 3}, {.tokens = table + 24, .sampling = {}}, [&](std::int32_t) {
      reserved.push_back(memory_stats(Device{}).reserved);
      return true;
    });
    REQUIRE(std::ssize(reserved) == table + 24);
    // The prompt and the first token alone have shapes that no other step has; rotary's table grows by
    // doubling.
    const std::int64_t first = llama ? table - 2 : 2;
    CHECK(std::set<std::size_t>(reserved.begin() + first, reserved.end()).size() == 1);
  }
}

// ---- drawing tokens ----

std::int32_t greedy(const std::vector<float>& logits) {
  return TokenSampler({.temperature = 0})(logits);
}

TEST_CASE("a temperature of 0 takes the likeliest token, the first of equals", "[gpt]") {
  CHECK(greedy({0, 3, 1, 3}) == 1);
  CHECK(greedy({-INFINITY, -5}) == 1);
}

TEST_CASE("tokens are drawn with their probabilities", "[gpt]") {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.2f), std::log(0.3f), -INFINITY};
  const auto frequencies = [&](const SamplingOptions& options) {
    TokenSampler sampler(options);
    std::vector<double> counts(4);
    for (int i = 0; i < 20000; ++i) counts[sampler(logits)] += 1;
    for (double& count : counts) count /= 20000;
    return counts;
  };
  // The deviation of a frequency is at most 0.5 / sqrt(20000); the seeds are fixed.
  check_close(frequencies({.seed = 1}), {0.5, 0.2, 0.3, 0}, 0, 0.014);
  check_close(frequencies({.top_k = 2, .seed = 2}), {0.625, 0, 0.375, 0}, 0, 0.014);
  check_close(frequencies({.top_p = 0.7, .seed = 3}), {0.625, 0, 0.375, 0}, 0, 0.014);
  check_close(frequencies({.top_p = 0.4, .seed = 4}), {1, 0, 0, 0}, 0, 0);
  // The square of each probability: 25, 4 and 9 of 38.
  check_close(frequencies({.temperature = 0.5, .seed = 5}), {25.0 / 38, 4.0 / 38, 9.0 / 38, 0}, 0, 0.014);
  CHECK(frequencies({.seed = 6}) == frequencies({.seed = 6}));
  CHECK(frequencies({.seed = 6}) != frequencies({.seed = 7}));
}

TEST_CASE("invalid settings are refused before a token is drawn", "[gpt]") {
  CHECK_THROWS_WITH(TokenSampler({.temperature = std::nan("")}), ContainsSubstring("found nan"));
  CHECK_THROWS_WITH(TokenSampler({.temperature = -1}), ContainsSubstring("temperature must be finite"));
  CHECK_THROWS_WITH(TokenSampler({.top_p = 0}), ContainsSubstring("top-p must be above 0"));
  CHECK_THROWS_WITH(TokenSampler({.top_k = -1}), ContainsSubstring("top-k must be at least 0"));
  const std::vector<float> bad = {0, NAN};
  CHECK_THROWS_WITH(TokenSampler({})(bad), ContainsSubstring("a logit is nan"));
  const std::vector<float> none(3, -INFINITY);
  CHECK_THROWS_WITH(TokenSampler({})(none), ContainsSubstring("all logits are -inf"));
}

TEST_CASE("a text is continued greedily as by full passes, and beyond the context with its last half",
          "[gpt]") {
  const auto model = make_model(tiny());
  model->eval();
  std::vector<std::int32_t> text = {3, 1, 4, 1, 5};
  std::vector<std::int32_t> written;
  generate(*model, text, {.tokens = 20, .sampling = {.temperature = 0}}, [&](std::int32_t token) {
    written.push_back(token);
    return true;
  });
  REQUIRE(written.size() == 20);
  const NoGrad no_grad;
  std::size_t seen = 0;  // where the window of the context begins
  for (const std::int32_t token : written) {
    if (text.size() - seen > 12) seen = text.size() - 6;
    const std::vector<std::int32_t> window(text.begin() + static_cast<std::ptrdiff_t>(seen), text.end());
    const auto length = static_cast<std::int64_t>(window.size());
    const Tensor logits = (*model)(from_vector(window, {1, length}));
    CHECK(greedy(logits.alias({23}, (length - 1) * 23).to_vector<float>()) == token);
    text.push_back(token);
  }
  // Of a model with more rows than its tokenizer has tokens.
  std::int32_t largest = 0;
  generate(*model, {3, 1, 4, 1, 5}, {.tokens = 40, .sampling = {}, .vocabulary = 7}, [&](std::int32_t token) {
    largest = std::max(largest, token);
    return true;
  });
  CHECK(largest == 6);
  const std::vector<std::int32_t> empty, long_one(13);
  const auto ignore = [](std::int32_t) { return true; };
  CHECK_THROWS_WITH(generate(*model, empty, {}, ignore), ContainsSubstring("the prompt has no tokens"));
  CHECK_THROWS_WITH(generate(*model, long_one, {}, ignore),
                    ContainsSubstring("the prompt has 13 tokens, more than the context of 12"));
  model->train();
  const std::vector<std::int32_t> one = {1};
  CHECK_THROWS_WITH(generate(*model, one, {}, ignore), ContainsSubstring("call eval() first"));
}

}  // namespace
}  // namespace ringtape::test
