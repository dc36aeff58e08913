#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "apps/gpt/commands.h"
#include "apps/gpt/text_model.h"

namespace ringtape::gpt {
namespace {

/// A token as text in quotation marks; bytes that are no printable ASCII as \xNN.
std::string quoted(const std::string& token) {
  std::string text = "\"";
  for (const char c : token) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += {'\\', c};
    } else if (byte >= 0x20 && byte < 0x7f) {
      text += c;
    } else {
      text += fmt::format("\\x{:02x}", byte);
    }
  }
  return text + "\"";
}

struct TokenizeCommand {
  explicit TokenizeCommand(CommandLine& flags) {
    flags.option("--tokenizer", word(tokenizer, kTokenizerKinds),
                 "characters: those of the text itself; bytes; gpt2: its byte pairs");
    flags.file("--text", file, "file with the text [tinyshakespeare]");
    flags.option("--prompt", prompt, "a text instead of the file").excludes(flags["--text"]);
    flags.option("--count", count, "print only the number of tokens");
  }

  void run() const {
    const std::string text = prompt.empty() ? read_text(file) : prompt;
    const std::shared_ptr<const Tokenizer> chosen = make_tokenizer(tokenizer, text);
    const std::vector<std::int32_t> ids = chosen->encode(text);
    if (count) {
      fmt::print("{} bytes, {} tokens of {}\n", text.size(), ids.size(), chosen->name());
      return;
    }
    for (const std::int32_t id : ids) fmt::print("{:>6}  {}\n", id, quoted(chosen->token(id)));
  }

  std::string tokenizer = "gpt2", file, prompt;
  bool count = false;
};

}  // namespace

void add_tokenize_command(CommandLine& app) {
  const auto command = std::make_shared<std::shared_ptr<TokenizeCommand>>();
  CommandLine& flags =
      app.command("tokenize", "show a text's tokens and their ids", [command] { (*command)->run(); });
  *command = std::make_shared<TokenizeCommand>(flags);
}

}  // namespace ringtape::gpt
