#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "apps/gpt/commands.h"
#include "apps/gpt/text_model.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "core/numbers.h"
#include "data/loader.h"
#include "nn/arena.h"

namespace ringtape::gpt {
namespace {

struct EvaluateCommand {
  explicit EvaluateCommand(CommandLine& flags) {
    flags.file("--model", model, "folder of the model", "DIR").required();
    flags.option("--text", file_or_dash_value(file),
                 "file with the text; -: standard input [tinyshakespeare]");
    flags.option("--whole", whole, "evaluate the whole text, not only its last 10%");
    flags.option("--eval-batch-size", between(batch_size, 1, 1 << 20), "sequences in a forward pass");
    flags.option("--device", device, kDeviceHelp);
  }

  void run() const {
    const NoGrad no_grad;
    const TextModel loaded = load_text_model(model);
    loaded.model->eval();
    const Device on = device_or_auto(device);
    const ParameterArena arena(*loaded.model, on);
    const std::string text = read_text(file);
    const Tokens all = encode(file, text, *loaded.tokenizer);
    const Tokens tokens = whole ? all : split_of(all).validation;
    check(tokens.size() >= 2, "{}: found {}, expected at least 2", name_of_text(file),
          counted(tokens.size(), "token"));
    const std::int64_t length = std::min(loaded.model->options().context, tokens.size() - 1);
    const auto data = std::make_shared<TokenDataset>(tokens, length, TokenDataset::Windows::consecutive);
    DataLoader loader(data, std::make_shared<SequentialSampler>(data->size()),
                      {.batch_size = batch_size, .device = on});
    loader.start_epoch(0);
    double sum = 0;
    while (const std::optional<Batch> batch = loader.next()) {
      const auto [x, y] = batch->to(on);
      const Tensor logits = (*loaded.model)(x);
      sum += cross_entropy(view(logits, {-1, logits.size(2)}), view(y, {-1}),
                           {.reduction = Reduction::sum, .ignore_index = kIgnoredTarget})
                 .item();
    }
    check_indices(on);
    check(std::isfinite(sum), "the loss of {} on {} is not finite: found {}", model, name_of_text(file), sum);
    const auto targets = static_cast<double>(tokens.size() - 1);
    fmt::print("loss {:.4f}, perplexity {:.3f} over {}\n", sum / targets, std::exp(sum / targets),
               counted(tokens.size() - 1, "token"));
  }

  std::string model, file;
  std::optional<Device> device;
  bool whole = false;
  std::int64_t batch_size = 16;
};

}  // namespace

void add_evaluate_command(CommandLine& app) {
  const auto command = std::make_shared<std::shared_ptr<EvaluateCommand>>();
  CommandLine& flags =
      app.command("evaluate", "the loss of a model on a text", [command] { (*command)->run(); });
  *command = std::make_shared<EvaluateCommand>(flags);
}

}  // namespace ringtape::gpt
