// The calls that order the library's work on a GPU: tests/gpu_model/remove_synchronisation.py removes them,
// one by one.
#include <memory>
#include <thread>

#include "autograd/creation.h"
#include "autograd/ops.h"
#include "core/graph.h"
#include "core/memory.h"
#include "core/stream.h"
#include "data/loader.h"
#include "dist/nccl_communicator.h"
#include "dist/nccl_event.h"
#include "dist/self_communicator.h"
#include "kernels/common/reduce_scratch.h"
#include "kernels/relu.h"
#include "tests/gpu_model/support.h"
#include "tests/support/tensors.h"
#include "trace/timing.h"

namespace gpu_model::test {
namespace {

using namespace ringtape;

TEST_CASE("streams and events are made on their own device, whichever is current") {
  const FirstDeviceAfterwards afterwards;
  const Device second{DeviceType::cuda, 1};
  const Tensor x = ringtape::test::tensor_of({-1, 2}, {2}, DType::f32, second);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  const Stream stream = Stream::create(second);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  Event event(second);
  event.record(stream);
  event.wait_on(Stream::current(second));
  const StreamScope scope(stream);
  CHECK(relu(x).to_doubles() == std::vector<double>{0, 2});
}

TEST_CASE("the cache of a device is given back, whichever is current and whatever is still to run") {
  const FirstDeviceAfterwards afterwards;
  constexpr std::int64_t kElements = std::int64_t{16} << 20;
  for_each_schedule([&] {
    const Device second{DeviceType::cuda, 1};
    full({kElements}, 1, DType::f32, second);
    CHECK(memory_stats(second).reserved >= 4 * kElements);
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
    empty_cache(second);
    CHECK(memory_stats(second).reserved < 4 * kElements);
  });
}

TEST_CASE("what a thread's kernels used is freed with the thread, in the order of their stream") {
  for_each_schedule([] {
    const Device gpu{DeviceType::cuda, 0};
    const Stream other = Stream::create(gpu);
    const std::size_t live = live_bytes();
    std::thread([&] {
      ReduceScratch* const scratch = reduce_scratch(other);
      const auto fill = [scratch] { scratch->blocks_done = 0; };
      launch({entry(), {}, {}, 0, static_cast<cudaStream_t>(other.native())}, new Body(fill, {scratch}));
    }).join();
    CHECK(live_bytes() == live);
    other.synchronize();
  });
}

TEST_CASE("memory that is given up while a graph is captured is freed later, in the order of its stream") {
  for_each_schedule([] {
    const Device gpu{DeviceType::cuda, 0};
    const std::size_t live = live_bytes();
    const Stream other = Stream::create(gpu);
    {
      Tensor x;
      const Tensor y = ringtape::test::tensor_of({-1, 2}, {2}, DType::f32, gpu);
      {
        const StreamScope scope(other);
        x = full({2}, 3, DType::f32, gpu);
      }
      Tensor z = full({2}, 3, DType::f32, gpu);  // of the stream that is captured
      const Graph graph(gpu, [&] {
        x = z = Tensor();
        relu_forward(Stream::current(gpu), DType::f32, y.raw(), y.raw(), std::int64_t{2});
      });
      graph.launch();
      CHECK(y.to_doubles() == std::vector<double>{0, 2});
    }
    CHECK(live_bytes() == live);
  });
}

TEST_CASE("a loader's buffers are used again when the copies from them are done") {
  const Device gpu{DeviceType::cuda, 0};
  const std::vector<double> values = ringtape::test::random_doubles(80, 1);
  const auto data = std::make_shared<TensorDataset>(ringtape::test::tensor_of(values, {40, 2}),
                                                    ringtape::test::tensor_of(values, {40, 2}));
  for_each_schedule([&] {
    DataLoader loader(data, std::make_shared<SequentialSampler>(40),
                      {.batch_size = 4, .prefetch_threads = 0, .device = gpu});
    loader.start_epoch(0);
    std::vector<Tensor> features;  // nothing waits for their copies
    while (std::optional<Batch> batch = loader.next()) features.push_back(batch->to(gpu).first);
    CHECK(cat(features, 0).to_doubles() == ringtape::test::tensor_of(values, {40, 2}).to_doubles());
  });
}

/// NCCL with one rank, on the second GPU.
std::shared_ptr<Communicator> one_rank() {
  const Seconds timeout(60);
  return NcclCommunicator::connect(std::make_shared<SelfCommunicator>(Device{}, timeout),
                                   Device{DeviceType::cuda, 1});
}

TEST_CASE("a collective comes after what was queued before it, and its wait before what is queued next") {
  const FirstDeviceAfterwards afterwards;
  const auto comm = one_rank();
  for_each_schedule([&] {
    const Tensor x = ringtape::test::tensor_of({-1, 2}, {2}, DType::f32, comm->device());
    const Tensor sum = empty({2}, DType::f32, comm->device());
    const Tensor doubled = add(x, x);
    comm->all_reduce(doubled, sum, ReduceOp::sum).wait();
    CHECK(add(sum, sum).to_doubles() == std::vector<double>{-4, 8});
  });
}

TEST_CASE("a collective runs on its communicator's device, whichever is current") {
  const FirstDeviceAfterwards afterwards;
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  const auto comm = one_rank();
  const Tensor x = ringtape::test::tensor_of({-1, 2}, {2}, DType::f32, comm->device());
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  comm->all_reduce(x, ReduceOp::sum).wait();
  CHECK(x.to_doubles() == std::vector<double>{-1, 2});
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  comm->barrier();
}

TEST_CASE("a communicator ends when its operations have") {
  const FirstDeviceAfterwards afterwards;
  for_each_schedule([] {
    const Tensor x = ringtape::test::tensor_of({-1, 2}, {2}, DType::f32, Device{DeviceType::cuda, 1});
    one_rank()->all_reduce(x, ReduceOp::sum);  // nobody waits
    Stream::current(x.device()).synchronize();
    CHECK(x.to_doubles() == std::vector<double>{-1, 2});
  });
}

TEST_CASE("an event that is not ready leaves no error for the next launch") {
  const ScheduleScope late(Schedule::late);
  const Device gpu{DeviceType::cuda, 0};
  const Tensor x = full({2}, 1.0, DType::f32, gpu);
  NcclEvent event;
  event.record(Stream::current(gpu));
  CHECK_FALSE(event.is_done());
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  CHECK(relu(x).to_doubles() == std::vector<double>{1, 1});
  CHECK(event.is_done());
}

/// Checks that the work queued before a barrier is done after it.
void check_barrier(Communicator& comm) {
  const Tensor x = ringtape::test::tensor_of({-1, 2}, {2}, DType::f32, comm.device());
  const Tensor y = relu(x);
  const Work work = comm.all_reduce(y, ReduceOp::sum);
  comm.barrier();
  float values[2] = {};
  peek(values, y.raw(), sizeof values);
  CHECK((values[0] == 0 && values[1] == 2));
  work.wait();
}

TEST_CASE("a barrier returns when the device has come to it") {
  const FirstDeviceAfterwards afterwards;
  const auto comm = one_rank();
  SelfCommunicator alone(comm->device());
  for_each_schedule([&] {
    check_barrier(*comm);
    check_barrier(alone);
  });
}

TEST_CASE("work on a GPU is timed between two events") {
  const Device gpu{DeviceType::cuda, 0};
  const Tensor x = ringtape::test::tensor_of({-1, 2}, {2}, DType::f32, gpu);
  for_each_schedule([&] { CHECK(median_seconds([&] { relu(x); }, gpu, {.rounds = 1}) > 0); });
}

}  // namespace
}  // namespace gpu_model::test
