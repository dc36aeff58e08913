#include "nn/hugging_face.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "core/quote.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "nn/gpt_estimate.h"
#include "nn/hugging_face_config.h"
#include "nn/hugging_face_names.h"
#include "nn/init.h"
#include "nn/lora.h"

namespace ringtape {
namespace {

const char* const kWeights = "model.safetensors";
const char* const kIndex = "model.safetensors.index.json";
/// The name of GPT-2 in GPT2LMHeadModel. Files of a GPT2Model do not have it.
const std::string kBody = "transformer.";

/// The tensors of all files of a folder, by name without kBody. As in transformers, shards are read only if
/// there is no model.safetensors.
class WeightFiles {
 public:
  explicit WeightFiles(const std::filesystem::path& folder) : folder_(folder) {
    const std::filesystem::path index = folder / kIndex;
    if (!std::filesystem::exists(folder / kWeights) && std::filesystem::exists(index)) {
      add_shards(index);
    } else {
      add(kWeights);
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
      const bool is_of_body = entry.name.starts_with(kBody);
      const std::string name = is_of_body ? entry.name.substr(kBody.size()) : entry.name;
      const bool is_new = entries_.insert({name, {files_.back().get(), entry.name}}).second;
      check(is_new, "{}: tensor {} is there twice", folder_.string(), quote(name));
    }
    return *files_.back();
  }

  void add_shards(const std::filesystem::path& index) {
    const Json json = read_json(index);
    const Json* map = json.find("weight_map");
    check(map != nullptr && map->is_object(), "{}: 'weight_map' is missing", index.string());
    std::map<std::string, const SafetensorsFile*> shards;
    for (const auto& [name, file] : map->as_object()) {
      check(file.is_string(), "{}: the file of tensor {} is not a string", index.string(), quote(name));
      const std::string shard = file.as_string();
      check(std::filesystem::path(shard).filename() == shard,
            "{}: {} is not the name of a file in the folder", index.string(), quote(shard));
      if (!shards.contains(shard)) shards[shard] = &add(shard);
      const auto& entries = shards[shard]->entries();
      check(
          std::any_of(entries.begin(), entries.end(), [&](const auto& entry) { return entry.name == name; }),
          "{}: tensor {} is not in {}", index.string(), quote(name), shard);
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

/// Whether a GPT-2 whose config.json says that it has no biases has some nevertheless: save_gpt() writes
/// biases of zero, and another library may train them.
bool has_biases(TransformerOptions options, const WeightFiles& files) {
  options.bias = true;
  for (const WeightSource& source : weight_sources(options)) {
    for (const std::string& name : source.tensors) {
      if (!name.ends_with(".bias") || files.find(name) == nullptr) continue;
      const std::vector<float> values = files.load(name).to_vector<float>();
      if (std::any_of(values.begin(), values.end(), [](float value) { return value != 0; })) return true;
    }
  }
  return false;
}

/// The shape that tensor number `part` of a source has in the file, for a parameter of this many elements.
Shape shape_of(const WeightSource& source, std::size_t part, std::int64_t elements) {
  if (source.rows.empty()) return {elements};
  const std::int64_t rows = source.rows[part];
  const std::int64_t columns =
      elements / std::accumulate(source.rows.begin(), source.rows.end(), std::int64_t{0});
  return source.transposed ? Shape{columns, rows} : Shape{rows, columns};
}

/// Throws Error unless the files have the weights of a model with these options.
void check_weights(const TransformerOptions& options, const WeightFiles& files, const std::string& folder) {
  std::vector<std::string> missing, extra, different;
  std::set<std::string> expected;
  const std::vector<WeightSource> sources = weight_sources(options);
  const std::vector<std::int64_t> sizes = parameter_sizes(options);  // in the same order
  for (std::size_t parameter = 0; parameter < sources.size(); ++parameter) {
    const WeightSource& source = sources[parameter];
    for (std::size_t i = 0; i < source.tensors.size(); ++i) {
      const std::string& name = source.tensors[i];
      expected.insert(name);
      const SafetensorsFile::Entry* entry = files.find(name);
      const Shape shape = shape_of(source, i, sizes[parameter]);
      if (entry == nullptr) {
        missing.push_back(quote(name));
      } else if (entry->shape != shape) {
        different.push_back(
            fmt::format("{} {} instead of {}", quote(name), to_string(entry->shape), to_string(shape)));
      } else {
        check(entry->dtype && is_floating(*entry->dtype), "{}: tensor '{}' is {}, expected f32, bf16 or f16",
              folder, name, entry->dtype_name);
      }
    }
  }
  for (const std::string& name : files.names()) {
    const bool zero_bias = is_gpt2(options) && !options.bias && name.ends_with(".bias");
    if (!expected.contains(name) && !zero_bias && !may_be_ignored(name, options))
      extra.push_back(quote(name));
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

/// The transpose of a matrix on the CPU.
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

std::shared_ptr<GPT> load_gpt(const std::filesystem::path& folder, std::optional<double> dropout) {
  const NoGrad no_grad;
  TransformerOptions options = read_transformer_config(folder);
  if (dropout) {
    options.dropout = *dropout;
    options.embedding_dropout = options.attention_dropout = std::nullopt;
  }
  // Before the model is made: config.json may describe a model far larger than the files.
  const WeightFiles files(folder);
  if (is_gpt2(options) && !options.bias) options.bias = has_biases(options, files);
  check_weights(options, files, folder.string());
  const init::Skip skip;
  const auto model = std::make_shared<GPT>(options);
  for (const WeightSource& source : weight_sources(options)) {
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
        "{}: transformers has no such model: expected the shape of GPT-2 (layer norms, learned positions, "
        "equal numbers of heads of keys and of queries) or of Llama (RMS norms, rotary positions, SwiGLU, no "
        "biases)",
        folder.string());
  const NewFolder made(folder);
  for (const char* name : {kWeights, "config.json"}) {
    const AtomicFile probe(folder / name);  // throws if it cannot be written; nothing is changed
  }
}

void save_gpt(GPT& model, const std::filesystem::path& folder,
              const std::map<std::string, std::string>& texts) {
  const NoGrad no_grad;
  const TransformerOptions& options = model.options();
  check_save_gpt(options, folder);
  check(!has_unmerged_lora(model),
        "{}: the model has LoRA products that are not in its weights: expected merge_lora() first",
        folder.string());
  // GPT-2's layers have biases, its embeddings have none.
  const auto lacks_bias = [&](const WeightSource& source) {
    return is_gpt2(options) && !options.bias &&
           (source.parameter.starts_with("h.") || source.parameter.starts_with("ln_f."));
  };
  std::vector<NamedTensor> tensors;
  const auto add = [&](const std::string& name, const Tensor& tensor) {
    const bool is_of_body = is_gpt2(options) && name != "lm_head.weight";
    tensors.push_back({is_of_body ? kBody + name : name, tensor});
  };
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
      add(source.tensors[i], part);
      if (lacks_bias(source)) {
        const std::string layer = source.parameter.substr(0, source.parameter.rfind('.'));
        add(layer + ".bias", zeros({value.size(0)}));
      }
    }
  }
  NewFolder made(folder);
  std::deque<AtomicFile> files;
  write_safetensors(files.emplace_back(folder / kWeights), tensors, {{"format", "pt"}});
  const auto write = [&](const std::string& name, const std::string& text) {
    files.emplace_back(folder / name).write(text.data(), text.size());
  };
  write("config.json", config_of(options).dump(2) + "\n");
  for (const auto& [name, text] : texts) write(name, text);
  for (AtomicFile& file : files) file.finish();
  for (AtomicFile& file : files) file.commit();
  std::error_code ignored;
  std::filesystem::remove(folder / kIndex, ignored);  // of shards that were here before
  made.keep();
}

}  // namespace ringtape
