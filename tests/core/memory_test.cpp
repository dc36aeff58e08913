#include "core/memory.h"
#include "autograd/ops.h"

#include <thread>

#include "core/error.h"
#include "core/tensor.h"
#include "data/regression.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/adam.h"
#include "tests/support/catch.h"
#include "tests/support/tensors.h"

namespace ringtape::test {
namespace {

std::size_t live(MemoryCategory category) {
  return memory_stats({}).live_by_category[category];
}

}  // namespace

TEST_CASE("memory counts for the category of the innermost scope, until it is freed", "[memory]") {
  using enum MemoryCategory;
  const BytesByCategory before = memory_stats({}).live_by_category;
  const auto more = [&](MemoryCategory category) { return live(category) - before[category]; };
  {
    Tensor kept;
    {
      const MemoryScope outer(data);
      const Tensor a = empty({100});
      {
        const MemoryScope inner(workspace);
        kept = empty({64});
      }
      const Tensor b = empty({64});
      std::thread([] { empty({1}); }).join();  // scopes belong to a thread
      CHECK(more(data) == 512 + 256);
    }
    CHECK(more(data) == 0);
    CHECK(more(workspace) == 256);  // counted where it was taken
    const Tensor c = empty({1});
    CHECK(more(other) == 256);
  }
  CHECK(memory_stats({}).live_by_category == before);
}

TEST_CASE("the categories of the peak are those of the moment when the peak was first reached", "[memory]") {
  using enum MemoryCategory;
  reset_peak_memory({});
  const MemoryStats before = memory_stats({});
  CHECK(before.peak_by_category == before.live_by_category);
  const auto take = [](MemoryCategory category, std::int64_t elements) {
    const MemoryScope scope(category);
    return empty({elements});
  };
  const auto at_peak = [&](MemoryCategory category) {
    return memory_stats({}).peak_by_category[category] - before.live_by_category[category];
  };
  Tensor a = take(data, 640);
  {
    const Tensor b = take(activations, 64);
    CHECK(at_peak(activations) == 256);
  }
  a = Tensor();
  const Tensor c = take(activations, 700);  // as much as the peak, but not more
  CHECK(memory_stats({}).peak == before.live + 2816);
  CHECK(at_peak(data) == 2560);
  CHECK(at_peak(activations) == 256);
  const Tensor d = take(workspace, 64);
  CHECK(at_peak(data) == 0);
  CHECK(at_peak(activations) == 2816);
  CHECK(at_peak(workspace) == 256);
  CHECK(memory_stats({}).peak_by_category.total() == memory_stats({}).peak);
  CHECK(memory_stats({}).live_by_category.total() == memory_stats({}).live);
}

TEST_CASE("a recording holds the allocations and frees, in order", "[memory]") {
  const Tensor before = empty({64});
  MemoryRecording recording({});
  CHECK(recording.start() == memory_stats({}).live_by_category);
  {
    const MemoryScope scope(MemoryCategory::workspace);
    const Tensor a = empty({100});
    const Tensor b = empty({1});
  }
  recording.stop();
  const Tensor after = empty({64});
  std::vector<std::int64_t> bytes;
  auto time = recording.begin();
  for (const MemoryEvent& event : recording.events()) {
    CHECK(event.category == MemoryCategory::workspace);
    CHECK(event.time >= time);
    time = event.time;
    CHECK(event.thread == std::this_thread::get_id());
    bytes.push_back(event.bytes);
  }
  CHECK(bytes == std::vector<std::int64_t>{512, 256, -256, -512});
}

TEST_CASE("two recordings of memory at once", "[memory]") {
  MemoryRecording first({});
  const Tensor a = empty({64});
  MemoryRecording second({});
  CHECK(second.start().total() == first.start().total() + 256);
  CHECK(second.begin() > first.begin());
  const Tensor b = empty({128});
  second.stop();
  const Tensor c = empty({64});
  first.stop();
  REQUIRE(first.events().size() == 3);
  REQUIRE(second.events().size() == 1);
  CHECK(second.events()[0].bytes == 512);
  CHECK(first.events()[1].time == second.events()[0].time);
}

TEST_CASE("the memory of a training step is counted by category", "[memory]") {
  using enum MemoryCategory;
  const std::shared_ptr<Sequential> model = make_mlp({40, 32, 10});
  const Tensor x = tensor_of(random_doubles(16 * 40, 1), {16, 40});
  const Tensor targets = tensor_of(std::vector<double>(16, 3), {16}, DType::i64);
  const BytesByCategory before = memory_stats({}).live_by_category;
  const auto more = [&](const BytesByCategory& now, MemoryCategory category) {
    return now[category] - before[category];
  };
  ParameterArena arena(*model, Device{});
  Adam optimizer(arena);
  const auto in_arena = static_cast<std::size_t>(arena.size()) * 4;
  MemoryStats now = memory_stats({});
  CHECK(more(now.live_by_category, parameters) == in_arena);
  CHECK(more(now.live_by_category, gradients) == in_arena);
  CHECK(more(now.live_by_category, optimizer_state) == 2 * in_arena);

  reset_peak_memory({});
  const Tensor loss = cross_entropy((*model)(x), targets);
  now = memory_stats({});
  CHECK(more(now.live_by_category, activations) == 16 * 32 * 4 + 3 * 256);  // ReLU's output, and the logits
  CHECK(more(now.live_by_category, activation_gradients) == 0);
  loss.backward();
  now = memory_stats({});
  CHECK(more(now.live_by_category, activations) == 0);
  CHECK(more(now.live_by_category, activation_gradients) == 0);
  // Most in backward, at the second layer: the hidden layer's gradient, and what the forward kept.
  CHECK(more(now.peak_by_category, activations) == 16 * 32 * 4 + 3 * 256);
  CHECK(more(now.peak_by_category, activation_gradients) == 16 * 32 * 4);
}

TEST_CASE("datasets count as data, and gradients of parameters without an arena as gradients", "[memory]") {
  const std::size_t data_before = live(MemoryCategory::data);
  const TensorDataset data = make_friedman1(100, 1);
  CHECK(live(MemoryCategory::data) > data_before);

  const std::size_t before = live(MemoryCategory::gradients);
  Linear layer(8, 8);
  sum(layer(tensor_of(random_doubles(8, 1), {1, 8}))).backward();
  CHECK(live(MemoryCategory::gradients) - before == 256 + 256);
}

}  // namespace ringtape::test
