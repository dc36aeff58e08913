#include "io/safetensors.h"
#include "nn/gpt.h"
#include "nn/init.h"
#include "nn/lora.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tensors.h"
#include "text/character_tokenizer.h"
#include "text/token_dataset.h"
#include "train/trainer.h"

namespace ringtape::test {
namespace {

std::shared_ptr<const TokenDataset> letters() {
  const CharacterTokenizer tokenizer("abcde");
  const Tokens tokens(tokenizer.encode("abcadbacbeadbecabdbaecadbcabdeabcedabdc"), tokenizer);
  return std::make_shared<TokenDataset>(tokens, 6, TokenDataset::Windows::all);
}

/// A task with a small GPT, of which the weights that `adapt` leaves unfrozen are trained.
Task task_of(const std::function<void(GPT&)>& adapt = nullptr, double first_value = 0) {
  Task task = language_model_task("letters", letters(), letters());
  task.make_model = [adapt, first_value] {
    const auto model = std::make_shared<GPT>(
        TransformerOptions{.vocabulary = 5, .context = 6, .layers = 2, .heads = 2, .width = 8});
    // As large as a trained model's weights: the output layer, which shares them, is not adapted.
    init::normal(model->parameter("wte.weight"), 1);
    if (first_value != 0) {
      model->parameter("ln_f.bias").copy_from(full({8}, first_value));
    }
    if (adapt) adapt(*model);
    return model;
  };
  return task;
}

void add_lora_of_rank_2(GPT& model) {
  add_lora(model, {.rank = 2, .targets = {"h.*.c_attn", "h.*.c_fc"}});
}

TrainerOptions run(std::int64_t steps, const std::filesystem::path& checkpoints = "") {
  TrainerOptions options;
  options.device = Device{};
  options.observation.quiet = true;
  options.data = {.epochs = 30, .max_steps = steps, .batch_size = 8, .eval_batch_size = 8, .seed = 3};
  options.optimizer.learning_rate = 0.02;
  options.schedule.kind = ScheduleKind::constant;
  options.checkpoint.folder = checkpoints;
  return options;
}

std::vector<std::pair<std::string, std::vector<double>>> values_of(Module& model) {
  std::vector<std::pair<std::string, std::vector<double>>> values;
  for (const auto& [name, tensor] : model.named_parameters()) values.emplace_back(name, tensor->to_doubles());
  return values;
}

TEST_CASE("training LoRA alone lowers the loss and leaves the other weights", "[train][lora]") {
  Trainer trainer(task_of(add_lora_of_rank_2), run(60));
  const auto before = values_of(trainer.model());
  const double loss = trainer.evaluate().loss;
  CHECK(trainer.train().test.loss < 0.9 * loss);
  const auto after = values_of(trainer.model());
  for (std::size_t i = 0; i < before.size(); ++i) {
    INFO(before[i].first);
    const bool is_lora = before[i].first.find(".lora.") != std::string::npos;
    CHECK((before[i].second != after[i].second) == is_lora);
  }
}

TEST_CASE(
    "a run that trains LoRA alone stops and resumes to the same bits from checkpoints without the model",
    "[train][lora]") {
  const TemporaryFolder folder;
  Trainer whole(task_of(add_lora_of_rank_2), run(13));
  whole.train();
  Trainer first(task_of(add_lora_of_rank_2), run(7, folder / "run"));
  first.train();
  std::size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder / "run")) {
    if (file.path().extension() != ".safetensors") continue;
    ++files;
    const SafetensorsFile tensors(file.path());
    for (const SafetensorsFile::Entry& entry : tensors.entries()) {
      if (entry.name.starts_with("model.")) CHECK_THAT(entry.name, ContainsSubstring(".lora."));
    }
  }
  CHECK(files == 1);
  TrainerOptions rest = run(13, folder / "run");
  rest.checkpoint.resume = true;
  Trainer second(task_of(add_lora_of_rank_2), rest);
  second.train();
  CHECK(values_of(second.model()) == values_of(whole.model()));
  Trainer other(task_of(add_lora_of_rank_2, 0.5), rest);
  CHECK_THROWS_WITH(other.train(), ContainsSubstring("frozen weights was CRC-32"));
}

TEST_CASE("--freeze and --train-only can choose the same parameters", "[train]") {
  TrainerOptions frozen = run(10), only = run(10);
  frozen.model.freeze = {"w*", "h.0.*", "h.1.ln*", "h.1.attn.*", "ln_f.*"};
  only.model.train_only = {"h.1.mlp.*"};
  Trainer one(task_of(), frozen), other(task_of(), only);
  const auto before = values_of(one.model());
  one.train();
  other.train();
  const auto after = values_of(one.model());
  CHECK(after == values_of(other.model()));
  for (std::size_t i = 0; i < before.size(); ++i) {
    CHECK((before[i].second != after[i].second) == before[i].first.starts_with("h.1.mlp."));
  }
  only.model.train_only = {"h.7.*"};
  CHECK_THROWS_WITH(Trainer(task_of(), only),
                    ContainsSubstring("no parameter matches 'h.7.*': near are h.0."));
  only.model = frozen.model;
  only.model.train_only = {"h.1.*"};
  CHECK_THROWS_WITH(Trainer(task_of(), only), ContainsSubstring("--train-only cannot be used with --freeze"));
}

}  // namespace
}  // namespace ringtape::test
