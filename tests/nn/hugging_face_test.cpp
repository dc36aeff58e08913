#include "nn/hugging_face.h"

#include <map>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tensors.h"

namespace ringtape::test {
namespace {

using std::string_literals::operator""s;

TransformerOptions small_gpt2() {
  return {.vocabulary = 11, .context = 6, .layers = 2, .heads = 2, .width = 8};
}

TransformerOptions small_llama() {
  TransformerOptions options = llama_options(small_gpt2());
  options.heads = 4;
  options.kv_heads = 2;
  options.hidden = 5;
  options.rotary_base = 500;
  options.norm_eps = 1e-6;
  return options;
}

std::vector<double> logits_of(GPT& model) {
  const NoGrad no_grad;
  model.eval();
  return model(from_vector(std::vector<std::int32_t>{1, 5, 3, 10, 0, 2}, {2, 3})).to_doubles();
}

/// The options of a model after it is written and read.
TransformerOptions load_saved(const TransformerOptions& options, const std::filesystem::path& folder) {
  GPT model(options);
  save_gpt(model, folder);
  return load_gpt(folder)->options();
}

/// The tensors of a file, to be changed and written again.
std::vector<NamedTensor> tensors_of(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  std::vector<NamedTensor> tensors;
  for (const auto& entry : file.entries()) tensors.push_back({entry.name, file.load(entry.name)});
  return tensors;
}

TEST_CASE("a model that was saved for transformers computes the same after it is loaded", "[gpt]") {
  TransformerOptions without_bias = small_gpt2();
  without_bias.bias = false;
  TransformerOptions tied_llama = small_llama();
  tied_llama.tied = true;
  TransformerOptions untied_gpt2 = small_gpt2();
  untied_gpt2.tied = false;
  for (const TransformerOptions& options :
       {small_gpt2(), without_bias, untied_gpt2, small_llama(), tied_llama}) {
    const TemporaryFolder folder;
    manual_seed(4);
    GPT model(options);
    save_gpt(model, folder.path() / "model");
    const std::shared_ptr<GPT> loaded = load_gpt(folder.path() / "model");
    CHECK(logits_of(*loaded) == logits_of(model));
    CHECK(loaded->named_parameters().size() == model.named_parameters().size());
  }
}

TEST_CASE("a GPT-2 without biases to which another library added some is read with them", "[gpt]") {
  const TemporaryFolder folder;
  TransformerOptions options = small_gpt2();
  options.bias = false;
  CHECK_FALSE(load_saved(options, folder.path()).bias);
  const std::filesystem::path path = folder.path() / "model.safetensors";
  std::vector<NamedTensor> tensors = tensors_of(path);
  for (NamedTensor& tensor : tensors) {
    if (tensor.name == "transformer.h.1.mlp.c_proj.bias") tensor.tensor = full({8}, 0.5);
  }
  save_safetensors(path, tensors);
  const std::shared_ptr<GPT> loaded = load_gpt(folder.path());
  CHECK(loaded->options().bias);
  CHECK(loaded->parameter("h.1.mlp.c_proj.bias").to_doubles() == std::vector<double>(8, 0.5));
  CHECK(loaded->parameter("ln_f.bias").to_doubles() == std::vector<double>(8, 0));

  GPT llama(small_llama());
  save_gpt(llama, folder.path());
  tensors = tensors_of(path);
  tensors.push_back({"model.layers.0.self_attn.q_proj.bias", full({8}, 0.5)});
  save_safetensors(path, tensors);
  CHECK_THROWS_WITH(load_gpt(folder.path()),
                    ContainsSubstring("not expected: 'model.layers.0.self_attn.q_proj.bias'"));
}

TEST_CASE("a model that cannot be saved as a whole leaves the one that was there", "[gpt]") {
  const TemporaryFolder folder;
  GPT first(small_gpt2()), second(small_gpt2());
  save_gpt(first, folder.path(), {{"words.txt", "old"}});
  CHECK(read_text(folder / "words.txt") == "old");
  const std::vector<std::string> names = folder.names();
  const std::string weights = read_text(folder / "model.safetensors");
  const std::map<std::string, std::string> texts = {{"missing/x.txt", ""}, {"a.txt", "new"}};
  CHECK_THROWS_WITH(save_gpt(second, folder.path(), texts), ContainsSubstring("missing/x.txt: cannot write"));
  CHECK(folder.names() == names);
  CHECK(read_text(folder / "model.safetensors") == weights);
}

TEST_CASE("GPT-2's matrices are stored as [in, out], Llama's queries, keys and values apart", "[gpt]") {
  const TemporaryFolder folder;
  GPT gpt2(small_gpt2());
  save_gpt(gpt2, folder.path());
  const SafetensorsFile file(folder.path() / "model.safetensors");
  const Tensor stored = file.load("transformer.h.0.attn.c_attn.weight");
  const Tensor& weight = gpt2.parameter("h.0.attn.c_attn.weight");
  REQUIRE(stored.shape() == Shape{8, 24});
  CHECK(stored.to_doubles()[3 * 24 + 20] == weight.to_doubles()[20 * 8 + 3]);
  CHECK(file.metadata().at("format") == "pt");

  GPT llama(small_llama());
  save_gpt(llama, folder.path());
  const SafetensorsFile shards(folder.path() / "model.safetensors");
  CHECK(shards.entry("model.layers.1.self_attn.q_proj.weight").shape == Shape{8, 8});
  CHECK(shards.entry("model.layers.1.self_attn.v_proj.weight").shape == Shape{4, 8});
}

TEST_CASE("names of a GPT2Model, mask buffers, a tied output layer and other dtypes are read", "[gpt]") {
  const TemporaryFolder folder;
  GPT model(small_gpt2());
  for (const NamedParameter& parameter : model.named_parameters()) {  // exact in bf16
    const NoGrad no_grad;
    parameter.tensor->copy_from(to(to(parameter.tensor->detach(), DType::bf16), DType::f32));
  }
  save_gpt(model, folder.path());
  const std::filesystem::path path = folder.path() / "model.safetensors";
  std::vector<NamedTensor> tensors = tensors_of(path);
  for (NamedTensor& tensor : tensors) {
    tensor.name = tensor.name.substr(std::string("transformer.").size());
    tensor.tensor = to(tensor.tensor, DType::bf16);
  }
  tensors.push_back({"h.0.attn.bias", zeros({1, 1, 6, 6})});
  tensors.push_back({"lm_head.weight", model.parameter("wte.weight").detach()});
  save_safetensors(path, tensors);
  CHECK(logits_of(*load_gpt(folder.path())) == logits_of(model));
}

TEST_CASE("weights in shards are found by their index, and a wrong index is refused", "[gpt]") {
  const TemporaryFolder folder;
  GPT model(small_llama());
  save_gpt(model, folder.path());
  std::vector<NamedTensor> tensors = tensors_of(folder.path() / "model.safetensors"), first, second;
  Json map;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    (i % 2 == 0 ? first : second).push_back(tensors[i]);
    map[tensors[i].name] = i % 2 == 0 ? "a.safetensors" : "b.safetensors";
  }
  save_safetensors(folder.path() / "a.safetensors", first);
  save_safetensors(folder.path() / "b.safetensors", second);
  std::filesystem::remove(folder.path() / "model.safetensors");
  const auto write_index = [&](const Json& weight_map) {
    write_text(folder.path() / "model.safetensors.index.json", Json{{"weight_map", weight_map}}.dump());
  };
  write_index(map);
  CHECK(logits_of(*load_gpt(folder.path())) == logits_of(model));

  Json lie = map;
  lie[first[0].name] = "b.safetensors";
  write_index(lie);
  CHECK_THROWS_WITH(load_gpt(folder.path()),
                    ContainsSubstring("tensor '" + first[0].name + "' is not in b.safetensors"));
  lie[first[0].name] = "../a.safetensors";
  write_index(lie);
  CHECK_THROWS_WITH(load_gpt(folder.path()), ContainsSubstring("is not the name of a file in the folder"));
  std::filesystem::remove(folder.path() / "b.safetensors");
  write_index(map);
  CHECK_THROWS_WITH(load_gpt(folder.path()), ContainsSubstring("b.safetensors"));

  save_gpt(model, folder.path());
  CHECK_FALSE(std::filesystem::exists(folder.path() / "model.safetensors.index.json"));
  write_index(map);  // as if save_gpt() had been killed before it removed the index
  CHECK(logits_of(*load_gpt(folder.path())) == logits_of(model));
}

TEST_CASE("every dropout of a model is in its config.json", "[gpt]") {
  for (TransformerOptions options : {small_gpt2(), small_llama()}) {
    options.dropout = 0.25;
    options.embedding_dropout = 0.5;
    options.attention_dropout = 0.125;
    const TemporaryFolder folder;
    const TransformerOptions found = load_saved(options, folder.path());
    CHECK(found.dropout == 0.25);
    CHECK(found.embedding_dropout == 0.5);
    CHECK(found.attention_dropout == 0.125);
  }
}

TEST_CASE("the names in a file are those of GPT2LMHeadModel", "[gpt]") {
  TransformerOptions options = small_gpt2();
  options.tied = false;
  const TemporaryFolder folder;
  GPT model(options);
  save_gpt(model, folder.path());
  const SafetensorsFile file(folder.path() / "model.safetensors");
  for (const auto& entry : file.entries()) {
    INFO(entry.name);
    CHECK((entry.name == "lm_head.weight" || entry.name.starts_with("transformer.")));
  }
  CHECK(file.entry("lm_head.weight").shape == file.entry("transformer.wte.weight").shape);
}

TEST_CASE("the weights of another model are refused: what is missing, left over, of another shape", "[gpt]") {
  const TemporaryFolder folder;
  GPT model(small_gpt2());
  save_gpt(model, folder.path());
  const std::filesystem::path path = folder.path() / "model.safetensors";
  std::vector<NamedTensor> tensors = tensors_of(path);
  for (NamedTensor& tensor : tensors) {
    if (tensor.name == "transformer.wpe.weight") tensor.tensor = zeros({7, 8});
    if (tensor.name == "transformer.ln_f.bias") tensor.name = "transformer.ln_g.bias";
  }
  save_safetensors(path, tensors);
  CHECK_THROWS_WITH(
      load_gpt(folder.path()),
      ContainsSubstring("missing: 'ln_f.bias'; not expected: 'ln_g.bias'; of another shape: 'wpe.weight' "
                        "[7, 8] instead of [6, 8]"));
}

TEST_CASE("a config.json that this library cannot follow is refused by its file and member", "[gpt]") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "config.json";
  const auto refusal = [&](const std::string& text) {
    write_text(path, text);
    return error_of([&] { read_transformer_config(folder.path()); });
  };
  CHECK_THAT(refusal("{"), ContainsSubstring("config.json"));
  CHECK_THAT(refusal(R"({"model_type": "bert"})"),
             ContainsSubstring("'model_type' is 'bert', expected gpt2 or llama"));
  CHECK_THAT(refusal(R"({"model_type": "gpt2"})"), ContainsSubstring("'vocab_size' is missing"));
  CHECK_THAT(refusal(R"({"model_type": "gpt2", "vocab_size": "many"})"), ContainsSubstring("'vocab_size'"));
  const std::string gpt2 =
      R"({"model_type": "gpt2", "vocab_size": 9, "n_positions": 4, "n_embd": 8, "n_layer": 1, "n_head": 2)";
  CHECK(refusal(gpt2 + "}").empty());
  CHECK_THAT(refusal(gpt2 + R"(, "activation_function": "relu"})"),
             ContainsSubstring("the activation is 'relu'"));
  CHECK_THAT(refusal(gpt2 + R"(, "scale_attn_by_inverse_layer_idx": true})"),
             ContainsSubstring("'scale_attn_by_inverse_layer_idx' is true, which is not supported"));
  CHECK_THAT(refusal(gpt2 + R"(, "n_inner": 2000000})"),
             ContainsSubstring("config.json: GPT: hidden: expected 1 to 1048576, found 2000000"));
  CHECK_THAT(refusal(gpt2 + R"(, "attn_pdrop": 1.5})"),
             ContainsSubstring("config.json: GPT: a dropout must be at least 0 and below 1, found 1.5"));
}

TEST_CASE("config.json has a dropout for the embeddings, one for the attention and one for the rest",
          "[gpt]") {
  const TemporaryFolder folder;
  TransformerOptions options = small_gpt2();
  options.dropout = 0.3;
  options.attention_dropout = 0.2;
  GPT model(options);
  save_gpt(model, folder.path());
  const Json config = Json::parse(read_text(folder / "config.json"), "");
  CHECK(config.at("resid_pdrop").as_double() == 0.3);
  CHECK(config.at("embd_pdrop").as_double() == 0.3);
  CHECK(config.at("attn_pdrop").as_double() == 0.2);
  const TransformerOptions found = load_gpt(folder.path())->options();
  CHECK(found.dropout == 0.3);
  CHECK(found.embedding_dropout == 0.3);
  CHECK(found.attention_dropout == 0.2);
  const TransformerOptions replaced = load_gpt(folder.path(), 0.1)->options();
  CHECK(replaced.dropout == 0.1);
  CHECK_FALSE(replaced.attention_dropout.has_value());
}

TEST_CASE("Llama's config.json has a dropout for the attention, and ours for the rest", "[gpt]") {
  const TemporaryFolder folder;
  TransformerOptions options = small_llama();
  CHECK(load_saved(options, folder.path()).attention_dropout == 0);
  options.attention_dropout = 0.25;
  CHECK(load_saved(options, folder.path()).attention_dropout == 0.25);
  CHECK(load_saved(options, folder.path()).dropout == 0);
  options.dropout = 0.125;
  CHECK(load_saved(options, folder.path()).dropout == 0.125);
  CHECK(load_saved(options, folder.path()).attention_dropout == 0.25);
  const std::string text = read_text(folder / "config.json");
  const std::string member = "\"attention_dropout\": 0.25";
  REQUIRE(text.find(member) != std::string::npos);
  for (const auto& [value, reason] : {std::pair{"1", "a dropout must be at least 0 and below 1, found 1"},
                                      std::pair{"\"some\"", "'attention_dropout': "}}) {
    std::string other = text;
    write_text(folder / "config.json",
               other.replace(text.find(member), member.size(), "\"attention_dropout\": "s + value));
    CHECK_THAT(error_of([&] { load_gpt(folder.path()); }), ContainsSubstring(reason));
  }
}

TEST_CASE("weights are compared with config.json before a model of its size is created", "[gpt]") {
  const TemporaryFolder folder;
  GPT model(small_gpt2());
  save_gpt(model, folder.path());
  // 8 TB of parameters.
  write_text(folder / "config.json",
             R"({"model_type": "gpt2", "vocab_size": 11, "n_positions": 6, "n_embd": 4096,
                                         "n_layer": 10000, "n_head": 32})");
  const std::string error = error_of([&] { load_gpt(folder.path()); });
  CHECK_THAT(error, ContainsSubstring("missing: 'h.2.ln_1.weight', "));
  CHECK_THAT(error, ContainsSubstring("of another shape: 'wte.weight' [11, 8] instead of [11, 4096]"));
}

TEST_CASE("a model of neither shape is not written", "[gpt]") {
  const TemporaryFolder folder;
  TransformerOptions options = small_gpt2();
  options.mlp = MlpKind::swiglu;
  GPT model(options);
  CHECK_THROWS_WITH(save_gpt(model, folder.path() / "model"),
                    ContainsSubstring("transformers has no such model"));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "model"));
}

}  // namespace
}  // namespace ringtape::test
