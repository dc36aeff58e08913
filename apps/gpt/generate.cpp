#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "apps/gpt/commands.h"
#include "apps/gpt/text_model.h"
#include "apps/gpt/write_text.h"
#include "core/error.h"
#include "io/parse.h"
#include "nn/arena.h"

namespace ringtape::gpt {
namespace {

/// The lines of a file, none of which may be empty, without the byte order mark and the carriage returns that
/// Windows writes.
std::vector<std::string> lines_of(const std::string& file) {
  const std::string text = read_text(file), mark = "\xEF\xBB\xBF";
  std::vector<std::string> lines = split(text.substr(text.starts_with(mark) ? mark.size() : 0), '\n');
  if (lines.size() > 1 && lines.back().empty()) lines.pop_back();  // after the last line's end
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].ends_with('\r')) lines[i].pop_back();
    check(!lines[i].empty(), "{}: line {} is empty, expected a prompt in each line", name_of_text(file),
          i + 1);
  }
  return lines;
}

struct GenerateCommand {
  explicit GenerateCommand(CommandLine& flags) {
    flags.file("--model", model, "folder of the model", "DIR").required();
    flags.repeated(
        "--prompt", prompts,
        "the beginning of the text; if given several times, a text is written for each [a new line]");
    flags
        .option("--prompts", file_or_dash_value(file),
                "file with a prompt in each line, instead of --prompt; -: standard input")
        .excludes(flags["--prompt"]);
    flags.option("--tokens", between(options.tokens, 1, 1e9), "tokens to write");
    flags.option("--temperature", between(options.sampling.temperature, 0, 1e9),
                 "divisor of the logits; 0: always the likeliest token");
    flags.option("--top-k", not_negative(options.sampling.top_k),
                 "draw only from this number of likeliest tokens; 0: all");
    flags.option("--top-p", between(options.sampling.top_p, 1e-9, 1),
                 "draw only from the likeliest tokens whose probabilities add up to this (nucleus sampling)");
    flags.option("--seed", options.sampling.seed,
                 "seed of the random numbers; the n-th text has this seed + n - 1");
    flags.option("--stop", stop, "text at which to stop");
    flags.option("--device", device, kDeviceHelp);
  }

  void run() const {
    const TokenSampler check_options(options.sampling);
    const std::vector<std::string> all = file.empty() ? prompts : lines_of(file);
    const TextModel loaded = load_text_model(model);
    // Check all prompts before the first text, which may take minutes.
    std::vector<std::vector<std::int32_t>> tokens;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string name =
          file.empty() ? "--prompt" : fmt::format("{}: line {}", name_of_text(file), i + 1);
      named(name, [&] {
        tokens.push_back(loaded.tokenizer->encode(all[i]));
        check_prompt(*loaded.model, tokens.back());
      });
    }
    loaded.model->eval();
    const ParameterArena arena(*loaded.model, device_or_auto(device));
    GenerationOptions own = options;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0) fmt::print("\n");
      own.sampling.seed = options.sampling.seed + i;
      print_text(*loaded.model, *loaded.tokenizer, tokens[i], own, stop);
    }
  }

  std::string model, file, stop;
  std::optional<Device> device;
  std::vector<std::string> prompts = {"\n"};
  GenerationOptions options;
};

}  // namespace

void add_generate_command(CommandLine& app) {
  const auto command = std::make_shared<std::shared_ptr<GenerateCommand>>();
  CommandLine& flags = app.command("generate", "write text with a model", [command] { (*command)->run(); });
  *command = std::make_shared<GenerateCommand>(flags);
}

}  // namespace ringtape::gpt
