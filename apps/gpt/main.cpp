// Trains a GPT on a text, and writes text with it.
#include "apps/gpt/commands.h"

int main(int argc, char** argv) {
  ringtape::CommandLine app(
      "Trains a GPT on a text, and writes text with it.\n"
      "Example: gpt train --save-model model; gpt generate --model model --prompt \"To be\"\n"
      "gpt COMMAND --help lists the flags of a command.");
  ringtape::gpt::add_train_command(app);
  ringtape::gpt::add_generate_command(app);
  ringtape::gpt::add_evaluate_command(app);
  ringtape::gpt::add_tokenize_command(app);
  return app.run(argc, argv);
}
