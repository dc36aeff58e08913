#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <stdexcept>

#include "autograd/ops.h"
#include "core/memory.h"
#include "dist/self_communicator.h"
#include "io/json.h"
#include "nn/gpt.h"
#include "nn/layers.h"
#include "optim/sgd.h"
#include "tests/support/catch.h"
#include "tests/support/check_build.h"
#include "tests/support/error_of.h"
#include "tests/support/gpu.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tensors.h"
#include "text/character_tokenizer.h"
#include "text/token_dataset.h"
#include "trace/spans.h"
#include "train/evaluation.h"
#include "train/run_log.h"
#include "train/trainer.h"
#include "train/update.h"

namespace ringtape::test {
namespace {

constexpr std::int64_t kVocabulary = 5;
constexpr const char* kText = "abcadbacbeadbecabdbaecadbcabdeabcedabdc";
using Windows = TokenDataset::Windows;

/// The logits of the next token are a column of a weight plus a bias: [B T, V], or [B, T, V].
class Bigrams : public Module {
 public:
  explicit Bigrams(bool keeps_batch = false)
      : linear_(register_module("linear", std::make_shared<Linear>(kVocabulary, kVocabulary))),
        keeps_batch_(keeps_batch) {}
  Tensor forward(const Tensor& tokens) override {
    std::vector<float> rows(static_cast<std::size_t>(tokens.elements() * kVocabulary));
    std::size_t row = 0;
    for (const std::int32_t id : tokens.to_vector<std::int32_t>()) {
      rows[row + static_cast<std::size_t>(id)] = 1;
      row += kVocabulary;
    }
    const Tensor logits = (*linear_)(from_vector(rows, {tokens.elements(), kVocabulary}));
    return keeps_batch_ ? view(logits, {tokens.size(0), tokens.size(1), kVocabulary}) : logits;
  }
  /// The weight [V, V], then the bias [V].
  std::vector<double> values() {
    std::vector<double> all = parameter("linear.weight").to_doubles();
    const std::vector<double> bias = parameter("linear.bias").to_doubles();
    all.insert(all.end(), bias.begin(), bias.end());
    return all;
  }

 private:
  std::shared_ptr<Linear> linear_;
  bool keeps_batch_;
};

/// The mean cross-entropy of pairs of neighbours, in double precision. Adds its gradient to `gradient`.
double mean_loss(const std::vector<double>& values, const std::vector<std::vector<std::int32_t>>& sequences,
                 std::vector<double>& gradient) {
  constexpr std::size_t kBias = kVocabulary * kVocabulary;
  double loss = 0, pairs = 0;
  for (const std::vector<std::int32_t>& s : sequences) pairs += static_cast<double>(s.size()) - 1;
  for (const std::vector<std::int32_t>& s : sequences) {
    for (std::size_t i = 0; i + 1 < s.size(); ++i) {
      const auto token = static_cast<std::size_t>(s[i]), target = static_cast<std::size_t>(s[i + 1]);
      const auto logit = [&](std::size_t c) { return values[c * kVocabulary + token] + values[kBias + c]; };
      double sum = 0;
      for (std::size_t c = 0; c < kVocabulary; ++c) sum += std::exp(logit(c));
      loss += (std::log(sum) - logit(target)) / pairs;
      for (std::size_t c = 0; c < kVocabulary; ++c) {
        const double share = (std::exp(logit(c)) / sum - (c == target ? 1 : 0)) / pairs;
        gradient[c * kVocabulary + token] += share;
        gradient[kBias + c] += share;
      }
    }
  }
  return loss;
}

Tokens text() {
  const CharacterTokenizer tokenizer("abcde");
  return Tokens(tokenizer.encode(kText), tokenizer);
}

TEST_CASE("language models: evaluation is the mean over all tokens but the first", "[train][text]") {
  for (const std::int64_t length : {1, 4, 7, 38}) {
    const auto data = std::make_shared<TokenDataset>(text(), length, Windows::consecutive);
    for (const bool keeps_batch : {false, true}) {
      const Task task = language_model_task("", data, data);
      Bigrams model(keeps_batch);
      const Mesh one_rank(std::make_shared<SelfCommunicator>(Device{}), {});
      std::vector<double> gradient(model.values().size());
      const double expected =
          mean_loss(model.values(), {CharacterTokenizer("abcde").encode(kText)}, gradient);
      CHECK(evaluate(task, model, DType::f32, 3, one_rank).loss == Approx(expected).epsilon(1e-6));
    }
  }
}

// The mean over targets, whatever the micro-batches: not the mean of means.
TEST_CASE("language models: sequences of different lengths count by their targets", "[train][text]") {
  const std::vector<std::vector<std::int32_t>> sequences = {
      {0, 1, 2, 3, 4, 0, 2}, {1, 3}, {2, 2, 4}, {4, 1}, {0, 3, 1, 2}};
  const auto data = std::make_shared<SequenceDataset>(sequences, kVocabulary, 8);
  const Task task = language_model_task("", data, data);
  for (const std::int64_t micro_batch : {0, 1, 2, 3}) {
    Bigrams model;
    const std::vector<double> before = model.values();
    ParameterArena arena(model, Device{});
    SGD optimizer(arena, {.learning_rate = 1});
    TrainerOptions options;
    options.accumulation.micro_batch = micro_batch;
    Update update(task, options, model, arena, optimizer, nullptr, false,
                  Mesh(std::make_shared<SelfCommunicator>(Device{}), {}));
    DataLoader loader(data, std::make_shared<SequentialSampler>(5), {.batch_size = 5});
    loader.start_epoch(0);
    const UpdateResult result = update(loader.next(), 5);
    std::vector<double> gradient(before.size());
    CHECK(result.loss.item() == Approx(mean_loss(before, sequences, gradient)).epsilon(1e-6));
    std::vector<double> expected = before;
    for (std::size_t i = 0; i < before.size(); ++i) expected[i] -= gradient[i];
    check_close(model.values(), expected, 1e-6, 1e-6);
  }
}

// Thus ranks need not wait for each other's counts.
TEST_CASE("language models: the targets of full windows are not counted", "[train][text]") {
  const auto data = std::make_shared<TokenDataset>(text(), 7, Windows::all);
  Task task = language_model_task("", data, data);
  task.count_targets = [](const Batch&) -> std::int64_t { throw std::logic_error("counted"); };
  Bigrams model;
  ParameterArena arena(model, Device{});
  SGD optimizer(arena, {.learning_rate = 1});
  const TrainerOptions options;
  Update update(task, options, model, arena, optimizer, nullptr, false,
                Mesh(std::make_shared<SelfCommunicator>(Device{}), {}));
  DataLoader loader(data, std::make_shared<SequentialSampler>(4), {.batch_size = 4});
  loader.start_epoch(0);
  const std::vector<std::int32_t> ids = CharacterTokenizer("abcde").encode(kText);
  std::vector<std::vector<std::int32_t>> windows;
  for (std::ptrdiff_t i = 0; i < 4; ++i) windows.emplace_back(ids.begin() + i, ids.begin() + i + 8);
  std::vector<double> gradient(model.values().size());
  const double expected = mean_loss(model.values(), windows, gradient);
  CHECK(update(loader.next(), 4).loss.item() == Approx(expected).epsilon(1e-6));
}

TrainerOptions short_run(const std::filesystem::path& checkpoints, std::int64_t steps) {
  TrainerOptions options;
  options.device = Device{};  // where the model of these tests computes
  options.observation.quiet = true;
  options.data = {.epochs = 4, .max_steps = steps, .batch_size = 6, .eval_batch_size = 4, .seed = 5};
  options.schedule.kind = ScheduleKind::constant;
  options.checkpoint.folder = checkpoints;
  return options;
}

Task play(std::int64_t samples_per_epoch) {
  Task task = language_model_task(
      "play", std::make_shared<TokenDataset>(text().slice(0, 30), 4, Windows::all),
      std::make_shared<TokenDataset>(text().slice(30, 9), 4, Windows::consecutive), samples_per_epoch);
  task.make_model = [] { return std::make_shared<Bigrams>(); };
  return task;
}

/// What a run of a GPT with a vocabulary of 4 says of the text, whose tokens are below 5.
std::string error_of_small_vocabulary(Device device) {
  Task task = play(20);
  task.make_model = [] {
    return std::make_shared<GPT>(
        TransformerOptions{.vocabulary = 4, .context = 4, .layers = 1, .heads = 1, .width = 8});
  };
  TrainerOptions options = short_run("", 3);
  options.device = device;
  return error_of([&] { Trainer(task, options).train(); });
}

TEST_CASE("language models: a token outside of the vocabulary ends the run", "[train][text]") {
  CHECK_THAT(error_of_small_vocabulary(Device{}), ContainsSubstring("is outside of [0, vocabulary)"));
}

GPU_TEST_CASE("language models: a token outside of the vocabulary ends the run on a GPU too",
              "[train][text]") {
  CHECK_THAT(error_of_small_vocabulary(Device::parse("cuda")), ContainsSubstring("is outside of [0, "));
}

std::vector<double> trained_values(Trainer& trainer) {
  trainer.train();
  return dynamic_cast<Bigrams&>(trainer.model()).values();
}

TEST_CASE("language models: a run on random windows that stops and resumes ends with the same bits",
          "[train][text]") {
  const TemporaryFolder folder;
  Trainer whole(play(20), short_run("", 13));
  const std::vector<double> expected = trained_values(whole);
  // 20 samples in batches of 6 are 4 steps, the last of 2 samples: 6 steps end within the second epoch.
  Trainer first(play(20), short_run(folder / "run", 6));
  trained_values(first);
  TrainerOptions rest = short_run(folder / "run", 13);
  rest.checkpoint.resume = true;
  Trainer second(play(20), rest);
  CHECK(trained_values(second) == expected);

  Trainer other(play(21), rest);
  CHECK_THROWS_WITH(other.train(), ContainsSubstring("samples in an epoch was 20, found 21"));
}

// The run above reads 20 of the 26 windows in an epoch; without a number all are read.
TEST_CASE("language models: an epoch is all windows, or a number of random ones", "[train][text]") {
  for (const std::int64_t samples : {0, 20, 100}) {
    TrainerOptions options = short_run("", 0);
    options.data.epochs = 1;
    Trainer trainer(play(samples), options);
    const std::int64_t expected = samples == 0 ? 26 : samples;
    CHECK(trainer.train().steps == (expected + 5) / 6);
  }
  CHECK_THROWS_WITH(play(-1), ContainsSubstring("-1 samples in an epoch, expected 0 or more"));
}

TEST_CASE("texts generated every few steps are in the report, and do not change the training", "[train]") {
  const TemporaryFolder folder;
  const std::string report = folder / "report.json", metrics = folder / "metrics.jsonl";
  TrainerOptions options = short_run("", 13);
  Trainer plain(play(20), options);
  const std::vector<double> expected = trained_values(plain);
  options.observation.report = report;
  options.observation.metrics = metrics;
  Task task = play(20);
  task.unit = "tokens";
  task.units_per_sample = 4;
  // For the MFU the machine's peak is measured, which takes long in a check build.
  task.flops_per_sample = kCheckBuild ? 0 : 3 * 2 * 4 * kVocabulary * kVocabulary;
  Trainer trainer(task, options);
  int made = 0;
  trainer.text_every(5, "a title", [&] {
    CHECK_FALSE(trainer.model().is_training());
    return fmt::format("text {}", ++made);
  });
  CHECK(trained_values(trainer) == expected);
  CHECK(trainer.model().is_training() == plain.model().is_training());
  const Json::Array texts = Json::parse(read_text(report), report).at("texts").as_array();
  REQUIRE(texts.size() == 2);
  CHECK(texts[1].at("step").as_int64() == 10);
  CHECK(texts[1].at("title").as_string() == "a title");
  CHECK(texts[1].at("text").as_string() == "text 2");
  std::ifstream lines(metrics);
  std::string line;
  std::getline(lines, line);
  const Json first = Json::parse(line, metrics);
  const double samples = first.at("samples_per_s").as_double();
  CHECK(first.at("tokens_per_s").as_double() == Approx(4 * samples));
  if (!kCheckBuild) CHECK(first.at("mfu").as_double() > 0);
  CHECK_THROWS_WITH(trainer.text_every(0, "", [] { return ""; }),
                    ContainsSubstring("at least 1 step, found 0"));
}

TEST_CASE("the peak of memory is that of training alone", "[train]") {
  const TemporaryFolder folder;
  TrainerOptions options = short_run("", 3);
  const auto memory_after = [&](const std::string& name, double flops) {
    options.observation.metrics = folder / name;
    Task task = play(20);
    task.flops_per_sample = flops;
    Trainer(task, options).train();
    return memory_stats(Device{});
  };
  reset_peak_memory(Device{});
  const MemoryStats plain = memory_after("plain", 0);
  constexpr std::size_t kLittle = 128 << 10;
  zeros({1 << 20});
  CHECK(memory_after("after other work", 0).peak < plain.peak + kLittle);
  if (kCheckBuild) return;  // the measurement would take long
  // It multiplies matrices, the smallest three of which take 192 KiB.
  const MemoryStats measured = memory_after("measured", 1);
  CHECK(measured.peak < plain.peak + kLittle);
  CHECK(measured.reserved < plain.reserved + kLittle);
}

TEST_CASE("the time of saving checkpoints does not count as training", "[train]") {
  const TemporaryFolder folder;
  TrainerOptions options = short_run(folder / "run", 3);
  options.checkpoint.every = 1;
  options.observation.metrics = folder / "metrics.jsonl";
  Trainer trainer(play(20), options);
  SpanRecording recording;
  const double seconds = trainer.train().seconds;
  recording.stop();
  double saving = 0, training = 0;
  for (const Span& span : recording.spans()) {
    if (span.name == "checkpoint") saving += std::chrono::duration<double>(span.end - span.begin).count();
  }
  std::ifstream lines(options.observation.metrics);
  std::string line;
  for (int step = 1; step <= 3; ++step) {
    std::getline(lines, line);
    training += 6 / Json::parse(line, "metrics").at("samples_per_s").as_double();
  }
  // Files take far longer than this model's steps and its evaluation.
  CHECK(saving > 0);
  CHECK(training + saving <= seconds);
}

TEST_CASE("throughput in units and as a share of the machine's arithmetic", "[train]") {
  const Throughput tokens{"tokens", 64, 3e6, 2e9};
  CHECK(tokens.units_per_second(100) == 6400);
  CHECK(tokens.utilisation(100) == Approx(0.15));
  CHECK(tokens.text(100) == "6400 tokens/s, 15% MFU");
  CHECK(Throughput().text(12.4) == "12 samples/s");
}

TEST_CASE("a task that lacks a part is refused", "[train]") {
  const TrainerOptions options = short_run("", 1);
  for (const auto& remove : std::vector<std::function<void(Task&)>>{
           [](Task& t) { t.train = nullptr; }, [](Task& t) { t.test = nullptr; },
           [](Task& t) { t.loss = nullptr; }, [](Task& t) { t.make_model = nullptr; }}) {
    Task task = play(20);
    remove(task);
    CHECK_THROWS_WITH(Trainer(task, options), ContainsSubstring("train and test, found no "));
  }
  Task task = play(20);
  task.order = [](std::uint64_t) { return nullptr; };
  CHECK_THROWS_WITH(Trainer(task, options), ContainsSubstring("order() returned no sampler"));
}

}  // namespace
}  // namespace ringtape::test
