// Runs the code that the docs quote (tests/docs/excerpts_test.py).
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "autograd/creation.h"
#include "autograd/ops.h"
#include "autograd/tape_graph.h"
#include "data/dataset.h"
#include "dist/connect.h"
#include "dist/data_parallel.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/accumulation.h"
#include "optim/adam.h"
#include "optim/lamb.h"
#include "optim/sgd.h"
#include "profile/tape_picture.h"
#include "tests/support/catch.h"
#include "tests/support/xml.h"
#include "text/character_tokenizer.h"
#include "text/tinyshakespeare.h"
#include "text/token_dataset.h"
#include "train/task.h"

namespace ringtape::test {
namespace {

/// Two layers; the second is the head.
class Classifier : public Module {
 public:
  Classifier() {
    body_ = register_module("body", std::make_shared<Linear>(4, 8));
    head_ = register_module("head", std::make_shared<Linear>(8, 3));
  }
  Tensor forward(const Tensor& x) override { return (*head_)((*body_)(x)); }

 private:
  std::shared_ptr<Linear> body_, head_;
};

constexpr std::int64_t kSamples = 12, kMicroBatch = 5;

const Tensor& samples() {
  static const Tensor x = (manual_seed(1), rand({kSamples, 4}));
  return x;
}
const Tensor& targets() {
  static const Tensor labels = from_vector<std::int32_t>({0, 1, 2, 0, 1, 2, 2, 1, 0, 2, 1, 0}, {kSamples});
  return labels;
}

/// The weights of the body after one step of `Optimizer` on all samples at once, by one process.
template <class Optimizer, class Options>
std::vector<float> body_after_step(const Options& options) {
  manual_seed(2);
  Classifier model;
  ParameterArena arena(model, Device{});
  Optimizer optimizer(arena, options);
  optimizer.zero_grad();
  cross_entropy(model(samples()), targets()).backward();
  optimizer.step();
  return model.parameter("body.weight").to_vector<float>();
}

/// |now - before| / |before|
double relative_change(const std::vector<float>& before, const Tensor& now) {
  const std::vector<float> after = now.to_vector<float>();
  double change = 0, norm = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    change += std::pow(double{after[i]} - before[i], 2);
    norm += std::pow(before[i], 2);
  }
  return std::sqrt(change / norm);
}

}  // namespace

TEST_CASE("docs/report.md: the tape as a picture", "[docs]") {
  Classifier model;
  const TapeScope scope;
  const Tensor x = ones({5, 4});
  const Tensor labels = from_vector<std::int32_t>({0, 1, 2, 0, 1}, {5});
  const Tensor loss = cross_entropy(model(x), labels);
  const std::string picture = tape_svg(graph_of(Tape::current())).file();  // before backward() clears it
  CHECK(xml_error(picture) == "");
  CHECK(picture.find("cross_entropy") != std::string::npos);
}

TEST_CASE("docs/optimizers.md: a parameter group's factor of the learning rate", "[docs]") {
  Classifier model;
  ParameterArena parameters(model, Device{});
  const auto in_head = [](const ArenaEntry& entry) { return entry.name.starts_with("head."); };
  Lamb optimizer(parameters, {.learning_rate = 0.01, .weight_decay = 0.01},
                 {no_decay_below_two_dimensions(), {.name = "head", .contains = in_head, .lr_scale = 10}});
  // LAMB's update of a matrix has the norm learning rate x the matrix's norm.
  const std::vector<float> body = model.parameter("body.weight").to_vector<float>();
  const std::vector<float> head = model.parameter("head.weight").to_vector<float>();
  optimizer.zero_grad();
  sum(model(rand({5, 4}))).backward();
  optimizer.step();
  CHECK(relative_change(body, model.parameter("body.weight")) == Approx(0.01).epsilon(1e-4));
  CHECK(relative_change(head, model.parameter("head.weight")) == Approx(0.1).epsilon(1e-4));
}

TEST_CASE("docs/distributed.md: accumulation with DataParallel is the batch at once", "[docs]") {
  const std::shared_ptr<Communicator> comm = connect({}, Device{});
  const auto pieces = cut_into_micro_batches(kSamples, kMicroBatch);
  const std::size_t micro_batches = pieces.size();
  const std::int64_t own_targets = kSamples;
  const auto train = [&](Classifier& model, ParameterArena& arena, auto& optimizer) {
    const auto loss_of = [&](std::size_t i, double divisor) {
      const TensorDataset part = TensorDataset(samples(), targets()).slice(pieces[i].first, pieces[i].size);
      return cross_entropy(model(part.all_features()), part.all_targets(),
                           {.reduction = Reduction::sum, .divisor = divisor});
    };
    optimizer.zero_grad();
    DataParallel parallel(model, arena, comm);
    AccumulationWindow window(comm->size(), sum_over(comm));
    window.begin(own_targets);  // N over all ranks
    for (std::size_t i = 0; i < micro_batches; ++i) {
      const auto scope = parallel.no_sync(i + 1 < micro_batches);
      loss_of(i, window.divisor()).backward();  // sum of losses times R / N
    }
    parallel.finish();
    optimizer.step();
  };

  // SGD, whose step is proportional to the gradient: Adam's first step would be the same for any divisor.
  const SGDOptions options{.learning_rate = 1};
  const std::vector<float> expected = body_after_step<SGD>(options);
  manual_seed(2);
  Classifier model;
  ParameterArena arena(model, comm->device());
  SGD optimizer(arena, options);
  train(model, arena, optimizer);
  CHECK(relative_change(expected, model.parameter("body.weight")) < 1e-6);
}

TEST_CASE("docs/distributed.md: a sharded arena", "[docs]") {
  const std::shared_ptr<Communicator> comm = connect({}, Device{});
  const std::vector<float> expected = body_after_step<AdamW>(AdamWOptions{});
  manual_seed(2);
  Classifier model;
  const ArenaSharding sharding{.zero_stage = 2, .rank = comm->rank(), .world_size = comm->size()};
  ParameterArena arena(model, comm->device(), DType::f32, sharding);
  AdamW optimizer(arena);  // state of the shard only
  DataParallel parallel(model, arena, comm);
  optimizer.zero_grad();
  cross_entropy(model(samples()), targets()).backward();
  parallel.finish();
  optimizer.step();
  CHECK(model.parameter("body.weight").to_vector<float>() == expected);
}

TEST_CASE("docs/text.md: a text as a task", "[docs][text]") {
  const CharacterTokenizer tokenizer(tinyshakespeare());
  const Tokens tokens(tokenizer.encode(tinyshakespeare()), tokenizer);
  const std::int64_t training = tokens.size() * 9 / 10;
  const Tokens validation = tokens.slice(training, tokens.size() - training);
  using Windows = TokenDataset::Windows;
  const Task task = language_model_task(
      "tinyshakespeare", std::make_shared<TokenDataset>(tokens.slice(0, training), 64, Windows::all),
      std::make_shared<TokenDataset>(validation, 64, Windows::consecutive), 12 * 250);

  CHECK(task.order(0)->size() == 3000);
  CHECK(task.train->size() == 1'003'854 - 64);
  CHECK(task.test->size() == (111'540 - 1 + 63) / 64);
}

}  // namespace ringtape::test
