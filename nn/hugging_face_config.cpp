#include "nn/hugging_face_config.h"

#include <string>

#include "core/error.h"
#include "core/quote.h"
#include "io/file.h"
#include "nn/gpt.h"
#include "nn/hugging_face.h"

namespace ringtape {
namespace {

/// The members of a config.json, with errors that name the file.
class Config {
  template <class Read>
  auto converted(const char* name, const Read& read) const {
    try {
      return read();
    } catch (const JsonError& error) {
      fail("{}: '{}': {}", path_, name, error.what());
    }
  }

 public:
  explicit Config(const std::filesystem::path& path) : path_(path.string()), json_(read_json(path)) {}

  const std::string& path() const { return path_; }
  const Json* find(const char* name) const {
    const Json* value = json_.find(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  std::int64_t size(const char* name) const {
    const Json* value = find(name);
    check(value != nullptr, "{}: '{}' is missing", path_, name);
    const std::int64_t found = converted(name, [&] { return value->as_int64(); });
    constexpr std::int64_t kMaxSize = 1 << 24;
    check(found >= 1 && found <= kMaxSize, "{}: '{}' is {}, expected 1 to {}", path_, name, found, kMaxSize);
    return found;
  }
  std::int64_t size_or(const char* name, std::int64_t otherwise) const {
    return find(name) == nullptr ? otherwise : size(name);
  }
  double number_or(const char* name, double otherwise) const {
    const Json* value = find(name);
    return value == nullptr ? otherwise : converted(name, [&] { return value->as_double(); });
  }
  bool flag_or(const char* name, bool otherwise) const {
    const Json* value = find(name);
    return value == nullptr ? otherwise : converted(name, [&] { return value->as_bool(); });
  }
  std::string text_or(const char* name, const std::string& otherwise) const {
    const Json* value = find(name);
    return value == nullptr ? otherwise : converted(name, [&] { return value->as_string(); });
  }

 private:
  std::string path_;
  Json json_;
};

MlpKind activation_of(const Config& config, const std::string& name) {
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return MlpKind::gelu_tanh;
  if (name == "gelu") return MlpKind::gelu;
  fail("{}: the activation is {}, expected gelu_new, gelu_pytorch_tanh or gelu", config.path(), quote(name));
}

TransformerOptions gpt2_options(const Config& config) {
  for (const char* name :
       {"scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"}) {
    check(!config.flag_or(name, false), "{}: '{}' is true, which is not supported", config.path(), name);
  }
  check(config.flag_or("scale_attn_weights", true),
        "{}: 'scale_attn_weights' is false, which is not supported", config.path());
  TransformerOptions o;
  o.vocabulary = config.size("vocab_size");
  o.context = config.size("n_positions");
  o.width = config.size("n_embd");
  o.layers = config.size("n_layer");
  o.heads = config.size("n_head");
  o.hidden = config.size_or("n_inner", 0);
  o.dropout = config.number_or("resid_pdrop", 0.1);
  o.embedding_dropout = config.number_or("embd_pdrop", 0.1);
  o.attention_dropout = config.number_or("attn_pdrop", 0.1);
  o.norm_eps = config.number_or("layer_norm_epsilon", 1e-5);
  o.mlp = activation_of(config, config.text_or("activation_function", "gelu_new"));
  o.bias = config.flag_or("ringtape_bias", true);
  o.tied = config.flag_or("tie_word_embeddings", true);
  return o;
}

TransformerOptions llama_options_of(const Config& config) {
  for (const char* name : {"attention_bias", "mlp_bias"}) {
    check(!config.flag_or(name, false), "{}: '{}' is true, which is not supported", config.path(), name);
  }
  check(config.find("rope_scaling") == nullptr, "{}: 'rope_scaling' is not supported", config.path());
  check(config.text_or("hidden_act", "silu") == "silu", "{}: 'hidden_act' is {}, expected silu",
        config.path(), quote(config.text_or("hidden_act", "silu")));
  TransformerOptions o = llama_options({});
  o.vocabulary = config.size("vocab_size");
  o.context = config.size("max_position_embeddings");
  o.width = config.size("hidden_size");
  o.layers = config.size("num_hidden_layers");
  o.heads = config.size("num_attention_heads");
  o.kv_heads = config.size_or("num_key_value_heads", o.heads);
  o.hidden = config.size("intermediate_size");
  o.dropout = config.number_or("ringtape_dropout", 0);  // Llama has dropout only in the attention
  o.embedding_dropout = config.number_or("ringtape_embedding_dropout", o.dropout);
  o.attention_dropout = config.number_or("attention_dropout", 0);
  o.norm_eps = config.number_or("rms_norm_eps", 1e-6);
  o.rotary_base = config.number_or("rope_theta", 10000);
  if (const Json* rope = config.find("rope_parameters")) {
    check(rope->is_object(), "{}: 'rope_parameters' is {}, expected an object", config.path(), rope->kind());
    const Json* kind = rope->find("rope_type");
    check(kind == nullptr || (kind->is_string() && kind->as_string() == "default"),
          "{}: 'rope_parameters' of another type than default are not supported", config.path());
    const Json* base = rope->find("rope_theta");
    check(base == nullptr || base->is_number(), "{}: 'rope_theta' is not a number", config.path());
    if (base != nullptr) o.rotary_base = base->as_double();
  }
  o.tied = config.flag_or("tie_word_embeddings", false);
  check(o.heads >= 1 && config.size_or("head_dim", o.width / o.heads) == o.width / o.heads,
        "{}: 'head_dim' is {}, expected hidden_size / num_attention_heads", config.path(),
        config.size_or("head_dim", 0));
  return o;
}

}  // namespace

bool is_llama(const TransformerOptions& o) {
  return o.norm == Norm::Kind::rms && o.mlp == MlpKind::swiglu && o.positions == PositionKind::rotary &&
         !o.bias;
}

bool is_gpt2(const TransformerOptions& o) {
  return o.norm == Norm::Kind::layer && o.mlp != MlpKind::swiglu && o.positions == PositionKind::learned &&
         o.kv_heads_or_default() == o.heads;
}

Json read_json(const std::filesystem::path& path) {
  const std::vector<std::uint8_t> bytes = read_file(path);
  return Json::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
}

Json config_of(const TransformerOptions& o) {
  if (is_llama(o)) {
    return {{"architectures", Json::Array{"LlamaForCausalLM"}},
            {"model_type", "llama"},
            {"vocab_size", o.vocabulary},
            {"max_position_embeddings", o.context},
            {"hidden_size", o.width},
            {"intermediate_size", o.hidden_or_default()},
            {"num_hidden_layers", o.layers},
            {"num_attention_heads", o.heads},
            {"num_key_value_heads", o.kv_heads_or_default()},
            {"hidden_act", "silu"},
            {"rms_norm_eps", o.norm_eps},
            {"rope_theta", o.rotary_base},
            {"attention_dropout", o.attention_dropout.value_or(o.dropout)},
            {"attention_bias", false},
            {"mlp_bias", false},
            {"tie_word_embeddings", o.tied},
            {"ringtape_dropout", o.dropout},
            {"ringtape_embedding_dropout", o.embedding_dropout.value_or(o.dropout)}};
  }
  return {{"architectures", Json::Array{"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", o.vocabulary},
          {"n_positions", o.context},
          {"n_embd", o.width},
          {"n_layer", o.layers},
          {"n_head", o.heads},
          {"n_inner", o.hidden_or_default()},
          {"activation_function", o.mlp == MlpKind::gelu ? "gelu" : "gelu_new"},
          {"layer_norm_epsilon", o.norm_eps},
          {"resid_pdrop", o.dropout},
          {"embd_pdrop", o.embedding_dropout.value_or(o.dropout)},
          {"attn_pdrop", o.attention_dropout.value_or(o.dropout)},
          {"tie_word_embeddings", o.tied},
          {"ringtape_bias", o.bias}};
}

TransformerOptions read_transformer_config(const std::filesystem::path& folder) {
  const Config config(folder / "config.json");
  const std::string kind = config.text_or("model_type", "");
  check(kind == "gpt2" || kind == "llama", "{}: 'model_type' is {}, expected gpt2 or llama", config.path(),
        quote(kind));
  const TransformerOptions options = kind == "gpt2" ? gpt2_options(config) : llama_options_of(config);
  try {
    GPT::check_options(options);
  } catch (const Error& error) {
    fail("{}: {}", config.path(), error.what());
  }
  return options;
}

}  // namespace ringtape
