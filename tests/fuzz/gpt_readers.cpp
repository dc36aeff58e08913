#include "tests/fuzz/gpt_readers.h"

#include <fstream>

#include "nn/gpt_estimate.h"
#include "nn/hugging_face.h"
#include "tests/fuzz/error_of.h"

namespace ringtape::fuzz {

std::optional<std::string> read_gpt_config(const std::string& input, const std::filesystem::path& folder) {
  std::ofstream(folder / "config.json", std::ios::binary) << input;
  return error_of([&folder] {
    const TransformerOptions options = read_transformer_config(folder);
    GPT::check_options(options);
    expect(options.width == options.heads * options.head_size(), "heads that do not fill the width");
  });
}

std::optional<std::string> read_gpt(const std::string& input, const std::filesystem::path& folder,
                                    const std::string& file) {
  std::ofstream(folder / file, std::ios::binary) << input;
  return error_of([&folder] {
    const std::shared_ptr<GPT> model = load_gpt(folder);
    std::int64_t elements = 0;
    for (const NamedParameter& parameter : model->named_parameters())
      elements += parameter.tensor->elements();
    expect(elements == parameter_count(model->options()), "a model of another size than its options");
  });
}

}  // namespace ringtape::fuzz
