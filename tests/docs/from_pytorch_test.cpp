// Runs the code of docs/from-pytorch.md (tests/docs/excerpts_test.py) on one rank; the code that divides a
// model is in tests/dist/from_pytorch_test.cpp.
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "autograd/creation.h"
#include "autograd/ops.h"
#include "autograd/recompute.h"
#include "dist/connect.h"
#include "dist/data_parallel.h"
#include "io/json.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "nn/model_file.h"
#include "optim/accumulation.h"
#include "optim/adam.h"
#include "optim/checkpoint.h"
#include "optim/clip.h"
#include "optim/loss_scaler.h"
#include "optim/schedule.h"
#include "optim/sgd.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "train/trainer.h"

namespace ringtape::test {
namespace {

class ToyModel : public Module {
 public:
  ToyModel() {
    net1_ = register_module("net1", std::make_shared<Linear>(10, 16));
    net2_ = register_module("net2", std::make_shared<Linear>(16, 5));
  }
  Tensor forward(const Tensor& x) override { return (*net2_)(relu((*net1_)(x))); }

 private:
  std::shared_ptr<Linear> net1_, net2_;
};

class Block : public Module {
 public:
  Block() {
    norm_ = register_module("norm", std::make_shared<Linear>(10, 10));
    mlp_ = register_module("mlp", std::make_shared<Linear>(10, 10));
  }
  Tensor forward(const Tensor& x) override {
    const auto branch = [this](const Tensor& in) { return (*mlp_)(gelu((*norm_)(in))); };
    return add(x, recompute(branch, x));
  }

 private:
  std::shared_ptr<Linear> norm_, mlp_;
};

class Model : public Module {
 public:
  Model() {
    for (const char* name : {"0", "1"}) blocks_.push_back(register_module(name, std::make_shared<Block>()));
    head_ = register_module("head", std::make_shared<Linear>(10, 5));
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (const auto& block : blocks_) y = (*block)(y);
    return (*head_)(y);
  }
  std::vector<Module*> fsdp_units() override { return {blocks_[0].get(), blocks_[1].get()}; }

 private:
  std::vector<std::shared_ptr<Block>> blocks_;
  std::shared_ptr<Linear> head_;
};

const Tensor& inputs() {
  static const Tensor x = (manual_seed(1), rand({12, 10}));
  return x;
}
const Tensor& targets() {
  static const Tensor labels = from_vector<std::int32_t>({0, 1, 2, 0, 1, 4, 2, 1, 0, 2, 3, 0}, {12});
  return labels;
}

std::vector<float> weight_of(Module& model, const char* name = "net1.weight") {
  return model.parameter(name).to_vector<float>();
}

/// The first weight after one step of SGD at rate 0.1 on all samples by one process.
std::vector<float> expected_weight() {
  manual_seed(2);
  ToyModel model;
  ParameterArena arena(model, Device{});
  SGD optimizer(arena, {.learning_rate = 0.1});
  optimizer.zero_grad();
  cross_entropy(model(inputs()), targets()).backward();
  optimizer.step();
  return weight_of(model);
}

/// The elements of all tensors, one after another.
std::vector<double> values_of(const std::vector<NamedTensor>& tensors) {
  std::vector<double> values;
  for (const NamedTensor& each : tensors) {
    const std::vector<double> some = each.tensor.to_doubles();
    values.insert(values.end(), some.begin(), some.end());
  }
  return values;
}

void overwrite(const std::vector<NamedTensor>& tensors) {
  const NoGrad no_grad;
  for (const NamedTensor& each : tensors) {
    Tensor tensor = each.tensor;
    tensor.copy_from(full(tensor.shape(), 9, tensor.dtype()));
  }
}

void check_close_to(const std::vector<float>& found, const std::vector<float>& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == Approx(expected[i]).margin(tolerance));
}

}  // namespace

TEST_CASE("docs/from-pytorch.md: DistributedDataParallel with accumulation", "[docs]") {
  const std::shared_ptr<Communicator> comm = connect({}, Device{});
  const Device device = comm->device();
  const std::vector<float> expected = expected_weight();
  manual_seed(2);
  const std::vector<MicroBatch> micro_batches = cut_into_micro_batches(12, 5);
  const TensorDataset batch(inputs(), targets());

  ToyModel model;
  ParameterArena arena(model, device);
  SGD optimizer(arena, {.learning_rate = 0.1});
  DataParallel parallel(model, arena, comm);

  optimizer.zero_grad();
  AccumulationWindow window(comm->size(), sum_over(comm));
  window.begin(batch.size());  // targets of this rank's whole batch
  for (const MicroBatch& piece : micro_batches) {
    const bool is_last = &piece == &micro_batches.back();
    const auto scope = parallel.no_sync(!is_last);
    const TensorDataset part = batch.slice(piece.first, piece.size);
    const Tensor output = model(part.all_features());
    const CrossEntropyOptions sum{.reduction = Reduction::sum, .divisor = window.divisor()};
    cross_entropy(output, part.all_targets(), sum).backward();
  }
  parallel.finish();
  optimizer.step();

  check_close_to(weight_of(model), expected, 1e-6);
}

TEST_CASE("docs/from-pytorch.md: GradScaler and clip_grad_norm_", "[docs]") {
  const std::vector<float> expected = expected_weight();
  const Device device;
  manual_seed(2);
  ToyModel model;

  ParameterArena arena(model, device, DType::f16);  // f32 weights, and an f16 copy to compute with
  SGD optimizer(arena, {.learning_rate = 0.1});
  LossScaler scaler(arena);

  optimizer.zero_grad();
  const Tensor output = model(to(inputs(), DType::f16));
  scaler.backward(cross_entropy(output, targets()));
  const Tensor norm = clip_grad_norm(arena, 1.0);  // of the unscaled gradients
  optimizer.step();                                // divides by the scale; skips the step on overflow
  scaler.update();

  CHECK(norm.item() < 1);  // so that nothing was clipped
  // The rate times gradients below 1, rounded by 2^-11. The steps are 2e-3 to 1e-2.
  check_close_to(weight_of(model), expected, 5e-5);
}

TEST_CASE("docs/from-pytorch.md: activation checkpointing", "[docs]") {
  manual_seed(3);
  Block block;
  ParameterArena arena(block, Device{});
  sum(block(inputs())).backward();
  const std::vector<float> found = block.parameter("mlp.weight").grad().to_vector<float>();
  arena.zero_grad();
  const Tensor hidden = gelu(linear(inputs(), block.parameter("norm.weight"), block.parameter("norm.bias")));
  sum(add(inputs(), linear(hidden, block.parameter("mlp.weight"), block.parameter("mlp.bias")))).backward();
  CHECK(block.parameter("mlp.weight").grad().to_vector<float>() == found);
}

TEST_CASE("docs/from-pytorch.md: fully_shard", "[docs]") {
  const std::shared_ptr<Communicator> comm = connect({}, Device{});
  const auto output_of = [](Model& some) {
    const NoGrad no_grad;
    return some(to(inputs(), DType::bf16)).to_doubles();
  };
  manual_seed(4);
  Model unsharded;
  ParameterArena of_unsharded(unsharded, comm->device(), DType::bf16);
  AdamW optimizer_of_unsharded(of_unsharded);
  const std::vector<double> before = output_of(unsharded);
  cross_entropy(unsharded(to(inputs(), DType::bf16)), targets()).backward();
  optimizer_of_unsharded.step();
  manual_seed(4);
  Model model;

  const ArenaSharding sharding{.zero_stage = 3, .rank = comm->rank(), .world_size = comm->size()};
  ParameterArena arena(model, comm->device(), DType::bf16, sharding);
  AdamW optimizer(arena);
  DataParallel parallel(model, arena, comm);

  optimizer.zero_grad();
  cross_entropy(model(to(inputs(), DType::bf16)), targets()).backward();
  parallel.finish();
  optimizer.step();
  CHECK(arena.units().size() == 3);
  CHECK(output_of(model) == output_of(unsharded));
  CHECK(output_of(model) != before);
}

TEST_CASE("docs/from-pytorch.md: schedulers", "[docs]") {
  ToyModel model;
  ParameterArena arena(model, Device{});
  AdamW optimizer(arena);
  const std::int64_t steps = 100, warmup = 10;

  const Schedule rate =
      schedule::warm_up(schedule::Warmup::linear, warmup, schedule::cosine(3e-4, steps - warmup));
  for (std::int64_t step = 0; step < steps; ++step) {
    optimizer.set_learning_rate(rate(step));
    // ... one update ...
  }

  CHECK(rate(0) == Approx(3e-4 / 11));
  CHECK(rate(warmup) == Approx(3e-4));
  CHECK(rate(steps) == Approx(0).margin(1e-12));
}

TEST_CASE("docs/from-pytorch.md: saving and loading", "[docs]") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "model.safetensors", json = folder.path() / "step.json";
  const std::shared_ptr<Communicator> comm = connect({}, Device{});
  ToyModel model;
  ParameterArena arena(model, comm->device());
  AdamW optimizer(arena);
  cross_entropy(model(inputs()), targets()).backward();
  optimizer.step();

  if (comm->rank() == 0) save_model(model, path);
  comm->barrier();
  load_model(model, path);  // on every rank

  const std::vector<double> weights = values_of(weights_of(model));
  overwrite(weights_of(model));
  load_model(model, path);
  CHECK(values_of(weights_of(model)) == weights);

  const auto tensors = [&] {
    std::vector<NamedTensor> all = weights_of(model);
    for (const NamedTensor& each : optimizer.state()) all.push_back({"optimizer." + each.name, each.tensor});
    return all;
  };
  CheckpointContents contents;
  contents.position.step = 7;
  contents.tensors = tensors();
  if (comm->rank() == 0) save_checkpoint(json, contents);
  comm->barrier();
  const Checkpoint saved(json);
  saved.load_into(tensors());
  arena.bump_versions();

  const std::vector<double> whole = values_of(tensors());
  overwrite(tensors());
  saved.load_into(tensors());
  CHECK(values_of(tensors()) == whole);
  CHECK(saved.position().step == 7);
}

TEST_CASE("docs/from-pytorch.md: all of it, by the trainer", "[docs]") {
  const TensorDataset samples(inputs(), targets());
  const TemporaryFolder folder;
  const std::filesystem::path checkpoints = folder.path() / "run";
  const auto train = std::make_shared<TensorDataset>(samples), test = train;

  Task task = classification_task("toy", train, test);
  task.make_model = [] { return std::make_shared<ToyModel>(); };
  TrainerOptions options;
  options.data = {.epochs = 2, .batch_size = 6};
  options.optimizer.kind = &optimizer_named("adamw");
  options.optimizer.learning_rate = 3e-4;
  options.optimizer.clip_norm = 1;
  options.schedule = {.kind = ScheduleKind::cosine, .warmup = 1};
  options.precision.dtype = DType::bf16;
  options.accumulation.micro_batch = 3;
  options.distribution.zero = 3;
  options.checkpoint = {.folder = checkpoints, .every = 2, .resume = true};
  options.observation.quiet = true;
  options.observation.metrics = folder.path() / "metrics.jsonl";
  Trainer trainer(task, options);
  std::vector<double> rates, losses;
  trainer.before_step([&](const Trainer::Step& step) { rates.push_back(step.learning_rate); });
  trainer.after_step([&](const Trainer::Step& step) { losses.push_back(step.loss.item()); });
  trainer.train();

  // A step of warm-up, halfway to the rate, then three steps along half a cosine.
  const std::vector<double> fractions = {0.5, 1, 0.75, 0.25};
  REQUIRE(rates.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(rates[i] == Approx(3e-4 * fractions[i]));
  REQUIRE(losses.size() == 4);
  std::ifstream metrics(options.observation.metrics);
  std::size_t step = 0;
  for (std::string line; std::getline(metrics, line);) {
    const Json record = Json::parse(line);
    if (record.find("loss") != nullptr) CHECK(record.at("loss").as_double() == Approx(losses.at(step++)));
  }
  CHECK(step == 4);

  // Two epochs of two batches of 6. The first run has written the checkpoint of its last step, so another
  // resumes there.
  CHECK(std::filesystem::is_regular_file(checkpoints / "step-000000000004.json"));
  CHECK(std::filesystem::is_regular_file(checkpoints / "step-000000000004.safetensors"));
  const TrainingResult result = Trainer(task, options).train();
  CHECK(result.steps == 4);
  CHECK(result.skipped == 0);
}

}  // namespace ringtape::test
