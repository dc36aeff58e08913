// Ringtape's use of the runtime: contexts, and the current device.
#include <memory>

#include "autograd/ops.h"
#include "core/memory.h"
#include "core/stream.h"
#include "data/loader.h"
#include "kernels/gemm.h"
#include "kernels/relu.h"
#include "tests/gpu_model/support.h"
#include "tests/support/tensors.h"

namespace gpu_model::test {
namespace {

using namespace ringtape;

/// Reads an epoch of 40 samples, and copies each batch to the device.
void read_batches(Device device, Device loaders) {
  const auto data = std::make_shared<TensorDataset>(
      ringtape::test::tensor_of(ringtape::test::random_doubles(80, 1), {40, 2}),
      ringtape::test::tensor_of(ringtape::test::random_doubles(40, 2), {40}));
  DataLoader loader(data, std::make_shared<SequentialSampler>(40), {.batch_size = 8, .device = loaders});
  loader.start_epoch(0);
  while (std::optional<Batch> batch = loader.next()) {
    const auto [features, targets] = batch->to(device);
    CHECK(features.to_doubles() == batch->features().to_doubles());
  }
}

TEST_CASE("contexts: a loader for the CPU opens none", "[.]") {
  read_batches({}, {});
  CHECK(contexts_opened() == 0);
}
TEST_CASE("contexts: a loader for the second GPU opens only its own", "[.]") {
  const Device gpu{DeviceType::cuda, 1};
  read_batches(gpu, gpu);
  CHECK(contexts_opened() == 1);
}

TEST_CASE("only contexts of devices in use are opened") {
  CHECK_THAT(ending_of("contexts: a loader for the CPU opens none").text,
             ContainsSubstring("All tests passed"));
  CHECK_THAT(ending_of("contexts: a loader for the second GPU opens only its own").text,
             ContainsSubstring("All tests passed"));
}

TEST_CASE("a launch runs on its stream's device, with any current device") {
  const FirstDeviceAfterwards afterwards;
  const Device first{DeviceType::cuda, 0};
  const Tensor x = ringtape::test::tensor_of({-1, 2}, {2}, DType::f32, first);
  const Tensor y = empty({2}, DType::f32, first);
  const Stream stream = Stream::current(first);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  relu_forward(stream, DType::f32, x.raw(), y.raw(), std::int64_t{2});
  CHECK(y.to_doubles() == std::vector<double>{0, 2});
}

TEST_CASE("a matrix product runs on its stream's device, with any current device") {
  const FirstDeviceAfterwards afterwards;
  const Device first{DeviceType::cuda, 0};
  const Tensor x = ringtape::test::tensor_of({1, 2, 3, 4}, {2, 2}, DType::f32, first);
  CHECK(matmul(x, x).to_doubles() == std::vector<double>{7, 10, 15, 22});
  const Tensor y = empty({2, 2}, DType::f32, first);
  GemmArgs args;
  args.m = args.n = args.k = 2;
  args.a = args.b = x.raw();
  args.c = y.raw();
  const Stream stream = Stream::current(first);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  gemm(stream, args);
  CHECK(y.to_doubles() == std::vector<double>{7, 10, 15, 22});
  const Stream fresh = Stream::create(first);  // whose handle is yet to be made
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  gemm(fresh, args);
  fresh.synchronize();
  CHECK(y.to_doubles() == std::vector<double>{7, 10, 15, 22});
}

TEST_CASE("tensors are copied between GPUs in the order of both streams") {
  const FirstDeviceAfterwards afterwards;
  for_each_schedule([] {
    const Device first{DeviceType::cuda, 0}, second{DeviceType::cuda, 1};
    const Tensor x = ringtape::test::tensor_of({-1, 2}, {2}, DType::f32, first);
    Tensor there = copy_to(add(x, x), second);
    there = add(there, there);
    CHECK(copy_to(there, first).to_doubles() == std::vector<double>{-4, 8});
    CHECK(relu(copy_to(there, Device{})).to_doubles() == std::vector<double>{0, 8});
  });
}

}  // namespace
}  // namespace gpu_model::test
