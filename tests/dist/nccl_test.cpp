#include "core/memory.h"
#include "tests/dist/trainer.h"
#include "tests/support/catch.h"

using namespace ringtape;
using namespace ringtape::test;

// Errors that only ranks on GPUs can make: RINGTAPE_DIST_DEVICE=cuda.

TEST_CASE("NCCL: an operation's memory is freed as soon as its stream has waited", "[dist][nccl]") {
  const auto comm = this_run();
  if (comm->device().is_cpu()) return;
  const MemoryScope scope(MemoryCategory::data);  // the category has no earlier operations in flight
  const auto live = [&] { return memory_stats(comm->device()).live_by_category[MemoryCategory::data]; };
  const std::size_t before = live();
  std::vector<Work> works;
  for (int i = 0; i < 3; ++i) {
    Tensor tensor = tensor_of(values_of(comm->rank(), 1000), {1000}, DType::f32, comm->device());
    works.push_back(comm->all_reduce(tensor, ReduceOp::sum));
  }
  for (const Work& work : works) work.wait();
  CHECK(live() == before);
}

TEST_CASE("NCCL: an operation that another stream waits for keeps its memory", "[dist][nccl]") {
  const auto comm = this_run();
  if (comm->device().is_cpu()) return;
  Work work;
  {
    const Tensor tensor = tensor_of(values_of(comm->rank(), 1000), {1000}, DType::f32, comm->device());
    work = comm->all_reduce(tensor, ReduceOp::sum);
  }
  const Stream other = Stream::create(comm->device());
  {
    const StreamScope scope(other);
    work.wait();
  }
  // If the memory were free, the first stream would write to it before the operation has run.
  const Tensor next = tensor_of(values_of(0, 1000), {1000}, DType::f32, comm->device());
  CHECK(next.to_doubles() == values_of(0, 1000));
  other.synchronize();
}

TEST_CASE("NCCL: a communicator is split while its operations are on their way", "[dist][nccl]") {
  const auto comm = this_run();
  if (comm->device().is_cpu()) return;
  const Tensor tensor = tensor_of(values_of(comm->rank(), 1000), {1000}, DType::f32, comm->device());
  const Work work = comm->all_reduce(tensor, ReduceOp::sum);
  const auto half = comm->split(comm->rank() % 2, 0);
  work.wait();
  CHECK(tensor.to_doubles() == reduced(ReduceOp::sum, comm->size(), 1000));
  const Tensor one = tensor_of({1}, {1}, DType::f32, comm->device());
  half->all_reduce(one, ReduceOp::sum).wait();
  CHECK(one.item() == half->size());
}
