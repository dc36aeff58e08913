#include <utility>

#include "core/graph.h"

#include "autograd/tape.h"
#include "core/capture.h"
#include "core/error.h"
#include "core/graph_memory.h"
#include "core/memory.h"
#include "core/random.h"
#include "core/stream.h"
#include "kernels/pointwise.h"
#include "nn/layers.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "tests/support/catch.h"
#include "tests/support/gpu.h"
#include "tests/support/tensors.h"

namespace ringtape::test {
namespace {

TEST_CASE("a graph memory pool gives its blocks to a repetition of the work, and to no other allocation",
          "[graph]") {
  const GraphMemoryPool memory;
  const auto work = [&](std::vector<void*>& addresses) {
    const GraphMemoryPool::Scope scope(memory);
    const Tensor a = empty({100});
    addresses.push_back(a.raw());
    addresses.push_back(empty({50}).raw());
    addresses.push_back(empty({50}).raw());  // the one before is free again
    return a;
  };
  std::vector<void*> first, second, third;
  work(first);
  CHECK(first[1] == first[2]);
  const std::size_t live = memory_stats(Device{}).live;
  const Tensor outside = empty({100});
  CHECK(outside.raw() != first[0]);
  const Tensor held = work(second);
  CHECK(second == first);
  CHECK(memory_stats(Device{}).live == live + 512);  // only `outside`
  work(third);
  CHECK(third[0] != first[0]);  // a result that is still held is not overwritten
}

TEST_CASE("tensors outlive the graph memory pool that they are in", "[graph]") {
  const std::size_t live = memory_stats(Device{}).live;
  Tensor result;
  {
    const GraphMemoryPool memory;
    const GraphMemoryPool::Scope scope(memory);
    result = tensor_of({1, 2, 3}, {3});
  }
  CHECK(result.to_doubles() == std::vector<double>{1, 2, 3});
  result = Tensor();
  CHECK(memory_stats(Device{}).live == live);
}

TEST_CASE("what a graph cannot repeat is refused during a capture, by name", "[graph]") {
  const Tensor x = tensor_of({1}, {}), qkv = zeros({1, 2, 3}), tokens = zeros({1, 1, 4});
  const Stream stream = Stream::current(Device{});
  const Event event(Device{});
  CHECK_FALSE(is_capturing());
  {
    const CaptureScope capture;
    CHECK(is_capturing());
    CHECK_THROWS_WITH(x.item(), ContainsSubstring("a tensor's elements are read on the host"));
    CHECK_THROWS_WITH(x.to_vector<float>(), ContainsSubstring("which a graph cannot repeat"));
    CHECK_THROWS_WITH(stream.synchronize(), ContainsSubstring("Stream::synchronize()"));
    CHECK_THROWS_WITH(event.synchronize(), ContainsSubstring("Event::synchronize()"));
    CHECK_THROWS_WITH(rand({2}), ContainsSubstring("random numbers are drawn"));
    CHECK_THROWS_WITH(dropout(x, 0.5), ContainsSubstring("the mask of dropout is drawn"));
    CHECK_THROWS_WITH(dropout_of_tokens(tokens, 0.5, {{0, 1}}, 1),
                      ContainsSubstring("the mask of dropout is drawn"));
    CHECK_THROWS_WITH(causal_self_attention(qkv, 1, 1, {.dropout = 0.5}),
                      ContainsSubstring("the mask of dropout is drawn"));
    CHECK_THROWS_WITH(CaptureScope(), ContainsSubstring("already capturing one"));
    const GraphMemoryPool memory;
    const GraphMemoryPool::Scope scope(memory);
    CHECK_THROWS_WITH(empty({3}), ContainsSubstring("memory that its first run did not allocate"));
  }
  CHECK_FALSE(is_capturing());
  CHECK(x.item() == 1);
  CHECK_THROWS_WITH(Graph(Device{}, [] {}), ContainsSubstring("cpu has none, expected a GPU"));
}

TEST_CASE("repeated work runs first, is captured next, and is replayed from then on", "[graph]") {
  std::vector<std::string> calls;
  Replay replay(
      [&](const Replay::Function& work) -> Replay::Function {
        const CaptureScope capture;
        calls.push_back("capture");
        work();
        return [&] { calls.push_back("launch"); };
      },
      [&] {
        const Tensor temporary = empty({10});
        calls.push_back(is_capturing() ? "captured work" : "work");
      });
  replay();
  CHECK(calls == std::vector<std::string>{"work"});
  replay();
  CHECK(calls == std::vector<std::string>{"work", "capture", "captured work", "launch"});
  replay();
  CHECK(calls.size() == 5);
  CHECK(calls.back() == "launch");

  int runs = 0;
  Replay failing([](const Replay::Function& work) -> Replay::Function { return (work(), work); },
                 [&] { check(++runs < 2, "item() in the middle"); });
  failing();
  CHECK_THROWS_WITH(failing(), "item() in the middle");
}

/// Six updates in two micro-batches each; the losses and the weights at the end.
std::vector<double> train(Device device, const Replay::Capture& capture) {
  manual_seed(1);
  const auto model = make_mlp({8, 16, 4});
  ParameterArena arena(*model, device);
  AdamW optimizer(arena);
  std::vector<Tensor> inputs, targets;
  for (int i = 0; i < 2; ++i) {
    inputs.push_back(empty({6, 8}, DType::f32, device));
    targets.push_back(empty({6, 4}, DType::f32, device));
  }
  Tensor loss;
  Replay update(capture, [&] {
    loss = Tensor();
    Tensor sum;
    optimizer.zero_grad();
    for (std::size_t i = 0; i < 2; ++i) {
      const TapeScope scope;
      const Tensor part = mse_loss((*model)(inputs[i]), targets[i], Reduction::sum, 12);
      part.backward();
      sum = sum.defined() ? add(sum, part.detach()) : part.detach();
    }
    clip_grad_norm(arena, 0.5);
    optimizer.step();
    loss = sum;
  });
  std::vector<double> result;
  for (std::uint64_t step = 0; step < 6; ++step) {
    for (std::uint64_t i = 0; i < 2; ++i) {
      inputs[i].copy_from(tensor_of(random_doubles(48, 10 * step + i), {6, 8}, DType::f32, device));
      targets[i].copy_from(tensor_of(random_doubles(24, 10 * step + i + 5), {6, 4}, DType::f32, device));
    }
    optimizer.set_learning_rate(0.01 / static_cast<double>(step + 1));
    update();
    result.push_back(loss.item());
  }
  const std::vector<double> values = arena.values().to_doubles();
  result.insert(result.end(), values.begin(), values.end());
  return result;
}

Replay::Function run_again(const Replay::Function& work) {
  return work;
}

TEST_CASE("an update can be captured: it waits for nothing and allocates no new memory", "[graph]") {
  int captures = 0;
  // On the CPU captured work runs at once, so the following launch does nothing.
  const std::vector<double> checked = train(Device{}, [&](const Replay::Function& work) -> Replay::Function {
    const CaptureScope scope;
    work();
    ++captures;
    return [work, is_first = true]() mutable {
      if (!std::exchange(is_first, false)) work();
    };
  });
  CHECK(captures == 1);
  CHECK(checked == train(Device{}, run_again));
}

GPU_TEST_CASE("an update replayed as a graph gives the bits of the eager one", "[graph]") {
  const Device device = Device::parse("cuda");
  const auto as_graph = [&](const Replay::Function& work) -> Replay::Function {
    return [graph = std::make_shared<Graph>(device, work)] { graph->launch(); };
  };
  CHECK(train(device, as_graph) == train(device, run_again));
}

GPU_TEST_CASE("a capture that fails says why and leaves the stream usable", "[graph]") {
  const Device device = Device::parse("cuda");
  const Tensor x = tensor_of({2}, {}, DType::f32, device);
  CHECK_THROWS_WITH(Graph(device, [&] { x.item(); }),
                    ContainsSubstring("a tensor's elements are read on the host"));
  CHECK_THROWS_WITH(Graph(device, [&] { tensor_of({1}, {}, DType::f32, device); }),
                    ContainsSubstring("memory is allocated outside of the graph's"));
  CHECK_THROWS_WITH(Graph(device, [&] { copy_to(tensor_of({1}, {}), device); }),
                    ContainsSubstring("CUDA graph"));
  CHECK_THROWS_WITH(Graph(device, [&] { Tensor(x).copy_from(tensor_of({1}, {})); }),
                    ContainsSubstring("a copy between the host and a GPU"));
  CHECK(add(x, x).item() == 4);
}

}  // namespace
}  // namespace ringtape::test
