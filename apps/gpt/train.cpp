#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/gpt/commands.h"
#include "apps/gpt/text_model.h"
#include "apps/gpt/write_text.h"
#include "apps/model_flags.h"
#include "cli/train_program.h"
#include "core/divisors.h"
#include "core/error.h"
#include "core/numbers.h"
#include "data/sampler.h"
#include "nn/gpt_estimate.h"
#include "nn/lora.h"
#include "nn/model_file.h"
#include "nn/parameter_shard.h"
#include "train/console.h"

namespace ringtape::gpt {
namespace {

/// nanoGPT's settings for a character-level model on a CPU.
TrainerOptions default_options() {
  TrainerOptions options;
  options.data.epochs = 8;
  options.data.batch_size = 12;
  options.data.eval_batch_size = 64;
  options.optimizer.kind = &optimizer_named("adamw");
  options.optimizer.learning_rate = 1e-3;
  options.optimizer.weight_decay = 0.1;
  options.optimizer.beta2 = 0.99;
  options.optimizer.clip_norm = 1;
  options.schedule.kind = ScheduleKind::cosine;
  options.schedule.final_lr_fraction = 0.1;
  options.schedule.warmup = 100;
  options.schedule.shorten_warmup = true;
  return options;
}

/// nanoGPT's settings for a GPU.
const std::vector<Recipe> kRecipes = {{"shakespeare-gpu",
                                       {{"--layers", "6"},
                                        {"--heads", "6"},
                                        {"--width", "384"},
                                        {"--context", "256"},
                                        {"--dropout", "0.2"},
                                        {"--batch-size", "64"},
                                        {"--epochs", "20"}}}};

struct TrainCommand {
  TrainCommand(CommandLine& flags) : program(flags, default_options(), kRecipes) {
    flags.group("Model");
    model.add(flags);
    flags.option("--dropout", between(model.options.dropout, 0, 0.99), "probability of dropout");
    flags.option(
        "--recompute", not_negative(recompute),
        "keep only the input of each segment of this many blocks and recompute the rest in backward; 0: keep "
        "everything");
    flags.group("Low-rank adaptation");
    flags.option(
        "--lora-rank", not_negative(lora.rank),
        "train only two factors of this rank for the weights of each linear layer of --lora-targets: their "
        "product is added to the weights; the saved model has the sums. 0: train the weights themselves");
    flags
        .option("--lora-alpha", between(lora.alpha, 1e-6, 1e9),
                "the product is multiplied by this value over the rank")
        .needs(flags["--lora-rank"]);
    flags.option("--lora-targets", lora.targets, "names of the linear layers; * stands for any text")
        .needs(flags["--lora-rank"]);
    flags.group("Text");
    flags.option("--text", file_or_dash_value(text),
                 "file with the text to learn, UTF-8; -: standard input; the last 10% are for validation "
                 "[tinyshakespeare, which is inside this program]");
    flags.option("--tokenizer", tokenizer_value(tokenizer),
                 "characters: one token for each character of the text; bytes; gpt2: its byte pairs");
    flags.option("--steps-per-epoch", between(steps_per_epoch, 1, 1e9),
                 "steps between two evaluations on the validation text");
    flags["--epochs"].help(
        "number of times that --steps-per-epoch steps are trained; samples are random parts of the text");
    Flag folder_flag = flags.file("--model", folder,
                                  "folder of a model to continue from, with its shape and tokenizer", "DIR");
    folder_flag.excludes(flags["--tokenizer"]);
    folder_flag.excludes(flags["--recipe"]);  // a recipe sets the shape
    for (const char* name : ModelFlags::kNames) folder_flag.excludes(flags[name]);
    dropout_is_given = [dropout = flags["--dropout"]] { return dropout.is_given(); };
    Flag save_flag = flags.file("--save-model", save_model, "folder for the trained model", "DIR");
    for (const char* name :
         {"--eval-only", "--print-schedule", "--show-launcher", "--show-mesh", "--show-pipeline"})
      save_flag.excludes(flags[name]);
    flags.option("--sample-tokens", not_negative(samples),
                 "tokens to write with the trained model at the end");
    flags.option("--sample-every", not_negative(sample_every),
                 "steps between texts of --sample-tokens tokens during training, in the terminal and the "
                 "--report; 0: no such texts");
  }

  Task make_task() {
    check_ranks_can_read("--text", text);
    const std::string learned = read_text(text);
    if (folder.empty()) {
      loaded.tokenizer = make_tokenizer_for(text, tokenizer, learned);
      shape = model.shape(loaded.tokenizer->vocabulary_size());
      GPT::check_options(shape);
    } else {
      loaded =
          load_text_model(folder, dropout_is_given() ? std::optional(model.options.dropout) : std::nullopt);
      shape = loaded.model->options();
    }
    const std::int64_t batch_size = program.options().data.batch_size;
    check(steps_per_epoch <= ReplacementSampler::kMaxDraws / batch_size,
          "--steps-per-epoch {} of --batch-size {}: expected at most {} samples in an epoch", steps_per_epoch,
          batch_size, ReplacementSampler::kMaxDraws);
    const std::string name = name_of_text(text);
    const Tokens tokens = encode(text, learned, *loaded.tokenizer);
    const Split split = split_of(tokens);
    check(split.validation.size() > shape.context,
          "{}: the last 10% have {}, expected more than the context of {}", name,
          counted(split.validation.size(), "token"), shape.context);
    tokens.read(0, 1, &first_token);
    Task task = language_model_task(
        name, std::make_shared<TokenDataset>(split.train, shape.context, TokenDataset::Windows::all),
        std::make_shared<TokenDataset>(split.validation, shape.context, TokenDataset::Windows::consecutive),
        steps_per_epoch * batch_size);
    task.model_name = fmt::format("GPT, {}, {}, {} wide, {} of context", counted(shape.layers, "layer"),
                                  counted(shape.heads, "head"), shape.width, counted(shape.context, "token"));
    task.settings["model"] = fmt::format("{} {}, {} of keys, {} in the MLP, dropout {}, {}biases",
                                         folder.empty() ? name_of(model.architecture) : "loaded",
                                         task.model_name, counted(shape.kv_heads_or_default(), "head"),
                                         shape.hidden_or_default(), shape.dropout, shape.bias ? "" : "no ");
    if (!folder.empty()) {
      task.settings["config.json"] = fmt::format(
          "activation {}, dropout {} of embeddings and {} of attention, epsilon {} of norms, base {} of "
          "rotary positions",
          shape.mlp == MlpKind::swiglu ? "swiglu"
          : shape.mlp == MlpKind::gelu ? "gelu"
                                       : "gelu_tanh",
          shape.embedding_dropout.value_or(shape.dropout), shape.attention_dropout.value_or(shape.dropout),
          shape.norm_eps, shape.rotary_base);
    }
    task.settings["LoRA"] = lora.rank == 0 ? "none"
                                           : fmt::format("rank {}, alpha {}, in {}", lora.rank, lora.alpha,
                                                         fmt::join(lora.targets, ","));
    task.settings["tokenizer"] = fmt::format("of {}", counted(shape.vocabulary, "token"));
    if (!folder.empty()) {
      task.execution_settings["the weights of --model"] =
          fmt::format("with the CRC-32 {:08x}", checksum_of(loaded.model->named_parameters()));
    }
    task.execution_settings["--save-model"] = save_model.empty() ? "(default)" : save_model;
    for (const auto& [flag, value] : {std::pair("--recompute", recompute),
                                      {"--sample-tokens", samples},
                                      {"--sample-every", sample_every}}) {
      task.execution_settings[flag] = fmt::format("{}", value);
    }
    task.unit = "tokens";
    task.units_per_sample = shape.context;
    task.flops_per_sample = training_flops();
    task.estimate_memory = [this](const UpdateShape& update) {
      const GptPart& part = update.part;
      const std::vector<std::int64_t> blocks = blocks_of_stages(shape, part.stages, part.chunks);
      if (blocks[static_cast<std::size_t>(part.stage)] == 0) return BytesByCategory{};
      BytesByCategory bytes =
          estimate_memory(GptMemoryProblem{.model = shape,
                                           .sequences = update.micro_batch,
                                           .state_per_parameter = update.state_per_parameter,
                                           .recompute = recompute,
                                           .compute = update.compute,
                                           .part = part});
      if (lora.rank > 0) {  // gradients and state of the factors are small
        bytes[MemoryCategory::gradients] = bytes[MemoryCategory::optimizer_state] = 0;
      }
      return bytes;
    };
    if (!text.empty() && text != "-") task.input_files = {text};
    if (!folder.empty()) {
      for (const auto& entry : std::filesystem::directory_iterator(folder))
        task.input_files.push_back(entry.path().string());
    }
    if (!save_model.empty()) {
      task.check_outputs = [this] { check_save_text_model(shape, save_model); };
    }
    task.make_model_with = [this](const std::shared_ptr<LayerFactory>& layers) {
      check(lora.rank == 0 || layers->ranks() == 1,
            "--lora-rank cannot be used with --tensor-parallel: its factors cannot be divided");
      check(lora.rank == 0 || layers->context() == nullptr,
            "--lora-rank cannot be used with --context-parallel");
      const std::int64_t fours = layers->context() == nullptr ? 1 : 8 * layers->context()->ranks;
      check(shape.attention_dropout.value_or(shape.dropout) == 0 || shape.context % fours == 0,
            "--context-parallel {}: dropout of attention needs 2 chunks of a multiple of 4 tokens on each "
            "rank, found a context of {}: the nearest is {}",
            fours / 8, shape.context, nearest_multiple(shape.context, fours));
      check(lora.rank == 0 || layers->stages() == nullptr,
            "--lora-rank cannot be used with --pipeline-parallel: its factors are in no stage");
      // The run gets the loaded model itself, and ZeRO may shard it; later calls make a new model.
      const bool is_loaded = loaded.model != nullptr && !layers->divides();
      const std::shared_ptr<GPT> made =
          is_loaded ? std::exchange(loaded.model, nullptr) : std::make_shared<GPT>(shape, layers);
      if (loaded.model != nullptr) load_whole(*made, *loaded.model);
      made->set_recompute(recompute);
      if (lora.rank > 0) add_lora(*made, lora);
      return made;
    };
    return task;
  }

  /// FLOPs of forward and backward for a sequence. With LoRA, the frozen weights have no gradient, which is a
  /// third of the products with weights. With --freeze or --train-only the number is unknown here.
  double training_flops() const {
    const ModelOptions& o = program.options().model;
    if (!o.freeze.empty() || !o.train_only.empty()) return 0;
    const double forward = forward_flops(shape, 1, shape.context);
    return lora.rank > 0 ? 2 * forward + attention_flops(shape, 1, shape.context) : 3 * forward;
  }

  void finish(Trainer& trainer) {
    const std::shared_ptr<Module> whole = trainer.whole_model();
    if (whole != nullptr) write(static_cast<GPT&>(*whole));
    constexpr double kSlowFlops = 1e8;  // FLOP/s of a slow machine
    trainer.barrier(static_cast<double>(samples) * forward_flops(shape, 1, 1) / kSlowFlops);
  }

  void write(GPT& trained) {
    trained.eval();
    merge_lora(trained);
    std::string failure;
    if (!save_model.empty()) {
      try {
        save_text_model(trained, *loaded.tokenizer, save_model);
      } catch (const Error& error) {
        failure = fmt::format("--save-model: {}", error.what());
      }
    }
    if (samples > 0 && !program.options().observation.quiet) {
      fmt::print("\n");
      print_text(trained, *loaded.tokenizer, {first_token}, sample_options());
    }
    check(failure.empty(), "{}", failure);
  }

  void prepare(Trainer& trainer) {
    if (lora.rank > 0 && folder.empty() && program.options().model.load.empty() &&
        trainer.comm().rank() == 0) {
      warn("--lora-rank without --model or --load trains low-rank factors of random weights");
    }
    if (sample_every == 0) return;
    check(samples > 0, "--sample-every {}: expected --sample-tokens above 0, found 0", sample_every);
    check(
        program.options().distribution.tensor_parallel == 1,
        "--sample-every cannot be used with --tensor-parallel: no rank has the whole model during training");
    check(program.options().distribution.context_parallel == 1,
          "--sample-every cannot be used with --context-parallel: a rank's model needs the others' tokens");
    check(program.options().distribution.pipeline_parallel == 1,
          "--sample-every cannot be used with --pipeline-parallel: no rank has the whole model during "
          "training");
    check(program.options().distribution.zero < 3 || trainer.comm().size() == 1,
          "--sample-every cannot be used with --zero 3: no rank has the whole model during training");
    trainer.text_every(sample_every, counted(samples, "token"), [this, &trainer] {
      std::string sample;
      write_text(static_cast<GPT&>(trainer.model()), *loaded.tokenizer, {first_token}, sample_options(), "",
                 [&sample](const std::string& piece) { sample += piece; });
      return sample;
    });
  }

  GenerationOptions sample_options() const {
    return {.tokens = samples, .sampling = {.temperature = 0.8, .top_k = 200}};
  }

  ModelFlags model;
  LoraOptions lora = {.rank = 0, .targets = {"h.*.attn.c_attn"}};
  TrainProgram program;
  std::string text, folder, save_model;
  TokenizerKind tokenizer = TokenizerKind::characters;
  std::int64_t recompute = 0;
  std::int64_t steps_per_epoch = 250, samples = 500, sample_every = 0;
  std::function<bool()> dropout_is_given;
  TextModel loaded;
  TransformerOptions shape;      // of the model
  std::int32_t first_token = 0;  // of the text; generated samples begin with it
};

}  // namespace

void add_train_command(CommandLine& app) {
  const auto run = std::make_shared<std::shared_ptr<TrainCommand>>();
  CommandLine& flags = app.command("train", "train a model on a text, and write some text with it", [run] {
    TrainCommand& command = **run;
    command.program.train([&command] { return command.make_task(); },
                          [&command](Trainer& trainer) { command.prepare(trainer); },
                          [&command](Trainer& trainer) { command.finish(trainer); });
  });
  *run = std::make_shared<TrainCommand>(flags);
}

}  // namespace ringtape::gpt
