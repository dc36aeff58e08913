#include "core/error.h"
#include "dist/ring_all_reduce.h"
#include "tests/dist/ranks.h"
#include "tests/support/catch.h"

using namespace ringtape;
using namespace ringtape::test;

namespace {

Tensor own_values(const Communicator& comm, std::int64_t n, DType dtype) {
  return tensor_of(values_of(comm.rank(), n), {n}, dtype, comm.device());
}

}  // namespace

TEST_CASE("ring_all_reduce: sums and means of any size, in segments of any size", "[dist][ring]") {
  for (const auto& [name, comm] : all_communicators()) {
    for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      for (std::int64_t n : {0, 1, 2, 3, 4, 5, 12, 1000, 1001, 1003}) {
        for (std::int64_t segment_bytes : {1, 12, 100, 256 * 1024}) {
          if (segment_bytes == 1 && n > 12) continue;  // a thousand segments show no more than 300
          for (int in_flight : {1, 2, 5}) {
            INFO(name << ", " << n << " " << name_of(dtype) << ", segments of " << segment_bytes << " bytes, "
                      << in_flight << " in flight");
            const RingOptions options{.segment_bytes = segment_bytes, .in_flight = in_flight, .trace = {}};
            const Tensor sum = own_values(*comm, n, dtype), mean = own_values(*comm, n, dtype);
            const std::uint64_t version = sum.storage()->version;
            ring_all_reduce(*comm, sum, ReduceOp::sum, options);
            if (comm->size() > 1 && n > 0) CHECK(sum.storage()->version > version);
            check_close(sum.to_doubles(), reduced(ReduceOp::sum, comm->size(), n), 0);
            ring_all_reduce(*comm, mean, ReduceOp::mean, options);
            // 1/ranks and the product are rounded.
            check_close(mean.to_doubles(), reduced(ReduceOp::mean, comm->size(), n),
                        2.01 * rounding_of(dtype));
          }
        }
      }
    }
  }
}

TEST_CASE("ring_all_reduce: each rank sends 2 (n - 1) / n of the tensor", "[dist][ring]") {
  for (const auto& [name, comm] : all_communicators()) {
    const int size = comm->size();
    for (std::int64_t n : {12 * 50, 12 * 50 + 1, 12 * 50 + 5, 2}) {
      INFO(name << ", " << n);
      const Tensor tensor = own_values(*comm, n, DType::f32);
      const Traffic before = comm->traffic();
      ring_all_reduce(*comm, tensor, ReduceOp::sum, {.segment_bytes = 64, .in_flight = 3, .trace = {}});
      const auto sent = static_cast<std::int64_t>(comm->traffic().sent - before.sent);
      const auto received = static_cast<std::int64_t>(comm->traffic().received - before.received);
      // Each half leaves out one chunk: the last that the rank receives.
      const auto chunk = [&](int number) { return ring_chunk(n, size, (number + size) % size).count; };
      const std::int64_t elements = 2 * n - chunk(comm->rank() + 1) - chunk(comm->rank() + 2);
      CHECK(sent == (size == 1 ? 0 : 4 * elements));
      if (n % size == 0) CHECK(sent == 4 * 2 * (size - 1) * n / size);
      if (n % size == 0) CHECK(received == sent);
    }
  }
}

TEST_CASE("ring_all_reduce: the same bits on all ranks, the sum in the order of the ring", "[dist][ring]") {
  for (const auto& [name, comm] : all_communicators()) {
    for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      INFO(name << ", " << name_of(dtype));
      constexpr std::int64_t n = 1501;
      const int size = comm->size();
      // Chunk c begins at rank c and goes round: (((x_c + x_c+1) + x_c+2) + ...), each sum rounded to the
      // dtype.
      std::vector<double> expected;
      for (int chunk = 0; chunk < size; ++chunk) {
        const auto [first, count] = ring_chunk(n, size, chunk);
        const auto part = [&](int rank) {
          const std::vector<double> all = random_doubles(n, 7 + rank % size);
          return tensor_of({all.begin() + first, all.begin() + first + count}, {count}, dtype);
        };
        Tensor sum = part(chunk);
        for (int hop = 1; hop < size; ++hop) sum = add(sum, part(chunk + hop));
        const std::vector<double> values = sum.to_doubles();
        expected.insert(expected.end(), values.begin(), values.end());
      }
      const Tensor tensor = tensor_of(random_doubles(n, 7 + comm->rank()), {n}, dtype, comm->device());
      ring_all_reduce(*comm, tensor, ReduceOp::sum, {.segment_bytes = 400, .in_flight = 4, .trace = {}});
      CHECK((tensor.to_doubles() == expected));
    }
  }
}

TEST_CASE("ring_all_reduce: which chunk moves where", "[dist][ring]") {
  for (const auto& [name, comm] : all_communicators()) {
    INFO(name);
    const int size = comm->size(), rank = comm->rank();
    std::vector<RingTransfer> trace;
    const Tensor tensor = own_values(*comm, 8 * size, DType::f32);
    ring_all_reduce(*comm, tensor, ReduceOp::sum,
                    {.segment_bytes = 16, .in_flight = 2, .trace = [&](const RingTransfer& transfer) {
                       trace.push_back(transfer);
                     }});
    // Two segments a chunk, 2 (size - 1) steps.
    REQUIRE(static_cast<int>(trace.size()) == 2 * 2 * (size - 1));
    for (std::size_t i = 0; i < trace.size(); ++i) {
      const int step = static_cast<int>(i) / 2;
      CHECK(trace[i].step == step);
      CHECK(trace[i].segment == static_cast<int>(i) % 2);
      // In both halves a chunk moves on by one rank at every step.
      CHECK(trace[i].sent_chunk == ((rank - step) % size + size) % size);
      CHECK(trace[i].received_chunk == ((rank - step - 1) % size + size) % size);
      CHECK(trace[i].sent_elements == 4);
      CHECK(trace[i].received_elements == 4);
    }
  }
}

TEST_CASE("ring_all_reduce: wrong arguments", "[dist][ring]") {
  for (const auto& [name, comm] : all_communicators()) {
    const Tensor floats = own_values(*comm, 4, DType::f32), ints = own_values(*comm, 4, DType::i32);
    CHECK_THROWS_WITH(ring_all_reduce(*comm, ints, ReduceOp::sum), ContainsSubstring("i32[4]"));
    CHECK_THROWS_WITH(ring_all_reduce(*comm, Tensor(), ReduceOp::sum), ContainsSubstring("undefined"));
    CHECK_THROWS_WITH(ring_all_reduce(*comm, floats, ReduceOp::max),
                      ContainsSubstring("expected sum or mean"));
    CHECK_THROWS_WITH(
        ring_all_reduce(*comm, floats, ReduceOp::sum, {.segment_bytes = 0, .in_flight = 1, .trace = {}}),
        ContainsSubstring("segments of 0 bytes"));
  }
}
