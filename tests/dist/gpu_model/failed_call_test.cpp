// A call that NCCL refuses. The model refuses memory that is not on the GPU; NCCL itself would not look.
#include <thread>

#include "dist/nccl_communicator.h"
#include "dist/self_communicator.h"
#include "tests/dist/ranks.h"
#include "tests/support/catch.h"

using namespace ringtape;
using namespace ringtape::test;

TEST_CASE("GPU model: the watchdog does not wait for a call that NCCL has refused", "[dist][gpu_model]") {
  const Device device = all_communicators()[0].communicator->device();
  if (device.is_cpu()) return;
  const Seconds timeout(5);  // of which a busy machine needs little
  const auto comm = NcclCommunicator::connect(std::make_shared<SelfCommunicator>(Device{}, timeout), device);
  const Tensor on_host = zeros({4});
  const auto storage = std::make_shared<Storage>();
  storage->data = on_host.storage()->data;
  storage->bytes = on_host.storage()->bytes;
  storage->device = device;  // which is not true
  const Tensor wrong(storage, {4}, DType::f32);
  CHECK_THROWS_WITH(comm->all_reduce(wrong, ReduceOp::sum), ContainsSubstring("ncclAllReduce failed"));
  std::this_thread::sleep_for(1.2 * timeout);  // the watchdog would end the process
  const Tensor right = tensor_of({1, 2}, {2}, DType::f32, device);
  comm->all_reduce(right, ReduceOp::sum).wait();
  CHECK(right.to_doubles() == std::vector<double>{1, 2});
}
