#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "nn/gpt.h"
#include "text/token_dataset.h"
#include "text/tokenizer.h"
#include "train/option_value.h"

/// A folder with a model and its tokenizer: config.json and model.safetensors in Hugging Face's formats
/// (nn/hugging_face.h), and tokenizer.txt in this program's format. A folder without tokenizer.txt uses
/// GPT-2's tokenizer.
namespace ringtape::gpt {

/// "characters", "bytes" or "gpt2" (byte pairs).
OptionValue tokenizer_value(TokenizerKind& kind);

/// A tokenizer of this kind, GPT-2's for byte pairs; a CharacterTokenizer takes its characters from `text`.
std::shared_ptr<const Tokenizer> make_tokenizer(TokenizerKind kind, std::string_view text);

/// The tokenizer of a folder. The first line of tokenizer.txt is the kind; for "characters" the characters
/// follow. Throws Error for another first line.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& folder);

/// A GPT and its tokenizer, as in a folder of --save-model.
struct TextModel {
  std::shared_ptr<GPT> model;
  std::shared_ptr<const Tokenizer> tokenizer;
};
/// Loads both. `dropout` replaces the dropout in config.json. Throws Error as load_gpt() does, and if the
/// vocabulary sizes differ; with GPT-2's tokenizer the model may have up to 1000 more rows.
TextModel load_text_model(const std::filesystem::path& folder, std::optional<double> dropout = std::nullopt);

/// Saves model and tokenizer with save_gpt(): both or neither. Throws Error as save_gpt() does.
void save_text_model(GPT& model, const Tokenizer& tokenizer, const std::filesystem::path& folder);
/// Throws Error if save_text_model() could not write the folder; leaves nothing behind.
void check_save_text_model(const TransformerOptions& options, const std::filesystem::path& folder);

/// The text of a file, of standard input if `file` is "-", or tinyshakespeare if it is empty. Throws Error if
/// there is no text.
std::string read_text(const std::string& file);
/// "tinyshakespeare", "standard input" or `file`, for messages about the text of read_text().
std::string name_of_text(const std::string& file);

/// The result of `read`; the messages of its errors begin with `name`.
template <class Read>
auto named(const std::string& name, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    fail("{}: {}", name, error.what());
  }
}

/// make_tokenizer() for `text`, which is that of `file`, and the tokens of `text`. Errors name the file.
std::shared_ptr<const Tokenizer> make_tokenizer_for(const std::string& file, TokenizerKind kind,
                                                    std::string_view text);
Tokens encode(const std::string& file, std::string_view text, const Tokenizer& tokenizer);

/// The first 90% of the tokens for training, the rest for validation. If each character is a token, this is
/// nanoGPT's split.
struct Split {
  Tokens train, validation;
};
Split split_of(const Tokens& tokens);

}  // namespace ringtape::gpt
