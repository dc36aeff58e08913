#include "nn/hugging_face.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "io/file.h"
#include "io/json.h"
#include "io/safetensors.h"

namespace ringtape {
namespace {

bool is_llama(const TransformerOptions& o) {
  return o.norm == Norm::Kind::rms && o.mlp == MlpKind::swiglu && o.positions == PositionKind::rotary &&
         !o.bias;
}

bool is_gpt2(const TransformerOptions& o) {
  return o.norm == Norm::Kind::layer && o.mlp != MlpKind::swiglu && o.positions == PositionKind::learned &&
         o.kv_heads_or_default() == o.heads;
}

const char* const kIndex = "model.safetensors.index.json";

// ---- names ----

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

// ---- config.json ----

Json parse_file(const std::filesystem::path& path) {
  const std::vector<std::uint8_t> bytes = read_file(path);
  return Json::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
}

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
  explicit Config(const std::filesystem::path& path) : path_(path.string()), json_(parse_file(path)) {}

  const std::string& path() const { return path_; }
  const Json* find(const char* name) const {
    const Json* value = json_.find(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  std::int64_t size(const char* name) const {
    const Json* value = find(name);
    check(value != nullptr, "{}: '{}' is missing", path_, name);
    const std::int64_t found = converted(name, [&] { return value->as_int64(); });
    constexpr std::int64_t kMost = 1 << 24;
    check(found >= 1 && found <= kMost, "{}: '{}' is {}, expected 1 to {}", path_, name, found, kMost);
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
  fail("{}: the activation is '{}', expected gelu_new, gelu_pytorch_tanh or gelu", config.path(), name);
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
  check(config.text_or("hidden_act", "silu") == "silu", "{}: 'hidden_act' is '{}', expected silu",
        config.path(), config.text_or("hidden_act", "silu"));
  TransformerOptions o = llama_options({});
  o.vocabulary = config.size("vocab_size");
  o.context = config.size("max_position_embeddings");
  o.width = config.size("hidden_size");
  o.layers = config.size("num_hidden_layers");
  o.heads = config.size("num_attention_heads");
  o.kv_heads = config.size_or("num_key_value_heads", o.heads);
  o.hidden = config.size("intermediate_size");
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
            {"attention_bias", false},
            {"mlp_bias", false},
            {"tie_word_embeddings", o.tied}};
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
          {"embd_pdrop", o.dropout},
          {"attn_pdrop", o.dropout},
          {"tie_word_embeddings", o.tied},
          {"ringtape_bias", o.bias}};
}

// ---- weights ----

/// The tensors of all files of a folder, by name without "transformer.".
class WeightFiles {
 public:
  explicit WeightFiles(const std::filesystem::path& folder) : folder_(folder) {
    const std::filesystem::path index = folder / kIndex;
    if (std::filesystem::exists(index)) {
      add_shards(index);
    } else {
      add("model.safetensors");
    }
  }

  const SafetensorsFile::Entry* find(const std::string& name) const {
    const auto found = entries_.find(name);
    return found == entries_.end() ? nullptr : &found->second.file->entry(found->second.name);
  }
  /// The tensor in f32.
  Tensor load(const std::string& name) const {
    const Location& location = entries_.at(name);
    return to(location.file->load(location.name), DType::f32);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, location] : entries_) names.push_back(name);
    return names;
  }

 private:
  struct Location {
    const SafetensorsFile* file;
    std::string name;
  };

  const SafetensorsFile& add(const std::string& file_name) {
    files_.push_back(std::make_unique<SafetensorsFile>(folder_ / file_name));
    for (const SafetensorsFile::Entry& entry : files_.back()->entries()) {
      const std::string prefix = "transformer.";
      const bool has_prefix = entry.name.starts_with(prefix);
      const std::string name = has_prefix ? entry.name.substr(prefix.size()) : entry.name;
      const bool is_new = entries_.insert({name, {files_.back().get(), entry.name}}).second;
      check(is_new, "{}: tensor '{}' is there twice", folder_.string(), name);
    }
    return *files_.back();
  }

  void add_shards(const std::filesystem::path& index) {
    const Json json = parse_file(index);
    const Json* map = json.find("weight_map");
    check(map != nullptr && map->is_object(), "{}: 'weight_map' is missing", index.string());
    std::map<std::string, const SafetensorsFile*> shards;
    for (const auto& [name, file] : map->as_object()) {
      check(file.is_string(), "{}: the file of tensor '{}' is not a string", index.string(), name);
      const std::string shard = file.as_string();
      check(std::filesystem::path(shard).filename() == shard,
            "{}: '{}' is not the name of a file in the folder", index.string(), shard);
      if (!shards.contains(shard)) shards[shard] = &add(shard);
      const auto& entries = shards[shard]->entries();
      check(
          std::any_of(entries.begin(), entries.end(), [&](const auto& entry) { return entry.name == name; }),
          "{}: tensor '{}' is not in {}", index.string(), name, shard);
    }
  }

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Location> entries_;
};

/// Tensors that a file may have besides the parameters.
bool may_be_ignored(const std::string& name, const TransformerOptions& options) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq") || (name == "lm_head.weight" && options.tied);
}

/// The shape that tensor number `part` of a source has in the file.
Shape shape_of(const WeightSource& source, std::size_t part, const Tensor& parameter) {
  if (parameter.dims() == 1) return parameter.shape();
  const std::int64_t rows = source.rows[part], columns = parameter.size(1);
  return source.transposed ? Shape{columns, rows} : Shape{rows, columns};
}

void check_weights(GPT& model, const WeightFiles& files, const std::vector<WeightSource>& sources,
                   const std::string& folder) {
  std::vector<std::string> missing, extra, different;
  std::set<std::string> expected;
  for (const WeightSource& source : sources) {
    for (std::size_t i = 0; i < source.tensors.size(); ++i) {
      const std::string& name = source.tensors[i];
      expected.insert(name);
      const SafetensorsFile::Entry* entry = files.find(name);
      const Shape shape = shape_of(source, i, model.parameter(source.parameter));
      if (entry == nullptr) {
        missing.push_back(name);
      } else if (entry->shape != shape) {
        different.push_back(
            fmt::format("{} {} instead of {}", name, to_string(entry->shape), to_string(shape)));
      } else {
        check(is_floating(entry->dtype), "{}: tensor '{}' is {}, expected f32, bf16 or f16", folder, name,
              name_of(entry->dtype));
      }
    }
  }
  for (const std::string& name : files.names()) {
    const bool zero_bias = !model.options().bias && name.ends_with(".bias");
    if (!expected.contains(name) && !zero_bias && !may_be_ignored(name, model.options()))
      extra.push_back(name);
  }
  const auto listed = [](const char* what, std::vector<std::string> names) {
    if (names.empty()) return std::string();
    const std::size_t more = names.size() > 4 ? names.size() - 4 : 0;
    names.resize(names.size() - more);
    return fmt::format("; {} {}{}", what, fmt::join(names, ", "),
                       more == 0 ? "" : fmt::format(" and {} more", more));
  };
  check(missing.empty() && extra.empty() && different.empty(), "{}: not the weights of this model{}{}{}",
        folder, listed("missing:", missing), listed("not expected:", extra),
        listed("of another shape:", different));
}

/// Columns and rows of a matrix on the CPU exchanged.
Tensor transposed(const Tensor& x) {
  const std::vector<float> values = x.to_vector<float>();
  const std::int64_t rows = x.size(0), columns = x.size(1);
  std::vector<float> turned(values.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) turned[j * rows + i] = values[i * columns + j];
  }
  return from_vector(turned, {columns, rows});
}

}  // namespace

std::vector<WeightSource> weight_sources(const TransformerOptions& options) {
  return is_llama(options) ? llama_sources(options) : gpt2_sources(options);
}

TransformerOptions read_transformer_config(const std::filesystem::path& folder) {
  const Config config(folder / "config.json");
  const std::string kind = config.text_or("model_type", "");
  if (kind == "gpt2") return gpt2_options(config);
  if (kind == "llama") return llama_options_of(config);
  fail("{}: 'model_type' is '{}', expected gpt2 or llama", config.path(), kind);
}

std::shared_ptr<GPT> load_gpt(const std::filesystem::path& folder, std::optional<double> dropout) {
  const NoGrad no_grad;
  TransformerOptions options = read_transformer_config(folder);
  if (dropout) options.dropout = *dropout;
  const auto model = std::make_shared<GPT>(options);
  const WeightFiles files(folder);
  const std::vector<WeightSource> sources = weight_sources(model->options());
  check_weights(*model, files, sources, folder.string());
  for (const WeightSource& source : sources) {
    std::vector<Tensor> parts;
    for (const std::string& name : source.tensors) {
      const Tensor part = files.load(name);
      parts.push_back(source.transposed ? transposed(part) : part);
    }
    model->parameter(source.parameter).copy_from(parts.size() == 1 ? parts[0] : cat(parts));
  }
  return model;
}

void check_save_gpt(const TransformerOptions& options, const std::filesystem::path& folder) {
  check(is_llama(options) || is_gpt2(options),
        "{}: transformers has no such model: expected the shape of GPT-2 (layer norms, learned positions, as "
        "many "
        "heads of keys as of queries) or of Llama (RMS norms, rotary positions, SwiGLU, no biases)",
        folder.string());
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  check(!error, "{}: cannot make the folder: {}", folder.string(), error.message());
  for (const char* name : {"model.safetensors", "config.json"}) {
    const AtomicFile probe(folder / name);  // throws if it cannot be written; nothing is changed
  }
}

void save_gpt(GPT& model, const std::filesystem::path& folder) {
  const NoGrad no_grad;
  const TransformerOptions& options = model.options();
  check_save_gpt(options, folder);
  // GPT-2's layers have biases, its embeddings have none.
  const auto lacks_bias = [&](const WeightSource& source) {
    return is_gpt2(options) && !options.bias &&
           (source.parameter.starts_with("h.") || source.parameter.starts_with("ln_f."));
  };
  std::vector<NamedTensor> tensors;
  for (const WeightSource& source : weight_sources(options)) {
    const Tensor value = to(model.parameter(source.parameter).detach(), Device{});
    std::int64_t first = 0;
    for (std::size_t i = 0; i < source.tensors.size(); ++i) {
      Tensor part = value;
      if (source.tensors.size() > 1) {
        part = value.alias({source.rows[i], value.size(1)}, first * value.size(1));
        first += source.rows[i];
      }
      if (source.transposed) part = transposed(part);
      tensors.push_back({source.tensors[i], part});
      if (lacks_bias(source)) {
        const std::string layer = source.parameter.substr(0, source.parameter.rfind('.'));
        tensors.push_back({layer + ".bias", zeros({value.size(0)})});
      }
    }
  }
  save_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
  save_text(folder / "config.json", config_of(options).dump(2) + "\n");
  std::error_code ignored;
  std::filesystem::remove(folder / kIndex, ignored);  // of shards that were here before
}

}  // namespace ringtape
