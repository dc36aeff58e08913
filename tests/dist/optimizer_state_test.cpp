#include "dist/optimizer_state.h"

#include <algorithm>
#include <map>

#include "nn/gpt.h"
#include "optim/adam.h"
#include "tests/dist/zero_trainer.h"
#include "tests/support/catch.h"

using namespace ringtape;
using namespace ringtape::test;

namespace {

constexpr std::int64_t kBatch = 24;

/// Weights and state by name, as rank 0 writes them to a file.
using Saved = std::map<std::string, std::vector<double>>;

/// A rank's part of update `step`, for any number of ranks.
void update(ZeroTrainer& trainer, std::uint64_t step) {
  const std::int64_t comm = trainer.comm->size(), rank = trainer.comm->rank();
  const std::int64_t first = kBatch * rank / comm, end = kBatch * (rank + 1) / comm;
  trainer.accumulate(Data(kBatch, step), cut({first, end - first}, 2), true);
  trainer.step();
}

Saved save(ZeroTrainer& trainer) {
  Saved saved;
  trainer.arena.gather_values();
  for (const ArenaEntry& entry : trainer.arena.entries()) saved[entry.name] = entry.tensor->to_doubles();
  for (const auto& [name, tensor] : gather_optimizer_state(*trainer.optimizer, *trainer.comm)) {
    saved["state." + name] = tensor.to_doubles();
  }
  return saved;
}

void load(ZeroTrainer& trainer, const Saved& saved) {
  const std::vector<NamedTensor> state = gather_optimizer_state(*trainer.optimizer, *trainer.comm);
  const auto copy = [&saved](const std::string& name, Tensor tensor) {
    REQUIRE(saved.count(name) == 1);
    tensor.copy_from(tensor_of(saved.at(name), tensor.shape(), tensor.dtype(), tensor.device()));
  };
  if (trainer.comm->rank() == 0) {
    for (const ArenaEntry& entry : trainer.arena.entries()) copy(entry.name, *entry.tensor);
    for (const auto& [name, tensor] : state) copy("state." + name, tensor);
  }
  trainer.comm->broadcast(trainer.arena.values(), 0).wait();
  trainer.arena.bump_versions();
  scatter_optimizer_state(*trainer.optimizer, *trainer.comm, state);
}

}  // namespace

TEST_CASE("ZeRO: what a stage from 0 to 2 has saved goes on with any other, on as many ranks and on fewer",
          "[dist][zero]") {
  const auto comm = this_run();
  for (const std::string& optimizer : optimizer_names()) {
    ZeroTrainer uninterrupted(comm, {.optimizer = optimizer});
    for (std::uint64_t step = 0; step < 4; ++step) update(uninterrupted, step);
    const std::vector<std::vector<double>> expected = uninterrupted.values();
    for (const int before : {0, 1, 2}) {
      ZeroTrainer stopped(comm, {.stage = before, .optimizer = optimizer});
      for (std::uint64_t step = 0; step < 2; ++step) update(stopped, step);
      const Saved saved = save(stopped);
      for (int fewer = 1; fewer <= comm->size(); ++fewer) {
        const auto some = comm->split(comm->rank() < fewer ? 0 : -1, 0);
        if (some == nullptr) continue;
        for (const int after : {0, 1, 2}) {
          INFO(optimizer << ", stage " << before << " on " << comm->size() << " ranks, then stage " << after
                         << " on " << fewer);
          ZeroTrainer resumed(
              some,
              {.stage = after, .optimizer = optimizer, .bucket_sizes = {700, 3000}});  // another layout, too
          load(resumed, saved);
          for (std::uint64_t step = 2; step < 4; ++step) update(resumed, step);
          const std::vector<std::vector<double>> found = resumed.values();
          for (std::size_t i = 0; i < found.size(); ++i) {
            check_close(found[i], expected[i], 0, 1e-6 * largest_of(expected[i]));
          }
        }
      }
    }
  }
}

TEST_CASE("optimizer state is saved by parameter, under PyTorch's names", "[dist][zero]") {
  const auto comm = this_run();
  for (const int stage : {0, 1}) {
    ZeroTrainer trainer(comm, {.stage = stage, .optimizer = "adamw", .hidden = {}});
    std::vector<std::string> found;
    for (const auto& [name, tensor] : gather_optimizer_state(*trainer.optimizer, *comm)) {
      found.push_back(name + to_string(tensor.shape()));
    }
    std::vector<std::string> expected = {"exp_avg.0.bias[5]", "exp_avg.0.weight[5, 12]",
                                         "exp_avg_sq.0.bias[5]", "exp_avg_sq.0.weight[5, 12]", "step[2]"};
    if (stage > 0 && comm->rank() != 0) expected = {"step[2]"};
    CHECK(found == expected);
  }
}

TEST_CASE("optimizer state: step counts have one order in files, in each ZeRO stage", "[dist][zero]") {
  const auto comm = this_run();
  const TransformerOptions shape{.vocabulary = 11, .context = 4, .layers = 2, .heads = 1, .width = 8};
  GPT whole(shape), sharded(shape);
  const ParameterArena by_registration(whole, comm->device());
  ParameterArena by_units(sharded, comm->device(), DType::f32,
                          {.zero_stage = 3, .rank = comm->rank(), .world_size = comm->size()});
  const AdamW optimizer(by_units);
  const std::vector<NamedTensor> states = optimizer.state();
  const auto steps =
      std::find_if(states.begin(), states.end(), [](const NamedTensor& each) { return each.name == "step"; });
  std::map<std::string, std::int64_t> number_of;
  std::vector<std::int64_t> in_file, by_entry;
  for (const ArenaEntry& entry : by_registration.entries()) {
    in_file.push_back(std::ssize(in_file));
    number_of[entry.name] = in_file.back();
  }
  for (const ArenaEntry& entry : by_units.entries()) by_entry.push_back(number_of.at(entry.name));
  CHECK(by_entry != in_file);
  Tensor counts = steps->tensor;
  counts.copy_from(from_vector(by_entry, counts.shape()));

  const std::vector<NamedTensor> gathered = gather_optimizer_state(optimizer, *comm);
  const auto found = std::find_if(gathered.begin(), gathered.end(),
                                  [](const NamedTensor& each) { return each.name == "step"; });
  CHECK(found->tensor.to_vector<std::int64_t>() == in_file);
  counts.copy_from(zeros(counts.shape(), counts.dtype()));
  scatter_optimizer_state(optimizer, *comm, gathered);
  CHECK(counts.to_vector<std::int64_t>() == by_entry);
}

TEST_CASE("ZeRO: optimizer state that was scattered can be read at once", "[dist][zero]") {
  const auto comm = this_run();
  for (const int i : {0, 1, 2, 3}) {
    const int stage = i % 2;
    const std::string optimizer = i < 2 ? "adamw" : "sgd";  // with a tensor for all parameters, and without
    INFO(optimizer << ", stage " << stage);
    const ZeroTrainer trainer(comm, {.stage = stage, .optimizer = optimizer});
    double elements = 0;
    for (const ArenaEntry& entry : trainer.arena.entries())
      elements += static_cast<double>(entry.tensor->elements());
    const std::vector<NamedTensor> whole = gather_optimizer_state(*trainer.optimizer, *comm);
    if (comm->rank() == 0) {
      for (const auto& [name, tensor] : whole) {
        Tensor target = tensor;
        target.copy_from(full(tensor.shape(), 3, tensor.dtype(), tensor.device()));
      }
    }
    scatter_optimizer_state(*trainer.optimizer, *comm, whole);
    // All of it first: the sums below wait for everything that was queued before them.
    std::vector<std::pair<NamedTensor, std::vector<double>>> read;
    for (const NamedTensor& state : trainer.optimizer->state()) {
      read.emplace_back(state, state.tensor.to_doubles());
    }
    for (const auto& [state, found] : read) {
      const auto& [name, tensor] = state;
      INFO(name);
      // The padding between and after the parameters of an arena is not set.
      CHECK(std::all_of(found.begin(), found.end(), [](double value) { return value == 3 || value == 0; }));
      const Tensor count = tensor_of({static_cast<double>(std::count(found.begin(), found.end(), 3))}, {1},
                                     DType::f32, comm->device());
      if (stage > 0) comm->all_reduce(count, ReduceOp::sum).wait();
      const bool is_per_element = name != "step";
      const auto copies = static_cast<double>(tensor.elements()) * (stage == 0 ? 1 : comm->size());
      CHECK(count.item() == (is_per_element ? elements : copies));
    }
  }
}
