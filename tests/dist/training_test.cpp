// Training runs on several ranks: the results of an update and of an evaluation, the start and the end of a
// run.
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>

#include "autograd/tape.h"
#include "core/random.h"
#include "data/loader.h"
#include "dist/mesh.h"
#include "dist/pipeline.h"
#include "dist/self_communicator.h"
#include "nn/gpt.h"
#include "nn/gpt_estimate.h"
#include "nn/layers.h"
#include "optim/clip.h"
#include "optim/loss_scaler.h"
#include "optim/sgd.h"
#include "tests/dist/ranks.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "text/character_tokenizer.h"
#include "text/token_dataset.h"
#include "train/evaluation.h"
#include "train/trainer.h"
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

/// Next tokens as the classes. The model of these tests has four inputs: the token, one-hot.
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

/// Sequences of different lengths, so that one rank can have more targets than another.
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

/// Windows of one text, all with the same number of targets.
std::shared_ptr<const Dataset> windows_of_text(std::int64_t length = 5) {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < kSamples + length; ++i) {
    ids.push_back(static_cast<std::int32_t>((i * i / 2) % kClasses));
  }
  const Tokens tokens(ids, CharacterTokenizer("abc"));
  return std::make_shared<TokenDataset>(tokens, length, TokenDataset::Windows::all);
}
Task windows() {
  return next_tokens(windows_of_text());
}

using MakeModel = std::function<std::shared_ptr<Module>(const std::shared_ptr<LayerFactory>& layers)>;

std::shared_ptr<Module> mlp(const std::shared_ptr<LayerFactory>& layers) {
  return make_mlp({4, 8, kClasses}, *layers);
}

/// A GPT with tied weights.
std::shared_ptr<Module> gpt(const std::shared_ptr<LayerFactory>& layers) {
  const TransformerOptions shape{.vocabulary = kClasses, .context = 5, .layers = 2, .heads = 1, .width = 8};
  return std::make_shared<GPT>(shape, layers);
}

struct Results {
  double loss, correct, test_loss, test_accuracy;
  std::int64_t targets;
};

/// One update on all samples, divided among the data ranks, and the evaluation after it.
Results train_once(const Task& task, const Mesh& mesh, const MakeModel& make = mlp, int zero = 0) {
  const std::shared_ptr<Communicator>& comm = mesh.data_and_context();
  const std::shared_ptr<Communicator>& line = mesh.along(MeshDimension::pipeline);
  const auto layers = std::make_shared<LayerFactory>();
  if (line->size() > 1) {
    layers->set_stages(
        std::make_shared<Stages>(PipelinePlace{.stage = line->rank(), .stages = line->size()}));
  }
  manual_seed(1);
  const auto model = make(layers);
  ParameterArena arena(*model, comm->device(), DType::f32,
                       {.zero_stage = zero,
                        .rank = comm->rank(),
                        .world_size = comm->size(),
                        .bucket_sizes = {},
                        .stages = layers->stages()});
  std::unique_ptr<Pipeline> pipeline;
  if (line->size() > 1) {
    pipeline = std::make_unique<Pipeline>(*model, *layers->stages(), line, PipelineOptions{});
  }
  SGD optimizer(arena, {.learning_rate = 0.1});
  TrainerOptions options;
  options.accumulation.micro_batch = 5;
  Update update(task, options, *model, arena, optimizer, nullptr, false, mesh, pipeline.get());
  const auto all = std::make_shared<SequentialSampler>(kSamples);
  DataLoader loader(task.train, std::make_shared<DistributedSampler>(all, comm->rank(), comm->size()),
                    {.batch_size = kSamples / comm->size(), .device = comm->device()});
  loader.start_epoch(0);
  const UpdateResult result = update(loader.next(), kSamples);
  // Read before anything else makes the streams wait for each other.
  const double loss = result.loss.item(), correct = result.correct.defined() ? result.correct.item() : 0;
  const EvaluationResult test = evaluate(task, *model, DType::f32, 5, mesh, pipeline.get());
  return {loss, correct, test.loss, task.counts_correct ? test.accuracy : 0, result.targets};
}

Mesh one_rank(Device device) {
  return Mesh(std::make_shared<SelfCommunicator>(device), {});
}

void check_same(const Results& found, const Results& expected) {
  CHECK_THAT(found.loss, Catch::Matchers::WithinRel(expected.loss, 1e-5));
  CHECK(found.correct == expected.correct);
  CHECK(found.targets == expected.targets);
  CHECK_THAT(found.test_loss, Catch::Matchers::WithinRel(expected.test_loss, 1e-5));
  CHECK(found.test_accuracy == expected.test_accuracy);
}

TEST_CASE("training: a task without data is refused before the ranks compare theirs", "[dist][train]") {
  for (const auto remove : {&Task::train, &Task::test}) {
    Task task = classes();
    task.make_model = [] { return make_mlp({4, kClasses}); };
    task.*remove = nullptr;
    CHECK_THROWS_WITH(Trainer(task, {}), ContainsSubstring("train and test, found no "));
  }
}

TEST_CASE("training: ranks that read the samples in different orders are refused", "[dist][train]") {
  const int rank = all_communicators().front().communicator->rank();
  const int world_size = all_communicators().front().communicator->size();
  Task task = classes();
  task.make_model = [] { return make_mlp({4, kClasses}); };
  TrainerOptions options;
  options.device = device_of_run();
  options.data.batch_size = kSamples;
  options.observation.quiet = true;
  const auto order_by = [](std::uint64_t seed) { return std::make_shared<RandomSampler>(kSamples, seed); };
  task.order = order_by;
  CHECK_NOTHROW(Trainer(task, options));
  task.order = [&](std::uint64_t seed) { return order_by(seed + static_cast<std::uint64_t>(rank)); };
  if (world_size == 1) {
    CHECK_NOTHROW(Trainer(task, options));
  } else {
    CHECK_THROWS_WITH(Trainer(task, options),
                      ContainsSubstring("the ranks' training data differ: an order of 24 samples"));
    if (rank == 0) task.order = nullptr;  // the default, on one rank alone
    CHECK_THROWS_WITH(Trainer(task, options), ContainsSubstring("the ranks' training data differ"));
  }
}

TEST_CASE("training: an update and an evaluation give every rank the results of one process",
          "[dist][train]") {
  for (const auto& [name, comm] : all_communicators()) {
    INFO(name);
    for (const Task& task : {classes(), numbers(), sentences(), windows()}) {
      check_same(train_once(task, Mesh(comm, {.data = comm->size()})),
                 train_once(task, one_rank(comm->device())));
    }
  }
}

TEST_CASE("training: so do an update and an evaluation in two stages", "[dist][train][stages]") {
  for (const auto& [name, comm] : all_communicators()) {
    if (comm->size() % 2 != 0) continue;
    INFO(name);
    const Mesh mesh(comm, {.data = comm->size() / 2, .pipeline = 2}), alone = one_rank(comm->device());
    for (const Task& task : {classes(), numbers(), sentences(), windows()}) {
      check_same(train_once(task, mesh), train_once(task, alone));
    }
    const auto text = windows_of_text();
    const Task task = language_model_task("", text, text);
    for (const int zero : {0, 1, 2, 3}) {
      INFO("ZeRO " << zero);
      check_same(train_once(task, mesh, gpt, zero), train_once(task, alone, gpt));
    }
  }
}

TEST_CASE("training: clipping after each micro-batch clips the rank's own gradients, before their mean",
          "[dist][train]") {
  constexpr double kLimit = 0.01;
  const Task task = classes();
  for (const auto& [name, comm] : all_communicators()) {
    INFO(name);
    const std::int64_t half = kSamples / comm->size() / 2;  // of a rank's samples
    const auto model_of_seed = [] {
      manual_seed(1);
      return make_mlp({4, 8, kClasses});
    };
    const auto model = model_of_seed(), expected = model_of_seed();
    ParameterArena arena(*model, comm->device()), own_arena(*expected, comm->device());
    SGD optimizer(arena, {.learning_rate = 1}), own_optimizer(own_arena, {.learning_rate = 1});
    TrainerOptions options;
    options.accumulation.micro_batch = half;
    options.optimizer.clip_norm = kLimit;
    options.optimizer.clip_each_micro_batch = true;
    Update update(task, options, *model, arena, optimizer, nullptr, false,
                  Mesh(comm, {.data = comm->size()}));
    const auto all = std::make_shared<SequentialSampler>(kSamples);
    DataLoader loader(task.train, std::make_shared<DistributedSampler>(all, comm->rank(), comm->size()),
                      {.batch_size = 2 * half, .device = comm->device()});
    loader.start_epoch(0);
    const std::optional<Batch> batch = loader.next();
    update(batch, kSamples);

    for (const std::int64_t first : {std::int64_t{0}, half}) {
      const TapeScope scope;
      const auto [features, targets] = batch->slice(first, half).to(comm->device());
      task.loss((*expected)(features), targets, static_cast<double>(2 * half)).loss.backward();
      clip_grad_norm_now(own_arena, kLimit / std::sqrt(2));
    }
    comm->all_reduce(own_arena.gradients(), ReduceOp::mean).wait();
    own_optimizer.step();
    check_close(arena.values().to_doubles(), own_arena.values().to_doubles(), 0, 1e-6);
  }
}

TEST_CASE("training: every rank begins where rank 0 does, with its weights and random numbers",
          "[dist][train]") {
  manual_seed(1);
  const auto first = make_mlp({4, 8, kClasses});
  first->parameter("2.bias").set_requires_grad(false);
  ParameterArena of_first(*first, Device{});
  const std::vector<double> expected = of_first.values().to_doubles();
  for (const auto& [name, comm] : all_communicators()) {
    INFO(name);
    const int rank = comm->rank();
    manual_seed(static_cast<std::uint64_t>(1 + rank));
    const auto model = make_mlp({4, 8, kClasses});
    Tensor& frozen = model->parameter("2.bias");
    frozen.set_requires_grad(false);
    ParameterArena arena(*model, comm->device());
    SGD optimizer(arena, {.learning_rate = 0.1});
    const Mesh mesh(comm, {.data = comm->size()});
    TrainingState state(*model, arena, optimizer, nullptr, mesh);
    const TrainingPosition found =
        state.broadcast_from_first({.step = 10 + rank, .epoch = 2 + rank, .samples = 7 + rank});
    CHECK((found.step == 10 && found.epoch == 2 && found.samples == 7));
    CHECK(default_generator().seed == 1);
    CHECK(frozen.to_doubles() == first->parameter("2.bias").to_doubles());
    CHECK(arena.values().to_doubles() == expected);
  }
}

TEST_CASE("training: every rank begins with rank 0's loss scale, in each ZeRO stage", "[dist][train]") {
  for (const auto& [name, comm] : all_communicators()) {
    for (int zero = 0; zero <= 3; ++zero) {
      INFO(name << ", ZeRO " << zero);
      manual_seed(1);
      const auto model = make_mlp({4, 8, kClasses});
      ParameterArena arena(
          *model, comm->device(), DType::f16,
          {.zero_stage = zero, .rank = comm->rank(), .world_size = comm->size(), .bucket_sizes = {}});
      SGD optimizer(arena, {.learning_rate = 0.1});
      LossScaler scaler(arena, {.initial_scale = std::ldexp(1.0, 10 + comm->rank())});
      const Mesh mesh(comm, {.data = comm->size()});
      TrainingState(*model, arena, optimizer, &scaler, mesh).broadcast_from_first({});
      CHECK(scaler.scale().item() == 1024);
    }
  }
}

TEST_CASE("training: rank 0 alone checks whether the program's files can be written", "[dist][train]") {
  int checks = 0;
  Task task = classes();
  task.make_model = [] { return make_mlp({4, 8, kClasses}); };
  task.check_outputs = [&] { ++checks; };
  TrainerOptions options;
  options.device = device_of_run();
  options.data.batch_size = kSamples;
  options.observation.quiet = true;
  const Trainer trainer(task, options);
  CHECK(checks == (trainer.comm().rank() == 0 ? 1 : 0));
}

TEST_CASE(
    "training: ranks that divide a batch have different random seeds, and those that divide a layer the same",
    "[dist][train]") {
  Task task = classes();
  task.make_model_with = mlp;
  for (const int tensor : {1, 2}) {
    if (all_communicators().front().communicator->size() % tensor != 0) continue;
    INFO(tensor << " ranks divide a layer");
    TrainerOptions options;
    options.device = device_of_run();
    options.data.batch_size = kSamples;
    options.distribution.tensor_parallel = tensor;
    options.observation.quiet = true;
    Trainer trainer(task, options);
    Communicator& comm = trainer.comm();
    std::vector<std::int64_t> seeds;  // of all ranks
    trainer.after_step([&](const Trainer::Step&) {
      const std::vector<std::int64_t> own = {static_cast<std::int64_t>(default_generator().seed)};
      const Tensor all = empty({comm.size()}, DType::i64, comm.device());
      comm.all_gather(copy_to(from_vector(own, {1}), comm.device()), all).wait();
      seeds = all.to_vector<std::int64_t>();
    });
    trainer.train();
    CHECK_THROWS_WITH(trainer.after_step([](const Trainer::Step&) {}),
                      ContainsSubstring("after_step() was called after train(), expected it before"));
    CHECK_THROWS_WITH(trainer.text_every(1, "text", [] { return std::string(); }),
                      ContainsSubstring("text_every() was called after train(), expected it before"));
    REQUIRE(std::ssize(seeds) == comm.size());
    for (std::size_t a = 0; a < seeds.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const auto ranks_of_layer = static_cast<std::size_t>(tensor);  // neighbours
        CHECK((seeds[a] == seeds[b]) == (a / ranks_of_layer == b / ranks_of_layer));
      }
    }
  }
}

TEST_CASE("training: all ranks wait while the first writes files", "[dist][train]") {
  const std::shared_ptr<Communicator>& ranks = all_communicators().front().communicator;
  // The first rank's folder, whose name all ranks use.
  const TemporaryFolder folder;
  const std::string own = folder.path();
  const Tensor letters = copy_to(
      from_vector(std::vector<std::int32_t>(own.begin(), own.end()), {std::ssize(own)}), ranks->device());
  ranks->broadcast(letters, 0).wait();
  std::string name;
  for (const std::int32_t letter : letters.to_vector<std::int32_t>()) name += static_cast<char>(letter);

  Task task = classes();
  task.make_model = [] { return make_mlp({4, 8, kClasses}); };
  TrainerOptions options;
  options.device = device_of_run();
  options.data.batch_size = kSamples;  // a step for each of 5 epochs
  options.data.epochs = 5;
  options.checkpoint.folder = name + "/checkpoints";
  options.checkpoint.every = 2;
  options.observation.quiet = true;
  Trainer trainer(task, options);
  const auto barriers = [&] {
    return trainer.comm().collectives()[static_cast<std::size_t>(CommOperation::barrier)].calls;
  };
  CHECK(barriers() == 0);
  trainer.train();
  // For the checkpoints after steps 2, 4 and 5, and for the files at the end. One rank alone does not wait.
  const bool is_alone = ranks->size() == 1;
  CHECK(barriers() == (is_alone ? 0u : 4u));
  trainer.barrier();
  CHECK(barriers() == (is_alone ? 0u : 5u));
}

TEST_CASE("training: the memory formula of a rank's part of a GPT has its parameters, gradients and states",
          "[dist][train][bytes]") {
  using enum MemoryCategory;
  const std::shared_ptr<Communicator>& world = all_communicators().front().communicator;
  if (world->size() != 2) return;
  DistributionOptions tensor, sequence, context, stages, chunks;
  tensor.tensor_parallel = sequence.tensor_parallel = 2;
  sequence.sequence_parallel = true;
  context.context_parallel = 2;
  stages.pipeline_parallel = chunks.pipeline_parallel = 2;
  chunks.pipeline_schedule = PipelineScheduleKind::interleaved;
  chunks.pipeline_chunks = 2;
  for (const DistributionOptions& ranks : {tensor, sequence, context, stages, chunks}) {
    INFO(ranks.tensor_parallel << " x " << ranks.context_parallel << " x " << ranks.pipeline_parallel
                               << " ranks, sequence parallelism " << ranks.sequence_parallel << ", "
                               << ranks.pipeline_chunks << " chunks");
    TransformerOptions shape{.vocabulary = kClasses, .context = 8, .layers = 5, .heads = 2, .width = 40};
    shape.bias = false;
    const auto data = windows_of_text(8);
    Task task = language_model_task("", data, data);
    task.make_model_with = [&](const auto& layers) { return std::make_shared<GPT>(shape, layers); };
    BytesByCategory formula;
    task.estimate_memory = [&](const UpdateShape& update) {
      return formula = estimate_memory(GptMemoryProblem{.model = shape,
                                                        .sequences = update.micro_batch,
                                                        .state_per_parameter = update.state_per_parameter,
                                                        .compute = update.compute,
                                                        .part = update.part});
    };
    TrainerOptions options;
    options.device = device_of_run();
    options.data = {.epochs = 1, .batch_size = 12};
    options.accumulation.micro_batch = 4;
    options.optimizer.kind = &optimizer_named("adamw");
    options.distribution = ranks;
    options.observation.quiet = options.observation.memory_report = true;
    const BytesByCategory before = memory_stats(world->device()).live_by_category;
    BytesByCategory live;
    Trainer trainer(task, options);
    trainer.after_step([&](const Trainer::Step&) { live = memory_stats(world->device()).live_by_category; });
    trainer.train();
    for (const MemoryCategory category : {parameters, gradients, optimizer_state}) {
      CHECK(live[category] - before[category] == formula[category]);
    }
  }
}

TEST_CASE("training: the whole of a sharded model is a new model, with its values", "[dist][train]") {
  Task task = classes();
  task.make_model = [] { return make_mlp({4, 8, kClasses}); };
  TrainerOptions options;
  options.device = device_of_run();
  options.data.batch_size = kSamples;
  options.observation.quiet = true;
  Trainer whole(task, options);
  options.distribution.zero = 3;
  Trainer sharded(task, options);
  const bool is_first = sharded.comm().rank() == 0, is_sharded = sharded.comm().size() > 1;
  const auto compare_models = [&] {
    const auto model = sharded.whole_model(), expected = whole.whole_model();
    REQUIRE((model != nullptr) == is_first);
    for (const NamedParameter& parameter :
         expected == nullptr ? std::vector<NamedParameter>{} : expected->named_parameters()) {
      check_close(model->parameter(parameter.name).to_doubles(), parameter.tensor->to_doubles(), 1e-5, 1e-6);
    }
  };
  CHECK_THAT(sharded.evaluate().loss, Catch::Matchers::WithinRel(whole.evaluate().loss, 1e-6));
  compare_models();
  sharded.train();
  whole.train();
  compare_models();
  options.checkpoint = {.folder = "never written", .resume = true};
  Trainer resumed(task, options);
  resumed.evaluate();
  if (is_sharded) CHECK_THROWS_WITH(resumed.train(), ContainsSubstring("with ZeRO 3 and resume"));

  const std::shared_ptr<Module> only = make_mlp({4, 8, kClasses});
  task.make_model = [only] { return only; };
  Trainer again(task, options);
  if (is_first && is_sharded) {
    CHECK_THROWS_WITH(again.whole_model(), ContainsSubstring("expected a new one"));
  } else {
    CHECK((again.whole_model() == nullptr) == !is_first);
  }
}

}  // namespace
}  // namespace ringtape::test
