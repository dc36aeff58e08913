// Objects that are not released, and allocations that fail.
#include <memory>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "core/random.h"
#include "core/stream.h"
#include "data/loader.h"
#include "nn/layers.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "tests/gpu_model/support.h"
#include "tests/support/tensors.h"

namespace gpu_model::test {
namespace {

TEST_CASE("leaks: one of each", "[.]") {
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 100) == cudaSuccess);
  REQUIRE(cudaMallocHost(&memory, 200) == cudaSuccess);
  cudaEvent_t event;
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  cudaStream_t stream;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  REQUIRE(cudaMallocAsync(&memory, 300, stream) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  cudaGraph_t graph;
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  cudaGraphExec_t executable;
  REQUIRE(cudaGraphInstantiate(&executable, graph) == cudaSuccess);
}
TEST_CASE("leaks: beside a report", "[.]") {
  void *memory = nullptr, *pinned = nullptr;
  REQUIRE(cudaMalloc(&memory, 100) == cudaSuccess);
  REQUIRE(cudaMallocHost(&pinned, 100) == cudaSuccess);
  const OwnStream stream;
  REQUIRE(cudaMemcpyAsync(memory, pinned, 100, cudaMemcpyHostToDevice, stream) == cudaSuccess);
  REQUIRE(cudaFreeHost(pinned) == cudaSuccess);  // in use
}
TEST_CASE("leaks: none", "[.]") {
  const DeviceInts x;
  const PinnedInts y;
  const OwnStream stream;
  const OwnEvent event;
}

TEST_CASE(
    "objects that are not released are listed when the process ends, each with the call that created it") {
  const std::string found = ending_of("leaks: one of each", "RINGTAPE_MODEL_LEAKS=list").text;
  for (const char* const line :
       {": 100 bytes on device 0, cudaMalloc in gpu_model::test",
        ": 200 bytes of pinned memory, cudaMallocHost in", ": event of device 0, cudaEventCreate in",
        ": stream 1 of device 0, cudaStreamCreate in", ": 300 bytes on device 0, cudaMallocAsync in",
        ": graph, cudaStreamEndCapture in", ": executable graph, cudaGraphInstantiate in"}) {
    CHECK_THAT(found, ContainsSubstring(line));
  }
  CHECK_THAT(found, ContainsSubstring("leaks_test.cpp:"));
  CHECK_THAT(ending_of("leaks: one of each", "RINGTAPE_MODEL_LEAKS=error").text,
             ContainsSubstring("ended with status 66"));
  CHECK_THAT(
      ending_of("leaks: beside a report", "RINGTAPE_MODEL_LEAKS=list RINGTAPE_MODEL_SCHEDULE=late").text,
      ContainsSubstring("frees pinned memory that a copy on stream") &&
          ContainsSubstring(": 100 bytes on device 0, cudaMalloc in") &&
          ContainsSubstring("ended with status 66"));
  const std::string none = ending_of("leaks: none", "RINGTAPE_MODEL_LEAKS=error").text;
  CHECK_THAT(none, ContainsSubstring("All tests passed") && !ContainsSubstring("gpu model"));
}

using namespace ringtape;

/// Two updates of a small model, on batches that a loader reads into pinned memory.
void train() {
  const Device gpu{DeviceType::cuda, 0};
  const auto data = std::make_shared<TensorDataset>(
      ringtape::test::tensor_of(ringtape::test::random_doubles(64, 1), {8, 8}),
      ringtape::test::tensor_of(ringtape::test::random_doubles(32, 2), {8, 4}));
  manual_seed(1);
  const auto model = make_mlp({8, 16, 4});
  ParameterArena arena(*model, gpu);
  AdamW optimizer(arena);
  DataLoader loader(data, std::make_shared<SequentialSampler>(8), {.batch_size = 4, .device = gpu});
  loader.start_epoch(0);
  while (std::optional<Batch> batch = loader.next()) {
    const TapeScope scope;
    const auto [features, targets] = batch->to(gpu);
    optimizer.zero_grad();
    mse_loss((*model)(features), targets).backward();
    clip_grad_norm(arena, 0.5);
    optimizer.step();
  }
  CHECK(std::isfinite(arena.values().to_doubles()[0]));
}

/// Trains until it succeeds; prints the errors, and what is not released.
TEST_CASE("memory: trains", "[.]") {
  int failures = 0;
  for (bool has_trained = false; !has_trained; ++failures) {
    try {
      train();
      has_trained = true;
    } catch (const std::exception& error) {
      std::printf("error: %s\n", error.what());
    }
  }
  std::printf("%d failures, %zu left, %zu bytes\n", failures - 1, live_objects().size(), live_bytes());
}

TEST_CASE(
    "if any one allocation of a training run fails, it ends with one clear error and leaves nothing behind") {
  const auto line_of = [](const std::string& text, const std::string& word) {
    const std::size_t at = text.find(word);
    if (at == std::string::npos) return std::string();
    const std::size_t begin = text.rfind('\n', at) + 1;
    return text.substr(begin, text.find('\n', at) - begin);
  };
  const std::string whole = ending_of("memory: trains").text;
  REQUIRE_THAT(whole, ContainsSubstring("All tests passed"));
  const std::string left = line_of(whole, " failures");
  REQUIRE(left[0] == '0');
  int allocation = 1;
  for (;; ++allocation) {
    const std::string variables =
        "RINGTAPE_MODEL_OOM=" + std::to_string(allocation) + " RINGTAPE_MODEL_SCHEDULE=late";
    const std::string text = ending_of("memory: trains", variables).text;
    INFO(variables << "\n" << text);
    REQUIRE_THAT(text, ContainsSubstring("All tests passed") && !ContainsSubstring("gpu model"));
    const std::string found = line_of(text, " failures");
    if (found[0] == '0') break;  // there are fewer allocations than that
    CHECK_THAT(line_of(text, "error: "), ContainsSubstring("out of "));
    CHECK(found == "1" + left.substr(1));
  }
  CHECK(allocation > 20);
}

}  // namespace
}  // namespace gpu_model::test
