// What a training run asks of its ranks: the results of an update, and those of an evaluation.
#include <memory>
#include <numeric>

#include "core/random.h"
#include "data/loader.h"
#include "dist/self_communicator.h"
#include "nn/layers.h"
#include "optim/sgd.h"
#include "tests/dist/ranks.h"
#include "tests/support/catch.h"
#include "text/character_tokenizer.h"
#include "text/token_dataset.h"
#include "train/evaluation.h"
#include "train/training_state.h"
#include "train/update.h"

namespace ringtape::test {
namespace {

constexpr std::int64_t kSamples = 24, kClasses = 3;

const Tensor& inputs() {
  static const Tensor all = tensor_of(random_doubles(kSamples * 4, 1), {kSamples, 4});
  return all;
}

Task classes() {
  std::vector<std::int64_t> labels(kSamples);
  std::iota(labels.begin(), labels.end(), 0);
  for (std::int64_t& label : labels) label %= kClasses;
  const auto data = std::make_shared<TensorDataset>(inputs(), from_vector(labels, {kSamples}));
  return classification_task("", data, data);
}

Task numbers() {
  const auto data = std::make_shared<TensorDataset>(
      inputs(), tensor_of(random_doubles(kSamples * kClasses, 2), {kSamples, kClasses}));
  return regression_task("", data, data);
}

/// Next tokens as the classes. The model of these tests has four inputs: a 1 for the token.
Task next_tokens(const std::shared_ptr<const Dataset>& data) {
  Task task = language_model_task("", data, data);
  task.prepare = [](const Tensor& tokens, DType) {
    std::vector<float> rows;
    for (const std::int32_t id : copy_to(tokens, Device{}).to_vector<std::int32_t>()) {
      for (std::int32_t i = 0; i < 4; ++i) rows.push_back(i == id ? 1.0f : 0.0f);
    }
    return from_vector(rows, {tokens.elements(), 4}, tokens.device());
  };
  return task;
}

/// Sequences of different lengths, of which a rank can have more targets than another.
Task sentences() {
  std::vector<std::vector<std::int32_t>> sequences;
  for (std::int32_t i = 0; i < kSamples; ++i) {
    sequences.emplace_back();
    for (std::int32_t t = 0; t < 2 + (i * i) % 7; ++t) {
      sequences.back().push_back(static_cast<std::int32_t>((i + t * t) % kClasses));
    }
  }
  return next_tokens(std::make_shared<SequenceDataset>(sequences, kClasses, 7));
}

/// Windows of one text, which all have as many targets.
Task windows() {
  constexpr std::int64_t kLength = 5;
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < kSamples + kLength; ++i) {
    ids.push_back(static_cast<std::int32_t>((i * i / 2) % kClasses));
  }
  const Tokens tokens(ids, CharacterTokenizer("abc"));
  return next_tokens(std::make_shared<TokenDataset>(tokens, kLength, TokenDataset::Windows::all));
}

struct Results {
  double loss, correct, test_loss, test_accuracy;
};

/// One update on all samples, of which each rank has its part, and the evaluation after it.
Results train_once(const Task& task, const std::shared_ptr<Communicator>& comm) {
  manual_seed(1);
  const auto model = make_mlp({4, 8, kClasses});
  ParameterArena arena(*model, comm->device());
  SGD optimizer(arena, {.learning_rate = 0.1});
  const TrainerOptions options;
  Update update(task, options, *model, arena, optimizer, nullptr, false, comm);
  const auto all = std::make_shared<SequentialSampler>(kSamples);
  DataLoader loader(task.train, std::make_shared<DistributedSampler>(all, comm->rank(), comm->size()),
                    {.batch_size = kSamples / comm->size(), .device = comm->device()});
  loader.start_epoch(0);
  const UpdateResult result = update(loader.next(), kSamples);
  // Read before anything else makes the streams wait for each other.
  const double loss = result.loss.item(), correct = result.correct.defined() ? result.correct.item() : 0;
  const EvaluationResult test = evaluate(task, *model, DType::f32, 5, *comm);
  return {loss, correct, test.loss, task.correct ? test.accuracy : 0};
}

TEST_CASE("training: an update and an evaluation give every rank the results of one process",
          "[dist][train]") {
  for (const auto& [name, comm] : all_communicators()) {
    INFO(name);
    for (const Task& task : {classes(), numbers(), sentences(), windows()}) {
      const Results found = train_once(task, comm);
      const Results expected = train_once(task, std::make_shared<SelfCommunicator>(comm->device()));
      CHECK_THAT(found.loss, Catch::Matchers::WithinRel(expected.loss, 1e-5));
      CHECK(found.correct == expected.correct);
      CHECK_THAT(found.test_loss, Catch::Matchers::WithinRel(expected.test_loss, 1e-5));
      CHECK(found.test_accuracy == expected.test_accuracy);
    }
  }
}

TEST_CASE("training: every rank begins where rank 0 does, with its weights and random numbers",
          "[dist][train]") {
  manual_seed(1);
  const auto first = make_mlp({4, 8, kClasses});
  ParameterArena of_first(*first, Device{});
  const std::vector<double> expected = of_first.values().to_doubles();
  for (const auto& [name, comm] : all_communicators()) {
    INFO(name);
    const int rank = comm->rank();
    manual_seed(static_cast<std::uint64_t>(1 + rank));
    const auto model = make_mlp({4, 8, kClasses});
    ParameterArena arena(*model, comm->device());
    SGD optimizer(arena, {.learning_rate = 0.1});
    const Mesh mesh(comm, {.data = comm->size()});
    TrainingState state(*model, arena, optimizer, nullptr, mesh);
    const TrainingPosition found =
        state.broadcast_from_first({.step = 10 + rank, .epoch = 2 + rank, .samples = 7 + rank});
    CHECK((found.step == 10 && found.epoch == 2 && found.samples == 7));
    CHECK(default_generator().seed == 1);
    CHECK(arena.values().to_doubles() == expected);
  }
}

}  // namespace
}  // namespace ringtape::test
