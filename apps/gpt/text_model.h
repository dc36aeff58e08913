#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nn/gpt.h"
#include "text/token_dataset.h"
#include "text/tokenizer.h"

/// A model with its tokenizer, in a folder: config.json and model.safetensors as Hugging Face has them
/// (nn/hugging_face.h), and tokenizer.txt of this program. A folder without a tokenizer.txt is GPT-2's.
namespace ringtape::gpt {

/// The names of --tokenizer.
inline const std::vector<std::string> kTokenizerKinds = {"characters", "bytes", "gpt2"};

/// A tokenizer of one of these kinds; `text` gives the characters.
std::shared_ptr<const Tokenizer> make_tokenizer(const std::string& kind, std::string_view text);

/// The first line of tokenizer.txt is the kind; the characters, where it has that kind, follow.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& folder);

/// A GPT and the tokenizer of its text, as a folder of `--save-model` has them.
struct TextModel {
  std::shared_ptr<GPT> model;
  std::shared_ptr<const Tokenizer> tokenizer;
};
/// Throws Error where the vocabularies differ, besides what load_gpt() throws; of GPT-2's tokens the model
/// may have some rows more.
TextModel load_text_model(const std::filesystem::path& folder, std::optional<double> dropout = std::nullopt);

/// Saves model and tokenizer with save_gpt(), or neither. Throws Error as it does.
void save_text_model(GPT& model, const Tokenizer& tokenizer, const std::filesystem::path& folder);
/// Throws Error if save_text_model() would, and leaves nothing behind.
void check_save_text_model(const TransformerOptions& options, const std::filesystem::path& folder);

/// The text of a file, or tinyshakespeare if `file` is empty. Throws Error for a file without text.
std::string read_text(const std::string& file);

/// make_tokenizer() for read_text(file), and its tokens. Errors name the file.
std::shared_ptr<const Tokenizer> make_tokenizer_for(const std::string& file, const std::string& kind,
                                                    std::string_view text);
Tokens encode(const std::string& file, std::string_view text, const Tokenizer& tokenizer);

/// The first 90% of the tokens, and the rest, for training and validation: nanoGPT's split where each
/// character is a token.
struct Split {
  Tokens train, validation;
};
Split split_of(const Tokens& tokens);

}  // namespace ringtape::gpt
