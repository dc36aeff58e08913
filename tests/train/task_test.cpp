#include "train/task.h"

#include <cstdint>
#include <vector>

#include "autograd/creation.h"
#include "core/random.h"
#include "data/dataset.h"
#include "nn/layers.h"
#include "nn/model_file.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "train/trainer.h"

namespace ringtape::test {
namespace {

TrainerOptions one_step() {
  TrainerOptions options;
  options.device = Device{};
  options.observation.quiet = true;
  options.data = {.epochs = 1, .max_steps = 1, .batch_size = 8, .eval_batch_size = 8};
  options.accumulation.micro_batch = 4;
  return options;
}

Task task_with(const LossFunction& loss) {
  manual_seed(1);
  const auto data = std::make_shared<TensorDataset>(randn({8, 3}), randn({8, 1}));
  Task task = regression_task("", data, data);
  if (loss) task.loss = loss;
  task.make_model = [] { return make_mlp({3, 1}); };
  return task;
}

TEST_CASE("a loss that does not divide by its divisor is refused", "[train]") {
  const Task task =
      task_with([](const Tensor& prediction, const Tensor& y, double) { return mse_loss(prediction, y); });
  const auto refusal = ContainsSubstring("Task::loss: expected the sum of a batch's losses divided by");
  CHECK_THROWS_WITH(Trainer(task, one_step()).train(),
                    refusal && ContainsSubstring("with the divisor 8 and"));
  CHECK_THROWS_WITH(Trainer(task, one_step()).evaluate(), refusal);
  // A loss of 0 shows nothing: the next one is checked.
  const Task zero_first = task_with([calls = 0](const Tensor& prediction, const Tensor& y, double) mutable {
    return calls++ < 3 ? LossAndCorrect{scale(mse_loss(prediction, y), 0)}
                       : LossAndCorrect{mse_loss(prediction, y)};
  });
  CHECK_THROWS_WITH(Trainer(zero_first, one_step()).train(), refusal);
}

TEST_CASE("a loss, and the number of correct predictions, must be scalars", "[train]") {
  const auto refuses = [](const LossFunction& loss, bool counts_correct, const std::string& text) {
    Task task = task_with(loss);
    task.counts_correct = counts_correct;
    CHECK_THROWS_WITH(Trainer(task, one_step()).train(), ContainsSubstring(text));
  };
  refuses([](const Tensor& prediction, const Tensor&, double) { return LossAndCorrect{prediction}; }, false,
          "Task::loss: expected a scalar, found f32[4, 1]");
  refuses([](const Tensor&, const Tensor&, double) { return LossAndCorrect{Tensor()}; }, false,
          "Task::loss: expected a scalar, found an undefined tensor");
  refuses([](const Tensor& prediction, const Tensor& y,
             double divisor) { return LossAndCorrect{mse_loss(prediction, y, Reduction::sum, divisor)}; },
          true, "the correct predictions of Task::loss: expected a scalar, found an undefined tensor");
}

TEST_CASE("a loss with which divided models would not be trained is refused", "[train]") {
  const auto data = std::make_shared<TensorDataset>(zeros({8, 3}, DType::i32), zeros({8, 3}, DType::i32));
  Task task = language_model_task("", data, data);
  task.make_model = [] { return make_mlp({3, 1}); };
  task.loss = [](const Tensor& prediction, const Tensor&, double) { return sum(prediction); };
  CHECK_THROWS_WITH(checked_task(task), ContainsSubstring("a loss of its own, but the loss_with of"));
  task.loss_with = nullptr;
  CHECK_NOTHROW(checked_task(task));
  task.loss_with = [](const LayerFactory&, const Tensor& prediction, const Tensor&, double) {
    return sum(prediction);
  };
  CHECK_NOTHROW(checked_task(task));
  task.counts_correct = true;
  CHECK_THROWS_WITH(checked_task(task), ContainsSubstring("returns no number of correct predictions"));
}

TEST_CASE("a classification task has no ignored targets", "[train]") {
  manual_seed(1);
  const auto data = std::make_shared<TensorDataset>(
      randn({8, 3}), from_vector(std::vector<std::int64_t>{0, 1, 0, 1, -100, 1, 0, 1}, {8}));
  Task task = classification_task("", data, data);
  task.make_model = [] { return make_mlp({3, 2}); };
  CHECK_THROWS_WITH(Trainer(task, one_step()).evaluate(),
                    ContainsSubstring("the target of row 4 is outside"));
}

TEST_CASE("a failed evaluation leaves the trained weights in --save", "[train]") {
  const TemporaryFolder folder;
  const auto train = [&folder](const char* file, std::int64_t test_features) {
    Task task = task_with({});
    task.test = std::make_shared<TensorDataset>(randn({8, test_features}), randn({8, 1}));
    TrainerOptions options = one_step();
    options.model.save = (folder / file).string();
    Trainer(task, options).train();
  };
  train("right", 3);
  CHECK_THROWS_WITH(train("wrong", 4), ContainsSubstring("linear"));
  const auto weights_in = [&folder](const char* file) {
    const std::shared_ptr<Module> read = make_mlp({3, 1});
    load_model(*read, (folder / file).string());
    return read->parameter("0.weight").to_vector<float>();
  };
  CHECK(weights_in("wrong") == weights_in("right"));
}

TEST_CASE("the check of a loss changes neither its random numbers nor the weights", "[train]") {
  const auto weights_after = [](const Task& task) {
    Trainer trainer(task, one_step());
    trainer.train();
    return trainer.model().parameter("0.weight").to_vector<float>();
  };
  std::vector<std::uint64_t> offsets;
  const Task own = task_with({});
  const Task given = task_with([&](const Tensor& prediction, const Tensor& y, double divisor) {
    offsets.push_back(default_generator().take(10));
    return own.loss(prediction, y, divisor);
  });
  CHECK(weights_after(given) == weights_after(own));
  // Two calls of the check and two micro-batches; the evaluation follows.
  REQUIRE(offsets.size() == 5);
  CHECK(offsets[1] == offsets[0]);
  CHECK(offsets[2] == offsets[0]);
  CHECK(offsets[3] == offsets[0] + 10);
}

}  // namespace
}  // namespace ringtape::test
