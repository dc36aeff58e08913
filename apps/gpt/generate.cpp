#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "apps/gpt/commands.h"
#include "apps/gpt/text_model.h"
#include "apps/gpt/write_text.h"
#include "nn/arena.h"

namespace ringtape::gpt {
namespace {

struct GenerateCommand {
  explicit GenerateCommand(CommandLine& flags) {
    flags.file("--model", model, "folder of the model", "DIR").required();
    flags.option("--prompt", prompt, "the beginning of the text");
    flags.option("--tokens", between(options.tokens, 1, 1e9), "tokens to write");
    flags.option("--temperature", between(options.sampling.temperature, 0, 1e9),
                 "divides the logits; 0: always the likeliest token");
    flags.option("--top-k", not_negative(options.sampling.top_k), "only the likeliest tokens; 0: all");
    flags.option("--top-p", options.sampling.top_p, "only the likeliest tokens of this probability in all");
    flags.option("--seed", options.sampling.seed, "of the random numbers");
    flags.option("--stop", stop, "text at which to stop");
    flags.option("--device", device, "cpu, cuda, cuda:N or auto");
  }

  void run() {
    const TokenSampler check_options(options.sampling);
    const TextModel loaded = load_text_model(model);
    loaded.model->eval();
    const ParameterArena arena(*loaded.model, Device::parse(device));
    write_text(*loaded.model, *loaded.tokenizer, prompt, options, stop);
  }

  std::string model, prompt = "\n", stop, device = "auto";
  GenerationOptions options;
};

}  // namespace

void add_generate_command(CommandLine& app) {
  const auto command = std::make_shared<std::shared_ptr<GenerateCommand>>();
  CommandLine& flags = app.command("generate", "write text with a model", [command] { (*command)->run(); });
  *command = std::make_shared<GenerateCommand>(flags);
}

}  // namespace ringtape::gpt
