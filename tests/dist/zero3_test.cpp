#include <algorithm>
#include <map>
#include <optional>

#include "autograd/creation.h"
#include "autograd/ops.h"
#include "core/memory.h"
#include "dist/optimizer_state.h"
#include "dist/self_communicator.h"
#include "nn/gpt.h"
#include "tests/dist/lamb.h"
#include "tests/dist/late_communicator.h"
#include "tests/dist/zero_trainer.h"
#include "tests/support/catch.h"
#include "tests/support/check_build.h"
#include "tests/support/error_of.h"
#include "tests/support/memory.h"

using namespace ringtape;
using namespace ringtape::test;

namespace {

using Weights = std::map<std::string, std::vector<double>>;

constexpr std::int64_t kTokens = 8;
constexpr std::int64_t kSequences = 8;

TransformerOptions gpt_options(bool tied = true) {
  TransformerOptions options;
  options.vocabulary = 40;
  options.context = kTokens;
  options.layers = 6;
  options.heads = 2;
  options.width = 32;
  options.tied = tied;
  return options;
}

/// How a GPT is trained.
struct How {
  int stage = 0;
  bool tied = true;
  std::int64_t recompute = 0;
  std::int64_t micro_batches = 1;
  double clip_norm = 0;
  DType dtype = DType::f32;
  std::string optimizer = "sgd";
  bool reshard = true;
};

std::unique_ptr<Optimizer> make(const std::string& name, ParameterArena& arena) {
  const std::vector<ParameterGroup> groups = {no_decay_below_two_dimensions()};
  if (name == "lamb") return lamb_with_large_eps(arena, {}, groups);
  const OptimizerKind& kind = optimizer_named(name);
  return kind.make(arena, kind.defaults, groups);
}

std::vector<std::int64_t> tokens_of(std::int64_t step, std::int64_t shift) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < kSequences * kTokens; ++i) {
    tokens.push_back((i * i + 7 * step + 3 * i + shift) % 40);
  }
  return tokens;
}

/// A GPT trained on this rank's share of kSequences sequences in each step.
class GptTrainer {
 public:
  GptTrainer(std::shared_ptr<Communicator> communicator, const How& with)
      : how(with),
        comm(std::move(communicator)),
        model((manual_seed(5 + static_cast<std::uint64_t>(comm->rank())), gpt_options(how.tied))),
        arena(model, comm->device(), how.dtype,
              {.zero_stage = how.stage,
               .rank = comm->rank(),
               .world_size = comm->size(),
               .bucket_sizes = {},
               .reshard_after_forward = how.reshard}),
        optimizer(make(how.optimizer, arena)),
        parallel(model, arena, comm) {
    parallel.promise_equal_ranks(true);
    model.set_recompute(how.recompute);
  }

  ~GptTrainer() {
    // In stage 2 waits for the last step's gathers, which keep memory that the next trainer would find.
    (how.dtype == DType::f32 ? arena.values() : arena.low_precision()).raw();
  }
  GptTrainer(const GptTrainer&) = delete;
  GptTrainer& operator=(const GptTrainer&) = delete;

  double loss_of(std::int64_t step, std::int64_t first, std::int64_t count, bool backward) {
    const TapeScope scope;
    const auto cut = [&](std::int64_t shift) {
      const std::vector<std::int64_t> all = tokens_of(step, shift);
      return std::vector<std::int64_t>(all.begin() + first * kTokens,
                                       all.begin() + (first + count) * kTokens);
    };
    const Tensor tokens = copy_to(from_vector(cut(0), {count, kTokens}), arena.device());
    const Tensor targets = copy_to(from_vector(cut(1), {count * kTokens}), arena.device());
    const double divisor = static_cast<double>(kSequences * kTokens) / comm->size();
    const Tensor loss = cross_entropy(view(model(tokens), {count * kTokens, 40}), targets,
                                      {.reduction = Reduction::sum, .divisor = divisor});
    if (backward) loss.backward();
    return loss.item();
  }

  /// The mean loss over the ranks.
  double step(std::int64_t number) {
    const std::int64_t own = kSequences / comm->size(), piece = own / how.micro_batches;
    optimizer->zero_grad();
    double loss = 0;
    for (std::int64_t i = 0; i < how.micro_batches; ++i) {
      const auto scope = parallel.no_sync(i + 1 < how.micro_batches);
      loss += loss_of(number, comm->rank() * own + i * piece, piece, true);
    }
    parallel.finish();
    if (how.clip_norm > 0) norms.push_back(clip_grad_norm(arena, how.clip_norm).item());
    optimizer->step();
    const Tensor mean = copy_to(from_vector(std::vector<double>{loss}, {1}), comm->device());
    comm->all_reduce(mean, ReduceOp::mean).wait();
    return mean.to_doubles()[0];
  }

  /// The whole model's weights, on rank 0; elsewhere empty.
  Weights weights() {
    Weights all;
    for (const auto& [name, tensor] : gather_weights(model, arena, *comm)) {
      if (comm->rank() == 0) all[name] = tensor.to_doubles();
    }
    return all;
  }

  How how;
  std::shared_ptr<Communicator> comm;
  GPT model;
  ParameterArena arena;
  std::unique_ptr<Optimizer> optimizer;
  DataParallel parallel;
  std::vector<double> norms;
};

struct Trained {
  std::vector<double> losses;
  std::vector<double> norms;
  Weights weights;
};

Trained train(const std::shared_ptr<Communicator>& comm, How how, int stage) {
  how.stage = stage;
  GptTrainer trainer(comm, how);
  Trained result;
  for (std::int64_t step = 0; step < repetitions(10); ++step) result.losses.push_back(trainer.step(step));
  result.norms = trainer.norms;
  result.weights = trainer.weights();
  return result;
}

void check_weights(const Weights& found, const Weights& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (const auto& [name, values] : expected) {
    INFO(name);
    check_close(found.at(name), values, 0, tolerance * largest_of(values));
  }
}

std::size_t live_parameters(Device device) {
  return memory_stats(device).live_by_category[MemoryCategory::parameters];
}

std::uint64_t gathers_of(const Communicator& comm) {
  return comm.collectives()[static_cast<std::size_t>(CommOperation::all_gather)].calls;
}

}  // namespace

TEST_CASE("ZeRO 3: a GPT is trained as by one rank", "[dist][zero]") {
  const auto comm = this_run();
  const std::vector<How> ways = {{.tied = true},
                                 {.tied = false, .micro_batches = 2},
                                 {.recompute = 1, .micro_batches = 2, .clip_norm = 0.1},
                                 {.recompute = 2, .clip_norm = 0.1},
                                 {.clip_norm = 0.1, .optimizer = "lamb"}};
  for (const How& way : ways) {
    if (kSequences / comm->size() % way.micro_batches != 0 || kSequences % comm->size() != 0) continue;
    INFO("tied " << way.tied << ", recompute " << way.recompute << ", " << way.micro_batches
                 << " micro-batches, clipped to " << way.clip_norm << ", " << way.optimizer);
    const Trained found = train(comm, way, 3);
    const Trained one = train(std::make_shared<SelfCommunicator>(comm->device()), way, 0);
    check_close(found.losses, one.losses, 1e-5);
    check_close(found.norms, one.norms, 1e-4);
    if (way.clip_norm > 0) CHECK(one.norms[0] > 2 * way.clip_norm);
    if (comm->rank() == 0) check_weights(found.weights, one.weights, 1e-5);
  }
}

TEST_CASE("ZeRO 3: the bits of ZeRO 2", "[dist][zero]") {
  const auto comm = this_run();
  if (comm->size() > 2) return;  // the order of three additions is the communicator's
  for (const How& way : {How{.micro_batches = 2}, How{.tied = false, .recompute = 1},
                         How{.micro_batches = 2, .reshard = false}, How{.recompute = 1, .reshard = false},
                         How{.micro_batches = 2, .dtype = DType::bf16, .optimizer = "adamw"}}) {
    INFO("recompute " << way.recompute << ", " << name_of(way.dtype));
    const Trained found = train(comm, way, 3), expected = train(comm, way, 2);
    CHECK(found.losses == expected.losses);
    CHECK(found.weights == expected.weights);
  }
}

TEST_CASE("ZeRO 3: a rank never has more parameters than its shard and three units", "[dist][zero]") {
  const auto comm = this_run();
  const Device device = comm->device();
  if (comm->size() == 1 || kSequences % comm->size() != 0) return;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t recompute : {0, 1}) {
      INFO(name_of(dtype) << ", recompute " << recompute);
      const std::size_t before = live_parameters(device);
      GptTrainer trainer(comm, {.stage = 3, .recompute = recompute, .dtype = dtype, .optimizer = "adamw"});
      // By hand, of width w = 32: a block has 12 w^2 + 13 w elements, and the rest 40 w + 8 w + 2 w.
      const double block = 12 * 32 * 32 + 13 * 32, rest = 50 * 32, all = 6 * block + rest;
      const double copy = dtype == DType::f32 ? 0 : 2;
      const double shard = all / comm->size() * (4 + copy);
      const double units = (2 * block + rest) * (copy > 0 ? copy : 4);
      CHECK(static_cast<double>(live_parameters(device) - before) < 1.05 * shard);
      const std::size_t most = peak_of(MemoryCategory::parameters, device, [&] {
        trainer.step(0);
        trainer.loss_of(1, 0, 1, false);  // as in an evaluation
      });
      const auto found = static_cast<double>(most - before);
      CHECK(found < 1.05 * (shard + units));
      CHECK(found > 0.95 * (shard + units));
      CHECK(found < all * (4 + copy));
      CHECK(static_cast<double>(live_parameters(device) - before) < 1.05 * shard);
      // Optimizer state and gradients are of the shard too.
      CHECK(trainer.arena.gradients().elements() == trainer.arena.shard_size());
      CHECK(static_cast<double>(trainer.arena.shard_size()) < 1.05 * all / comm->size());
    }
  }
}

TEST_CASE("ZeRO 3: a GPU holds at most a shard and a unit when training begins", "[dist][zero]") {
  const auto comm = this_run();
  const Device device = comm->device();
  if (!device.is_cuda() || comm->size() == 1) return;  // on a CPU the model itself is created in this memory
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::size_t before = live_parameters(device);
    std::optional<GptTrainer> trainer;
    const std::size_t most = peak_of(MemoryCategory::parameters, device, [&] {
      trainer.emplace(comm, How{.stage = 3, .dtype = dtype, .optimizer = "adamw"});
    });
    const double block = 12 * 32 * 32 + 13 * 32, all = 6 * block + 50 * 32;  // elements, as above
    const double shard = all / comm->size() * (dtype == DType::f32 ? 4 : 6);
    CHECK(static_cast<double>(most - before) < 1.05 * (shard + 4 * block));
  }
}

TEST_CASE("ZeRO 3: each unit is gathered once for forward and once for backward", "[dist][zero]") {
  const auto comm = this_run();
  if (comm->size() == 1 || kSequences % comm->size() != 0) return;
  for (const std::int64_t recompute : {0, 1}) {
    for (const bool reshard : {true, false}) {
      GptTrainer trainer(comm, {.stage = 3, .recompute = recompute, .reshard = reshard});
      for (int step = 0; step < 2; ++step) {
        const std::uint64_t before = gathers_of(*comm);
        trainer.step(step);
        CHECK(gathers_of(*comm) - before == (reshard ? 2 : 1) * 7);  // six blocks and the rest
        const std::uint64_t trained = gathers_of(*comm);
        const NoGrad no_grad;
        trainer.loss_of(step, 0, 1, false);  // as in an evaluation, which keeps nothing
        CHECK(gathers_of(*comm) - trained == 7);
      }
    }
  }
}

TEST_CASE("ZeRO 3 without resharding: a rank holds at most all units, and only until backward",
          "[dist][zero]") {
  const auto comm = this_run();
  const Device device = comm->device();
  if (comm->size() == 1 || kSequences % comm->size() != 0) return;
  const std::size_t before = live_parameters(device);
  GptTrainer trainer(comm, {.stage = 3, .optimizer = "adamw", .reshard = false});
  const double all = 4.0 * (6 * (12 * 32 * 32 + 13 * 32) + 50 * 32);  // bytes, by hand as above
  const std::size_t most = peak_of(MemoryCategory::parameters, device, [&] { trainer.step(0); });
  CHECK(static_cast<double>(most - before) == Approx(all + all / comm->size()).epsilon(0.05));
  CHECK(static_cast<double>(live_parameters(device) - before) < 1.05 * all / comm->size());
}

TEST_CASE("ZeRO 3 without resharding: values that changed after a forward are gathered again",
          "[dist][zero]") {
  const auto comm = this_run();
  if (comm->size() == 1) return;
  const auto layer = std::make_shared<Linear>(4, 4);
  Sequential model({layer});
  ArenaSharding sharding = sharding_of(*comm, 3, 1);
  sharding.reshard_after_forward = false;
  ParameterArena arena(model, comm->device(), DType::f32, sharding);
  const DataParallel parallel(model, arena, comm);
  const Tensor x = tensor_of({1, 2, 3, 4}, {1, 4}, DType::f32, comm->device());
  const TapeScope scope;
  model(x);  // without a backward, which would free it
  Tensor values = arena.values();
  values.copy_from(full({values.elements()}, 0.5, DType::f32, comm->device()));
  arena.bump_versions();
  CHECK(model(x).to_doubles() == std::vector<double>{5.5, 5.5, 5.5, 5.5});
}

namespace {

/// A linear layer that records how many gathers have been started when its forward begins and when backward
/// reaches it.
class Watched : public Linear {
 public:
  Watched(const Communicator& comm, std::vector<std::uint64_t>& noted)
      : Linear(4, 4), comm_(comm), noted_(noted) {}

  Tensor forward(const Tensor& x) override {
    noted_.push_back(gathers_of(comm_));
    const Tensor result = Linear::forward(x);
    Tensor y = result.detach();
    Tape::current().record("watch", {result}, y, {}, [this](BackwardContext& context) {
      noted_.push_back(gathers_of(comm_));
      context.add_grad(0, std::move(context.grad_output()));
    });
    return y;
  }

 private:
  const Communicator& comm_;
  std::vector<std::uint64_t>& noted_;
};

}  // namespace

TEST_CASE("ZeRO 3: the gather of the next unit is in flight during the computation of one", "[dist][zero]") {
  const auto comm = this_run();
  if (comm->size() == 1) return;
  std::vector<std::uint64_t> noted;
  Sequential model;
  for (int i = 0; i < 4; ++i) model.push_back(std::make_shared<Watched>(*comm, noted));
  ParameterArena arena(model, comm->device(), DType::f32, sharding_of(*comm, 3, 1));
  const auto optimizer = make("sgd", arena);
  DataParallel parallel(model, arena, comm);
  const Tensor x = tensor_of({1, 2, 3, 4}, {1, 4}, DType::f32, comm->device());
  for (int step = 0; step < 2; ++step) {
    noted.clear();
    const std::uint64_t before = gathers_of(*comm);
    const TapeScope scope;
    optimizer->zero_grad();
    sum(model(x)).backward();
    parallel.finish();
    optimizer->step();
    for (std::uint64_t& calls : noted) calls -= before;
    // Forward begins in layer i with i + 2 gathers, its own and the next; backward reaches the last layer
    // with the 4 of the forward.
    CHECK(noted == std::vector<std::uint64_t>{2, 3, 4, 4, 4, 6, 7, 8});
    CHECK(gathers_of(*comm) - before == 8);
  }
}

TEST_CASE("ZeRO 3: a gather started before values changed is not used", "[dist][zero]") {
  const auto comm = this_run();
  if (comm->size() == 1) return;
  const auto first = std::make_shared<Linear>(4, 4), second = std::make_shared<Linear>(4, 4);
  Sequential model({first, second});
  ParameterArena arena(model, comm->device(), DType::f32, sharding_of(*comm, 3, 1));
  const DataParallel parallel(model, arena, comm);
  const Tensor x = tensor_of({1, 2, 3, 4}, {1, 4}, DType::f32, comm->device());
  const NoGrad no_grad;
  (*first)(x);      // starts the gather of the second
  comm->barrier();  // it is complete
  Tensor values = arena.values();
  values.copy_from(full({values.elements()}, 0.5, DType::f32, comm->device()));
  arena.bump_versions();
  // Weights and biases of 0.5, in the order of four equal outputs.
  CHECK((*second)(x).to_doubles() == std::vector<double>{5.5, 5.5, 5.5, 5.5});
}

TEST_CASE("ZeRO 3: a unit that is read after its gradients are complete is freed too", "[dist][zero]") {
  const auto comm = this_run();
  if (comm->size() == 1 || kSequences % comm->size() != 0) return;
  const std::size_t before = live_parameters(comm->device());
  GptTrainer trainer(comm, {.stage = 3});
  // The first operations of a block are the last in backward.
  trainer.model.parameter("h.1.ln_1.weight").set_requires_grad(false);
  trainer.model.parameter("h.1.ln_1.bias").set_requires_grad(false);
  const std::size_t sharded = live_parameters(comm->device());
  trainer.step(0);
  CHECK(live_parameters(comm->device()) <=
        sharded);  // less if a communicator still held a unit when it was measured
  CHECK(sharded > before);
}

TEST_CASE("ZeRO 3: a gather that backward did not use is waited for and freed", "[dist][zero]") {
  const auto comm = this_run();
  if (comm->size() == 1) return;
  const auto model = make_mlp({32, 32, 4});
  ParameterArena arena(*model, comm->device(), DType::f32, sharding_of(*comm, 3, 1));
  DataParallel parallel(*model, arena, comm);
  const std::size_t sharded = live_parameters(comm->device());
  const int dropped = gathers_nobody_waited_for();
  // No gradient of x is needed, so backward does not read the first layer's weight, whose gather it started
  // while it computed with the second layer's.
  sum((*model)(full({1, 32}, 1, DType::f32, comm->device()))).backward();
  parallel.finish();
  CHECK(live_parameters(comm->device()) == sharded);
  CHECK(gathers_nobody_waited_for() == dropped);
}

TEST_CASE("ZeRO: a parameter that is frozen after the arena is made gets rank 0's values too",
          "[dist][zero]") {
  const auto comm = this_run();
  if (comm->size() == 1) return;
  for (const int stage : {0, 1, 2, 3}) {
    const auto model = make_mlp({4, 4, 4});
    for (const NamedParameter& parameter : model->named_parameters()) {
      const NoGrad no_grad;
      parameter.tensor->copy_from(full(parameter.tensor->shape(), 1 + comm->rank()));
    }
    ParameterArena arena(*model, comm->device(), DType::f32, sharding_of(*comm, stage, 1));
    model->parameter("0.weight").set_requires_grad(false);
    const DataParallel parallel(*model, arena, comm);
    const NoGrad no_grad;
    const Tensor y = (*model)(full({1, 4}, 1, DType::f32, comm->device()));
    CHECK(y.to_doubles() == std::vector<double>(4, 4 * (4 + 1) + 1));
  }
}

namespace {

/// A module of a Sequential that computes with its own weight, or with that of `owner`.
class Scaled : public Module {
 public:
  explicit Scaled(Scaled* owner) {
    if (owner == nullptr) {
      weight_ = &register_parameter("weight", full({4, 4}, 0.5));
    } else {
      weight_ = owner->weight_;
      share_parameter("weight", *owner->weight_);
    }
    bias_ = &register_parameter("bias", full({4}, 0.25));
  }
  Tensor forward(const Tensor& x) override { return linear(x, *weight_, *bias_); }

 private:
  Tensor* weight_;
  Tensor* bias_;
};

}  // namespace

TEST_CASE("ZeRO 3: a weight of two units is in memory for both", "[dist][zero]") {
  const auto comm = this_run();
  std::vector<std::vector<double>> results;
  for (const int stage : {0, 3}) {
    const auto first = std::make_shared<Scaled>(nullptr);
    Sequential model({first, std::make_shared<ReLU>(), std::make_shared<Scaled>(first.get())});
    ParameterArena arena(model, comm->device(), DType::f32, sharding_of(*comm, stage, 1));
    const auto optimizer = make("sgd", arena);
    DataParallel parallel(model, arena, comm);
    for (int step = 0; step < 3; ++step) {
      const TapeScope scope;
      const Tensor x = tensor_of({1, -2, 3, 4}, {1, 4}, DType::f32, comm->device());
      optimizer->zero_grad();
      sum(model(x)).backward();
      parallel.finish();
      optimizer->step();
    }
    const NoGrad no_grad;
    results.push_back(model(tensor_of({1, 1, 1, 1}, {1, 4}, DType::f32, comm->device())).to_doubles());
  }
  check_close(results[1], results[0], 1e-6);
}

TEST_CASE("ZeRO 3: reading a parameter outside of its unit's forward is an error", "[dist][zero]") {
  const auto comm = this_run();
  if (comm->size() == 1 || kSequences % comm->size() != 0) return;
  GptTrainer trainer(comm, {.stage = 3});
  CHECK_THAT(error_of([&] { trainer.model.parameter("h.0.ln_1.weight").to_doubles(); }),
             ContainsSubstring("are not in memory: a parameter sharded by ZeRO stage 3"));
}

TEST_CASE("ZeRO 3: a model outlives its DataParallel, and another takes over", "[dist][zero]") {
  const auto comm = this_run();
  if (comm->size() == 1) return;
  manual_seed(static_cast<std::uint64_t>(comm->rank()));
  const auto model = make_mlp({4, 8, 3});
  const Tensor x = tensor_of({1, 2, 3, 4}, {1, 4}, DType::f32, comm->device());
  ParameterArena arena(*model, comm->device(), DType::f32, sharding_of(*comm, 3, 1));
  std::optional<DataParallel> parallel(std::in_place, *model, arena, comm);
  const NoGrad no_grad;
  const std::vector<double> y = (*model)(x).to_doubles();
  parallel.reset();
  CHECK((*model)(x).to_doubles() == y);
  parallel.emplace(*model, arena, comm);
  CHECK((*model)(x).to_doubles() == y);
}
