#include <fmt/format.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/gpt/commands.h"
#include "apps/gpt/text_model.h"
#include "core/numbers.h"

namespace ringtape::gpt {
namespace {

/// A token in quotation marks; bytes that are not printable ASCII appear as \xNN.
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
    flags.option("--tokenizer", tokenizer_value(tokenizer),
                 "characters: one token for each character of the text; bytes; gpt2: its byte pairs");
    flags.option("--text", file_or_dash_value(file),
                 "file with the text; -: standard input [tinyshakespeare]");
    Flag prompt_flag = flags.option("--prompt", prompt, "a text, instead of a file");
    prompt_flag.excludes(flags["--text"]);
    has_prompt = [prompt_flag] { return prompt_flag.is_given(); };
    flags.file("--model", model, "folder of a model, for its tokenizer", "DIR")
        .excludes(flags["--tokenizer"]);
    flags.option("--count", count, "print only the number of tokens");
  }

  void run() const {
    const std::string text = has_prompt() ? prompt : read_text(file);
    const std::string name = has_prompt() ? "--prompt" : name_of_text(file);
    const std::shared_ptr<const Tokenizer> chosen =
        model.empty() ? named(name, [&] { return make_tokenizer(tokenizer, text); }) : load_tokenizer(model);
    const std::vector<std::int32_t> ids = named(name, [&] { return chosen->encode(text); });
    if (count) {
      fmt::print("{}, {} of {}\n", counted(std::ssize(text), "byte"), counted(std::ssize(ids), "token"),
                 chosen->name());
      return;
    }
    for (const std::int32_t id : ids) fmt::print("{:>6}  {}\n", id, quoted(chosen->token(id)));
  }

  TokenizerKind tokenizer = TokenizerKind::byte_pairs;
  std::string file, prompt, model;
  std::function<bool()> has_prompt;
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
