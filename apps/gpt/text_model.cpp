#include "apps/gpt/text_model.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.h"
#include "io/file.h"
#include "nn/hugging_face.h"
#include "text/byte_tokenizer.h"
#include "text/character_tokenizer.h"
#include "text/gpt2.h"
#include "text/tinyshakespeare.h"

namespace ringtape::gpt {
namespace {

std::string text_of(const std::filesystem::path& path) {
  const std::vector<std::uint8_t> bytes = read_file_or_standard_input(path);
  return {bytes.begin(), bytes.end()};
}

const char* const kTokenizerFile = "tokenizer.txt";

std::string text_of(const Tokenizer& tokenizer) {
  TokenizerKind kind = tokenizer.kind();
  std::string text = tokenizer_value(kind).write() + '\n';
  if (kind == TokenizerKind::characters)
    text += static_cast<const CharacterTokenizer&>(tokenizer).characters();
  return text;
}

}  // namespace

OptionValue tokenizer_value(TokenizerKind& kind) {
  return named_option_value<TokenizerKind>(kind, {{"characters", TokenizerKind::characters},
                                                  {"bytes", TokenizerKind::bytes},
                                                  {"gpt2", TokenizerKind::byte_pairs}});
}

std::shared_ptr<const Tokenizer> make_tokenizer(TokenizerKind kind, std::string_view text) {
  if (kind == TokenizerKind::characters) return std::make_shared<CharacterTokenizer>(text);
  if (kind == TokenizerKind::bytes) return std::make_shared<ByteTokenizer>();
  return gpt2_tokenizer();
}

std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kTokenizerFile;
  if (!std::filesystem::exists(path)) return gpt2_tokenizer();
  const std::vector<std::uint8_t> bytes = read_file(path);
  const std::string text(bytes.begin(), bytes.end());
  const std::size_t line = std::min(text.find('\n'), text.size());
  TokenizerKind kind{};
  named(path.string() + ": the first line", [&] { tokenizer_value(kind).read(text.substr(0, line)); });
  return make_tokenizer(kind, std::string_view(text).substr(std::min(line + 1, text.size())));
}

TextModel load_text_model(const std::filesystem::path& folder, std::optional<double> dropout) {
  TextModel loaded{load_gpt(folder, dropout), load_tokenizer(folder)};
  const std::int64_t tokens = loaded.tokenizer->vocabulary_size();
  const std::int64_t rows = loaded.model->options().vocabulary;
  // Models with GPT-2's tokens often have more rows, up to a round number such as 50304.
  constexpr std::int64_t kMaxUnusedRows = 1000;
  const bool is_gpt2 = loaded.tokenizer->kind() == TokenizerKind::byte_pairs;
  check(tokens == rows || (is_gpt2 && tokens < rows && rows - tokens <= kMaxUnusedRows),
        "{}: the tokenizer{} has {} tokens, the model has {}{}", folder.string(),
        std::filesystem::exists(folder / kTokenizerFile)
            ? ""
            : fmt::format(" (GPT-2's, as there is no {})", kTokenizerFile),
        tokens, rows, is_gpt2 ? fmt::format(", expected at most {} more", kMaxUnusedRows) : "");
  return loaded;
}

void check_save_text_model(const TransformerOptions& options, const std::filesystem::path& folder) {
  const NewFolder made(folder);
  check_save_gpt(options, folder);
  const AtomicFile probe(folder / kTokenizerFile);
}

void save_text_model(GPT& model, const Tokenizer& tokenizer, const std::filesystem::path& folder) {
  save_gpt(model, folder, {{kTokenizerFile, text_of(tokenizer)}});
}

std::string name_of_text(const std::string& file) {
  return file.empty() ? "tinyshakespeare" : input_name(file);
}

std::string read_text(const std::string& file) {
  std::string text = file.empty() ? std::string(tinyshakespeare()) : text_of(file);
  check(!text.empty(), "{}: is empty, expected a text", name_of_text(file));
  return text;
}

std::shared_ptr<const Tokenizer> make_tokenizer_for(const std::string& file, TokenizerKind kind,
                                                    std::string_view text) {
  return named(name_of_text(file), [&] { return make_tokenizer(kind, text); });
}

Tokens encode(const std::string& file, std::string_view text, const Tokenizer& tokenizer) {
  return named(name_of_text(file), [&] { return Tokens(tokenizer.encode(text), tokenizer); });
}

Split split_of(const Tokens& tokens) {
  const std::int64_t training = tokens.size() / 10 * 9 + tokens.size() % 10 * 9 / 10;
  return {tokens.slice(0, training), tokens.slice(training, tokens.size() - training)};
}

}  // namespace ringtape::gpt
