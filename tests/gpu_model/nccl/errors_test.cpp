#include <chrono>
#include <cstdlib>
#include <string>

#include "tests/gpu_model/nccl/ranks.h"

namespace gpu_model::test {
namespace {

using Floats = Array<float>;

TEST_CASE("wrong arguments have the documented codes, and nothing is queued", "[nccl]") {
  run_ranks(2, [](const Rank& r) {
    const Floats x(r, std::vector<float>(4, 1));
    const auto sum = [&](const void* send, void* receive, ncclDataType_t type, ncclRedOp_t op,
                         ncclComm_t comm) {
      return ncclAllReduce(send, receive, 4, type, op, comm, r.stream);
    };
    float host[4] = {};
    r.expect(sum(nullptr, x.get(), ncclFloat32, ncclSum, r.comm), ncclInvalidArgument, "null");
    r.expect(sum(x.get(), host, ncclFloat32, ncclSum, r.comm), ncclInvalidArgument, "host memory");
    r.expect(sum(x.get(), x.get() + 2, ncclFloat32, ncclSum, r.comm), ncclInvalidArgument,
             "beyond the allocation");
    r.expect(sum(x.get(), x.get(), static_cast<ncclDataType_t>(15), ncclSum, r.comm), ncclInvalidArgument,
             "type");
    r.expect(sum(x.get(), x.get(), ncclFloat32, static_cast<ncclRedOp_t>(7), r.comm), ncclInvalidArgument,
             "operation");
    r.expect(sum(x.get(), x.get(), ncclFloat32, ncclSum, nullptr), ncclInvalidArgument, "no communicator");
    for (const int root : {-1, 2}) {
      r.expect(ncclBroadcast(x.get(), x.get(), 4, ncclFloat32, root, r.comm, r.stream), ncclInvalidArgument,
               "root");
      r.expect(ncclSend(x.get(), 4, ncclFloat32, root, r.comm, r.stream), ncclInvalidArgument, "peer");
    }
    void* freed = nullptr;
    cudaMalloc(&freed, 16);
    cudaFree(freed);
    r.expect(sum(x.get(), freed, ncclFloat32, ncclSum, r.comm), ncclInvalidArgument, "freed memory");
    void* elsewhere = nullptr;
    cudaSetDevice(2 + r.rank);  // that no other rank uses
    cudaMalloc(&elsewhere, 16);
    cudaStream_t stream = nullptr;
    cudaStreamCreate(&stream);
    cudaSetDevice(r.rank);
    r.expect(sum(x.get(), elsewhere, ncclFloat32, ncclSum, r.comm), ncclInvalidArgument,
             "memory of another device");
    r.expect(ncclAllReduce(x.get(), x.get(), 4, ncclFloat32, ncclSum, r.comm, stream), ncclUnhandledCudaError,
             "a stream of another device");
    r.expect(ncclGroupEnd(), ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    ncclGroupStart();
    ncclSend(x.get(), 4, ncclFloat32, r.rank, r.comm, r.stream);
    r.expect(ncclGroupEnd(), ncclInvalidUsage, "a send to itself without a receive");
    ncclGroupStart();
    sum(x.get(), x.get(), ncclFloat32, ncclSum, r.comm);
    sum(x.get(), host, ncclFloat32, ncclSum, r.comm);
    r.expect(ncclGroupEnd(), ncclInvalidArgument, "a group with a wrong call");
    int number = 0;
    ncclComm_t none = nullptr;
    r.expect(ncclCommCount(nullptr, &number), ncclInvalidArgument, "ncclCommCount");
    r.expect(ncclCommSplit(r.comm, -2, 0, &none, nullptr), ncclInvalidArgument, "color");
    r.ok(sum(x.get(), x.get(), ncclFloat32, ncclSum, r.comm), "afterwards");
    r.expect(x.values() == std::vector<float>(4, 2), "one sum in all");
    cudaStreamDestroy(stream);
    cudaFree(elsewhere);
  });
}

TEST_CASE("pinned memory is accepted as a buffer, if it is long enough", "[nccl]") {
  run_ranks(2, [](const Rank& r) {
    void* pinned = nullptr;
    r.expect(cudaMallocHost(&pinned, sizeof(float)) == cudaSuccess, "cudaMallocHost");
    r.expect(ncclAllReduce(pinned, pinned, 2, ncclFloat32, ncclSum, r.comm, r.stream) == ncclInvalidArgument,
             "too short");
    r.expect(
        std::string(ncclGetLastError(r.comm)).find("is not pinned memory of 8 bytes") != std::string::npos,
        ncclGetLastError(r.comm));
    *static_cast<float*>(pinned) = 1.5F;
    r.ok(ncclAllReduce(pinned, pinned, 1, ncclFloat32, ncclSum, r.comm, r.stream), "ncclAllReduce");
    r.synchronize();
    r.expect(*static_cast<float*>(pinned) == 3, "sum");
    cudaFreeHost(pinned);
  });
}

TEST_CASE("a destroyed communicator is invalid", "[nccl]") {
  ncclComm_t ended = nullptr;
  run_ranks(1, [&](const Rank& r) { ended = r.comm; });
  int rank = 0;
  CHECK(ncclCommUserRank(ended, &rank) == ncclInvalidArgument);
  CHECK(ncclCommDestroy(ended) == ncclInvalidArgument);
}

TEST_CASE("buffers that overlap, but not in place, are reported", "[nccl]") {
  const Reports reports;
  run_ranks(1, [](const Rank& r) {
    const Floats x(r, std::vector<float>(4));
    r.ok(ncclAllReduce(x.get(), x.get() + 1, 2, ncclFloat32, ncclSum, r.comm, r.stream), "ncclAllReduce");
  });
  REQUIRE(reports.all().size() == 1);
  CHECK_THAT(reports.all()[0],
             ContainsSubstring("ncclAllReduce of 2 ncclFloat32, ncclSum: send and receive buffer overlap"));
}

struct Difference {
  const char* name;
  std::function<void(const Rank&, float*)> calls[2];
  const char* shapes[2];
};

TEST_CASE("calls that differ between ranks are named, and end the communicator", "[nccl]") {
  const auto sum = [](std::size_t count, ncclDataType_t type, ncclRedOp_t op) {
    return [=](const Rank& r, float* x) {
      r.ok(ncclAllReduce(x, x, count, type, op, r.comm, r.stream), "ncclAllReduce");
    };
  };
  const auto broadcast = [](int root) {
    return [=](const Rank& r, float* x) {
      r.ok(ncclBroadcast(x, x, 2, ncclFloat32, root, r.comm, r.stream), "ncclBroadcast");
    };
  };
  const Difference differences[] = {
      {"count",
       {sum(3, ncclFloat32, ncclSum), sum(4, ncclFloat32, ncclSum)},
       {"ncclAllReduce of 3 ncclFloat32, ncclSum", "ncclAllReduce of 4 ncclFloat32, ncclSum"}},
      {"type",
       {sum(3, ncclFloat32, ncclSum), sum(3, ncclInt32, ncclSum)},
       {"ncclAllReduce of 3 ncclFloat32, ncclSum", "ncclAllReduce of 3 ncclInt32, ncclSum"}},
      {"operation",
       {sum(3, ncclFloat32, ncclSum), sum(3, ncclFloat32, ncclAvg)},
       {"ncclAllReduce of 3 ncclFloat32, ncclSum", "ncclAllReduce of 3 ncclFloat32, ncclAvg"}},
      {"root",
       {broadcast(0), broadcast(1)},
       {"ncclBroadcast of 2 ncclFloat32, root 0", "ncclBroadcast of 2 ncclFloat32, root 1"}},
      {"function",
       {broadcast(0), sum(3, ncclFloat32, ncclSum)},
       {"ncclBroadcast of 2 ncclFloat32, root 0", "ncclAllReduce of 3 ncclFloat32, ncclSum"}},
  };
  for (const Difference& difference : differences) {
    INFO(difference.name);
    const Reports reports;
    run_ranks(
        2,
        [&](const Rank& r) {
          const Floats x(r, std::vector<float>(4));
          r.ok(ncclAllReduce(x.get(), x.get(), 1, ncclFloat32, ncclSum, r.comm, r.stream),
               "one that is the same");
          difference.calls[r.rank](r, x.get());
          r.expect(r.async_error(), ncclInvalidUsage, "ncclCommGetAsyncError");
          r.expect(ncclAllReduce(x.get(), x.get(), 1, ncclFloat32, ncclSum, r.comm, r.stream),
                   ncclInvalidUsage, "afterwards");
          r.abort();
          r.synchronize();  // the operation has ended with its communicator
        },
        End::by_body);
    REQUIRE(reports.all().size() == 1);
    const std::string text = reports.all()[0];
    CHECK_THAT(text, ContainsSubstring("ranks differ in collective 1 of a communicator of 2 ranks"));
    CHECK_THAT(text, ContainsSubstring(std::string("rank 0 calls ") + difference.shapes[0]));
    CHECK_THAT(text, ContainsSubstring(std::string("rank 1 calls ") + difference.shapes[1]));
  }
}

TEST_CASE("a message of another size than the receiver expects", "[nccl]") {
  const Reports reports;
  run_ranks(
      2,
      [&](const Rank& r) {
        const Floats x(r, std::vector<float>(4));
        if (r.rank == 0) r.ok(ncclSend(x.get(), 2, ncclFloat32, 1, r.comm, r.stream), "ncclSend");
        if (r.rank == 1) r.ok(ncclRecv(x.get(), 3, ncclFloat32, 0, r.comm, r.stream), "ncclRecv");
        r.expect(r.async_error(), ncclInvalidUsage, "ncclCommGetAsyncError");
        r.abort();
      },
      End::by_body);
  REQUIRE(reports.all().size() == 1);
  CHECK_THAT(reports.all()[0], ContainsSubstring("rank 1 is in ncclRecv of 3 ncclFloat32 from rank 0"));
  CHECK_THAT(reports.all()[0], ContainsSubstring("rank 0 in ncclSend of 2 ncclFloat32 to rank 1"));
}

/// Each rank waits in its own thread, which an abort ends.
void wait_then_abort(const Rank& r) {
  std::thread ending([&] {
    r.expect(r.async_error(), ncclInvalidUsage, "ncclCommGetAsyncError");
    ncclCommAbort(r.comm);
  });
  r.synchronize();
  ending.join();
}

TEST_CASE("a deadlock: each rank waits for an operation that the other has not queued", "[nccl]") {
  for_schedules([] {
    const Reports reports;
    run_ranks(
        2,
        [](const Rank& r) {
          const Floats x(r, std::vector<float>(4));
          if (r.rank == 0)
            r.ok(ncclAllReduce(x.get(), x.get(), 4, ncclFloat32, ncclSum, r.comm, r.stream), "ncclAllReduce");
          if (r.rank == 1) r.ok(ncclRecv(x.get(), 4, ncclFloat32, 0, r.comm, r.stream), "ncclRecv");
          wait_then_abort(r);
        },
        End::by_body);
    CAPTURE(reports.all());
    REQUIRE(reports.all().size() == 1);
    const std::string text = reports.all()[0];
    CHECK_THAT(text,
               ContainsSubstring("rank 0 waits in ncclAllReduce of 4 ncclFloat32, ncclSum (collective 0"));
    CHECK_THAT(text, ContainsSubstring("for rank 1"));
    CHECK_THAT(text, ContainsSubstring("rank 1 waits in ncclRecv of 4 ncclFloat32 from rank 0 for rank 0"));
  });
}

TEST_CASE("a deadlock: two communicators in a different order on each rank", "[nccl]") {
  const Reports reports;
  run_ranks(
      2,
      [](const Rank& r) {
        ncclComm_t other = nullptr;
        r.ok(ncclCommSplit(r.comm, 0, 0, &other, nullptr), "ncclCommSplit");
        const Floats x(r, std::vector<float>(4));
        const ncclComm_t first = r.rank == 0 ? r.comm : other, second = r.rank == 0 ? other : r.comm;
        r.ok(ncclAllReduce(x.get(), x.get(), 4, ncclFloat32, ncclSum, first, r.stream), "ncclAllReduce");
        r.ok(ncclAllReduce(x.get(), x.get(), 4, ncclFloat32, ncclSum, second, r.stream), "ncclAllReduce");
        std::thread ending([&] {
          ncclResult_t error = ncclSuccess, other_error = ncclSuccess;
          while (error == ncclSuccess && other_error == ncclSuccess) {
            ncclCommGetAsyncError(r.comm, &error);
            ncclCommGetAsyncError(other, &other_error);
          }
          ncclCommAbort(r.comm);
          ncclCommAbort(other);
        });
        r.synchronize();
        ending.join();
      },
      End::by_body);
  REQUIRE(!reports.all().empty());
  CHECK_THAT(reports.all()[0], ContainsSubstring("deadlock"));
}

TEST_CASE("a rank that waits for a late rank is not reported as a deadlock", "[nccl]") {
  // Rank 1 is late by more than the detection takes.
  const Reports reports;
  run_ranks(2, [](const Rank& r) {
    const Floats x(r, std::vector<float>(4));
    if (r.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    r.ok(ncclAllReduce(x.get(), x.get(), 4, ncclFloat32, ncclSum, r.comm, r.stream), "ncclAllReduce");
    r.synchronize();
  });
  CHECK(reports.all().empty());
}

TEST_CASE("a rank that aborts is an error of a peer, for the operations that wait for it", "[nccl]") {
  run_ranks(
      2,
      [](const Rank& r) {
        const Floats x(r, std::vector<float>(4));
        if (r.rank == 1) return r.abort();
        r.ok(ncclAllReduce(x.get(), x.get(), 4, ncclFloat32, ncclSum, r.comm, r.stream), "ncclAllReduce");
        r.expect(r.async_error(), ncclRemoteError, "ncclCommGetAsyncError");
        r.expect(std::string(ncclGetLastError(r.comm)).find("rank 1 has aborted") != std::string::npos,
                 "ncclGetLastError");
        r.abort();
      },
      End::by_body);
}

TEST_CASE("ranks with conflicting arguments cannot connect", "[nccl]") {
  const auto connect = [](int ranks, int rank, int device, ncclUniqueId id) {
    return std::thread([=] {
      cudaSetDevice(device);
      ncclComm_t comm = nullptr;
      const ncclResult_t result = ncclCommInitRank(&comm, ranks, id, rank);
      if (result != ncclInvalidUsage || comm != nullptr) std::abort();
    });
  };
  const auto both = [&](std::thread a, std::thread b) {
    a.join();
    b.join();
    return std::string(ncclGetLastError(nullptr));
  };
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  CHECK(both(connect(2, 0, 1, id), connect(2, 1, 1, id)) ==
        "duplicate GPU: rank 1 and rank 0 are both on CUDA device 1");
  CHECK(both(connect(2, 0, 0, id), connect(3, 2, 2, id)) == "rank 2 expects 3 ranks, rank 0 expects 2");
  CHECK(both(connect(2, 0, 0, id), connect(2, 0, 1, id)) == "rank 0 has connected twice");
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRank(&comm, 2, id, 2) == ncclInvalidArgument);
  CHECK(ncclCommInitRank(&comm, 0, id, 0) == ncclInvalidArgument);
}

TEST_CASE("ids: random, or from NCCL_COMM_ID", "[nccl]") {
  ncclUniqueId a, b;
  REQUIRE(ncclGetUniqueId(&a) == ncclSuccess);
  REQUIRE(ncclGetUniqueId(&b) == ncclSuccess);
  CHECK(std::memcmp(&a, &b, sizeof a) != 0);
  for (const char* const good : {"127.0.0.1:29500", "node7:1", "[::1]:29500", "[fe80::1]:65535"}) {
    setenv("NCCL_COMM_ID", good, 1);
    CHECK(ncclGetUniqueId(&a) == ncclSuccess);
    CHECK(ncclGetUniqueId(&b) == ncclSuccess);
    CHECK(std::memcmp(&a, &b, sizeof a) == 0);
  }
  for (const char* const bad : {"127.0.0.1", "::1:29500", ":1", "node7:", "node7:x", "node7:65536"}) {
    setenv("NCCL_COMM_ID", bad, 1);
    INFO(bad);
    CHECK(ncclGetUniqueId(&a) == ncclInvalidArgument);
  }
  unsetenv("NCCL_COMM_ID");
  int version = 0;
  CHECK(ncclGetVersion(&version) == ncclSuccess);
  CHECK(version == NCCL_VERSION_CODE);
}

}  // namespace
}  // namespace gpu_model::test
