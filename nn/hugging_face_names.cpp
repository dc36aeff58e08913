#include "nn/hugging_face_names.h"

#include <fmt/format.h>

#include <utility>

#include "nn/hugging_face_config.h"

namespace ringtape {
namespace {

std::vector<WeightSource> llama_sources(const TransformerOptions& o) {
  const std::int64_t head = o.head_size(), kv = o.kv_heads_or_default() * head;
  std::vector<WeightSource> sources = {{"wte.weight", {"model.embed_tokens.weight"}, {o.vocabulary}}};
  for (std::int64_t i = 0; i < o.layers; ++i) {
    const std::string ours = fmt::format("h.{}.", i), theirs = fmt::format("model.layers.{}.", i);
    const auto attention = [&](const char* name) { return theirs + "self_attn." + name + "_proj.weight"; };
    sources.push_back({ours + "ln_1.weight", {theirs + "input_layernorm.weight"}, {}});
    sources.push_back(
        {ours + "attn.c_attn.weight", {attention("q"), attention("k"), attention("v")}, {o.width, kv, kv}});
    sources.push_back({ours + "attn.c_proj.weight", {attention("o")}, {o.width}});
    sources.push_back({ours + "ln_2.weight", {theirs + "post_attention_layernorm.weight"}, {}});
    const std::int64_t hidden = o.hidden_or_default();
    sources.push_back({ours + "mlp.c_gate.weight", {theirs + "mlp.gate_proj.weight"}, {hidden}});
    sources.push_back({ours + "mlp.c_fc.weight", {theirs + "mlp.up_proj.weight"}, {hidden}});
    sources.push_back({ours + "mlp.c_proj.weight", {theirs + "mlp.down_proj.weight"}, {o.width}});
  }
  sources.push_back({"ln_f.weight", {"model.norm.weight"}, {}});
  if (!o.tied) sources.push_back({"lm_head.weight", {"lm_head.weight"}, {o.vocabulary}});
  return sources;
}

std::vector<WeightSource> gpt2_sources(const TransformerOptions& o) {
  const auto same = [](const std::string& name, std::vector<std::int64_t> rows, bool transposed) {
    return WeightSource{name, {name}, std::move(rows), transposed};
  };
  std::vector<WeightSource> sources = {same("wte.weight", {o.vocabulary}, false),
                                       same("wpe.weight", {o.context}, false)};
  const auto add_pair = [&](const std::string& name, std::vector<std::int64_t> rows, bool transposed) {
    sources.push_back(same(name + ".weight", std::move(rows), transposed));
    if (o.bias) sources.push_back(same(name + ".bias", {}, false));
  };
  for (std::int64_t i = 0; i < o.layers; ++i) {
    const std::string block = fmt::format("h.{}.", i);
    add_pair(block + "ln_1", {}, false);
    add_pair(block + "attn.c_attn", {o.qkv_columns()}, true);
    add_pair(block + "attn.c_proj", {o.width}, true);
    add_pair(block + "ln_2", {}, false);
    add_pair(block + "mlp.c_fc", {o.hidden_or_default()}, true);
    add_pair(block + "mlp.c_proj", {o.width}, true);
  }
  add_pair("ln_f", {}, false);
  if (!o.tied) sources.push_back(same("lm_head.weight", {o.vocabulary}, false));
  return sources;
}

}  // namespace

std::vector<WeightSource> weight_sources(const TransformerOptions& options) {
  return is_llama(options) ? llama_sources(options) : gpt2_sources(options);
}

}  // namespace ringtape
