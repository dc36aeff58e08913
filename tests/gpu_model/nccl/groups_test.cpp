#include <future>
#include <memory>
#include <string>

#include "tests/gpu_model/nccl/ranks.h"

namespace gpu_model::test {
namespace {

using Ints = Array<std::int32_t>;

void all_reduce(const Rank& r, const Ints& x, std::size_t count, ncclComm_t comm, cudaStream_t stream) {
  r.ok(ncclAllReduce(x.get(), x.get(), count, ncclInt32, ncclSum, comm, stream), "ncclAllReduce");
}

TEST_CASE(
    "sends and receives in a group: to every rank and itself, several of a size that does not fit at once",
    "[nccl]") {
  for_schedules([] {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      run_ranks(ranks, [](const Rank& r) {
        constexpr std::size_t n = 100000;
        const Ints first(r, std::vector<std::int32_t>(n, 10 + r.rank)), second(r, {100 + r.rank});
        std::vector<std::unique_ptr<Ints>> big, small;
        r.ok(ncclGroupStart(), "ncclGroupStart");
        for (int peer = 0; peer < r.ranks; ++peer) {
          big.push_back(std::make_unique<Ints>(r, std::vector<std::int32_t>(n)));
          small.push_back(std::make_unique<Ints>(r, std::vector<std::int32_t>(1)));
          r.ok(ncclSend(first.get(), n, ncclInt32, peer, r.comm, r.stream), "ncclSend");
          r.ok(ncclSend(second.get(), 1, ncclInt32, peer, r.comm, r.stream), "ncclSend");
          r.ok(ncclRecv(big.back()->get(), n, ncclInt32, peer, r.comm, r.stream), "ncclRecv");
          r.ok(ncclRecv(small.back()->get(), 1, ncclInt32, peer, r.comm, r.stream), "ncclRecv");
        }
        r.ok(ncclGroupEnd(), "ncclGroupEnd");
        for (int peer = 0; peer < r.ranks; ++peer) {
          const auto at = static_cast<std::size_t>(peer);
          r.expect(big[at]->values() == std::vector<std::int32_t>(n, 10 + peer), "many elements");
          r.expect(small[at]->values()[0] == 100 + peer, "one element");
        }
      });
    }
  });
}

TEST_CASE("a send and a receive outside groups", "[nccl]") {
  for_schedules([] {
    run_ranks(2, [](const Rank& r) {
      const Ints x(r, {r.rank == 0 ? 5 : 0});
      if (r.rank == 0) {
        r.ok(ncclSend(x.get(), 1, ncclInt32, 1, r.comm, r.stream), "ncclSend");
      } else {
        r.ok(ncclRecv(x.get(), 1, ncclInt32, 0, r.comm, r.stream), "ncclRecv");
      }
      r.expect(x.values()[0] == 5, "value");
    });
  });
}

TEST_CASE("groups: several collectives, nested, on two communicators and two streams", "[nccl]") {
  for_schedules([] {
    run_ranks(3, [](const Rank& r) {
      ncclComm_t other = nullptr;
      r.ok(ncclCommSplit(r.comm, 0, -r.rank, &other, nullptr), "ncclCommSplit");
      cudaStream_t second = nullptr;
      cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
      const Ints a(r, {1}), b(r, {2, 2}), c(r, {3}), d(r, {r.rank});
      r.ok(ncclGroupStart(), "ncclGroupStart");
      all_reduce(r, a, 1, r.comm, r.stream);
      r.ok(ncclGroupStart(), "ncclGroupStart");
      all_reduce(r, b, 2, r.comm, second);
      r.ok(ncclGroupEnd(), "ncclGroupEnd");
      all_reduce(r, c, 1, other, r.stream);
      r.ok(ncclBroadcast(d.get(), d.get(), 1, ncclInt32, 0, other, r.stream), "ncclBroadcast");
      r.ok(ncclGroupEnd(), "ncclGroupEnd");
      r.expect(cudaStreamSynchronize(second) == cudaSuccess, "cudaStreamSynchronize");
      r.expect(a.values()[0] == 3, "one");
      r.expect(b.values() == std::vector<std::int32_t>{6, 6}, "in the other stream");
      r.expect(c.values()[0] == 9, "on the other communicator");
      r.expect(d.values()[0] == 2, "from rank 0 of the other communicator, which is rank 2 of this one");
      r.ok(ncclCommDestroy(other), "ncclCommDestroy");
      cudaStreamDestroy(second);
    });
  });
}

TEST_CASE("operations on one communicator run in the order of the calls, on any streams", "[nccl]") {
  for_schedules([] {
    run_ranks(2, [](const Rank& r) {
      cudaStream_t second = nullptr;
      cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
      const Ints a(r, {1}), b(r, {10});
      for (int i = 0; i < 5; ++i) {
        all_reduce(r, a, 1, r.comm, r.stream);
        all_reduce(r, b, 1, r.comm, second);
      }
      // One rank waits for one of the streams first, the other for the other.
      cudaStreamSynchronize(r.rank == 0 ? second : r.stream);
      cudaStreamSynchronize(r.rank == 0 ? r.stream : second);
      r.expect(a.values()[0] == 32, "first stream");
      r.expect(b.values()[0] == 320, "second stream");
      cudaStreamDestroy(second);
    });
  });
}

TEST_CASE("nothing to send: count 0, with null pointers", "[nccl]") {
  run_ranks(2, [](const Rank& r) {
    r.ok(ncclAllReduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, r.comm, r.stream), "ncclAllReduce");
    r.ok(ncclBroadcast(nullptr, nullptr, 0, ncclFloat32, 1, r.comm, r.stream), "ncclBroadcast");
    r.ok(ncclAllGather(nullptr, nullptr, 0, ncclFloat32, r.comm, r.stream), "ncclAllGather");
    r.ok(ncclGroupStart(), "ncclGroupStart");
    r.ok(ncclSend(nullptr, 0, ncclFloat32, 1 - r.rank, r.comm, r.stream), "ncclSend");
    r.ok(ncclRecv(nullptr, 0, ncclFloat32, 1 - r.rank, r.comm, r.stream), "ncclRecv");
    r.ok(ncclGroupEnd(), "ncclGroupEnd");
    r.ok(ncclGroupStart(), "ncclGroupStart");
    r.ok(ncclGroupEnd(), "an empty group");
    r.synchronize();
  });
}

TEST_CASE("split: by color, ordered by key and then by rank; none for NCCL_SPLIT_NOCOLOR", "[nccl]") {
  for_schedules([] {
    run_ranks(4, [](const Rank& r) {
      // Ranks 0, 2 and 3 with the keys 5, 1 and 1: they become 2, 0 and 1.
      const int keys[] = {5, 0, 1, 1}, new_ranks[] = {2, -1, 0, 1};
      ncclComm_t part = nullptr;
      r.ok(ncclCommSplit(r.comm, r.rank == 1 ? NCCL_SPLIT_NOCOLOR : 7, keys[r.rank], &part, nullptr),
           "ncclCommSplit");
      r.expect((part == nullptr) == (r.rank == 1), "a communicator");
      if (part != nullptr) {
        int rank = -1, count = -1, device = -1;
        r.ok(ncclCommUserRank(part, &rank), "ncclCommUserRank");
        r.ok(ncclCommCount(part, &count), "ncclCommCount");
        r.ok(ncclCommCuDevice(part, &device), "ncclCommCuDevice");
        r.expect(rank == new_ranks[r.rank] && count == 3 && device == r.rank, "rank, count and device");
        const Ints x(r, {r.rank});
        all_reduce(r, x, 1, part, r.stream);
        r.expect(x.values()[0] == 5, "ncclAllReduce of the part");
        r.ok(ncclCommDestroy(part), "ncclCommDestroy");
      }
      const Ints x(r, {1});
      all_reduce(r, x, 1, r.comm, r.stream);
      r.expect(x.values()[0] == 4, "ncclAllReduce of all");
    });
  });
}

TEST_CASE("split with operations in flight is reported", "[nccl]") {
  const Reports reports;
  set_schedule(Schedule::late);
  run_ranks(2, [](const Rank& r) {
    const Ints x(r, {1});
    all_reduce(r, x, 1, r.comm, r.stream);
    ncclComm_t part = nullptr;
    r.ok(ncclCommSplit(r.comm, 0, 0, &part, nullptr), "ncclCommSplit");
    r.expect(x.values()[0] == 2, "value");
    r.ok(ncclCommDestroy(part), "ncclCommDestroy");
  });
  set_schedule(Schedule::order);
  REQUIRE(!reports.all().empty());  // of at least one rank: it may have completed the other's operation
  CHECK_THAT(reports.all()[0],
             ContainsSubstring("calls ncclCommSplit while 1 of the communicator's operations are in flight"));
}

TEST_CASE("a graph with collectives can be launched repeatedly", "[nccl]") {
  for_schedules([] {
    run_ranks(2, [](const Rank& r) {
      const Ints x(r, {1});
      r.expect(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess, "begin");
      all_reduce(r, x, 1, r.comm, r.stream);
      all_reduce(r, x, 1, r.comm, r.stream);
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t executable = nullptr;
      r.expect(cudaStreamEndCapture(r.stream, &graph) == cudaSuccess, "end");
      r.expect(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess, "instantiate");
      r.expect(x.values()[0] == 1, "nothing runs while it is captured");
      for (int i = 0; i < 3; ++i) r.expect(cudaGraphLaunch(executable, r.stream) == cudaSuccess, "launch");
      r.expect(x.values()[0] == 64, "six sums");
      all_reduce(r, x, 1, r.comm, r.stream);
      r.expect(x.values()[0] == 128, "and one beside the graph");
      cudaGraphExecDestroy(executable);
      cudaGraphDestroy(graph);
    });
  });
}

TEST_CASE("one thread creates the communicators of several GPUs in a group", "[nccl]") {
  Failures failures;
  std::thread([&] {
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    ncclComm_t comms[3] = {};
    ncclGroupStart();
    for (int rank = 0; rank < 3; ++rank) {
      cudaSetDevice(rank);
      ncclCommInitRank(&comms[rank], 3, id, rank);
    }
    if (ncclGroupEnd() != ncclSuccess) failures.add("ncclGroupEnd");
    std::vector<Rank> ranks;
    std::vector<std::unique_ptr<Ints>> values;
    for (int rank = 0; rank < 3; ++rank) {
      cudaSetDevice(rank);
      cudaStream_t stream = nullptr;
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      ranks.push_back({rank, 3, comms[rank], stream, failures});
    }
    for (const Rank& rank : ranks) {
      cudaSetDevice(rank.rank);
      values.push_back(std::make_unique<Ints>(rank, std::vector<std::int32_t>{rank.rank + 1}));
    }
    ncclGroupStart();
    for (const Rank& rank : ranks)
      all_reduce(rank, *values[static_cast<std::size_t>(rank.rank)], 1, rank.comm, rank.stream);
    if (ncclGroupEnd() != ncclSuccess) failures.add("ncclGroupEnd");
    for (const Rank& rank : ranks) {
      rank.expect(values[static_cast<std::size_t>(rank.rank)]->values()[0] == 6, "sum");
      rank.ok(ncclCommDestroy(rank.comm), "ncclCommDestroy");
      cudaStreamDestroy(rank.stream);
    }
  }).join();
  CHECK(failures.all() == std::vector<std::string>{});
}

TEST_CASE("a rank whose host does other work does not block the others", "[nccl]") {
  set_schedule(Schedule::late);
  std::promise<void> done;
  std::shared_future<void> is_done(done.get_future());
  run_ranks(2, [&](const Rank& r) {
    const Ints x(r, {1});
    for (int i = 0; i < 3; ++i) all_reduce(r, x, 1, r.comm, r.stream);
    if (r.rank == 0) {
      r.expect(x.values()[0] == 8, "sum");
      done.set_value();
    } else {
      is_done.wait();  // without a CUDA call
    }
  });
  set_schedule(Schedule::order);
}

}  // namespace
}  // namespace gpu_model::test
