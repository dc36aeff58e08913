#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "core/error.h"
#include "tests/dist/ranks.h"
#include "tests/support/catch.h"

using namespace ringtape;
using namespace ringtape::test;

namespace {

constexpr DType kDTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max};
constexpr std::int64_t kSizes[] = {0, 1, 2, 3, 17, 1000, 4099};

bool is_defined(ReduceOp op, DType dtype) {
  return op != ReduceOp::mean || is_floating(dtype);
}

Tensor tensor_on(const Communicator& comm, const std::vector<double>& values, DType dtype) {
  return tensor_of(values, {static_cast<std::int64_t>(values.size())}, dtype, comm.device());
}

Tensor zeros_on(const Communicator& comm, std::int64_t n, DType dtype) {
  return tensor_on(comm, std::vector<double>(static_cast<std::size_t>(n), 0.0), dtype);
}

/// The elements of all ranks, one rank after the other; rank r has counts[r].
std::vector<double> joined(const std::vector<std::int64_t>& counts) {
  std::vector<double> all;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    const std::vector<double> part = values_of(static_cast<int>(rank), counts[rank]);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::int64_t total(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

std::int64_t offset_of(const std::vector<std::int64_t>& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::int64_t{0});
}

/// Counts of the ranks: all 0, all equal, and two kinds of uneven ones.
std::vector<std::vector<std::int64_t>> some_counts(int comm) {
  std::vector<std::vector<std::int64_t>> all(4);
  for (std::int64_t rank = 0; rank < comm; ++rank) {
    all[0].push_back(0);
    all[1].push_back(50);
    all[2].push_back(3 * rank + 1);
    all[3].push_back(rank == 1 ? 0 : 40 - 9 * rank);
  }
  return all;
}

}  // namespace

TEST_CASE("all_reduce", "[dist][collectives]") {
  for (const auto& [name, comm] : all_communicators()) {
    for (DType dtype : kDTypes) {
      for (ReduceOp op : kOps) {
        if (!is_defined(op, dtype)) continue;
        for (std::int64_t n : kSizes) {
          INFO(name << ", " << n << " " << name_of(dtype) << ", " << name_of(op));
          const Tensor input = tensor_on(*comm, values_of(comm->rank(), n), dtype);
          const Tensor output = zeros_on(*comm, n, dtype);
          const std::vector<double> expected = reduced(op, comm->size(), n);
          comm->all_reduce(input, output, op).wait();
          check_close(output.to_doubles(), expected, rounding_of(dtype));
          CHECK(input.to_doubles() == values_of(comm->rank(), n));
          comm->all_reduce(input, op).wait();
          check_close(input.to_doubles(), expected, rounding_of(dtype));
        }
      }
    }
  }
}

TEST_CASE("reduce: only the root gets the result", "[dist][collectives]") {
  for (const auto& [name, comm] : all_communicators()) {
    for (DType dtype : kDTypes) {
      for (ReduceOp op : kOps) {
        if (!is_defined(op, dtype)) continue;
        for (int root = 0; root < comm->size(); ++root) {
          for (std::int64_t n : {0, 5, 100}) {
            INFO(name << ", " << n << " " << name_of(dtype) << ", " << name_of(op) << ", root " << root);
            const bool is_root = comm->rank() == root;
            const Tensor input = tensor_on(*comm, values_of(comm->rank(), n), dtype);
            const Tensor output = is_root ? zeros_on(*comm, n, dtype) : Tensor();
            const std::vector<double> expected = reduced(op, comm->size(), n);
            comm->reduce(input, output, op, root).wait();
            if (is_root) check_close(output.to_doubles(), expected, rounding_of(dtype));
            CHECK(input.to_doubles() == values_of(comm->rank(), n));
            comm->reduce(input, input, op, root).wait();
            const std::vector<double> after = is_root ? expected : values_of(comm->rank(), n);
            check_close(input.to_doubles(), after, rounding_of(dtype));
          }
        }
      }
    }
  }
}

TEST_CASE("a mean is the sum divided by the number of ranks, rounded once more", "[dist][collectives]") {
  for (const auto& [name, comm] : all_communicators()) {
    const int size = comm->size();
    for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      constexpr std::int64_t n = 1003;
      const auto mean_of = [&](std::int64_t count, std::int64_t first) {
        std::vector<double> sums = reduced(ReduceOp::sum, size, count, first);
        for (double& sum : sums) sum /= size;
        return tensor_of(sums, {count}, dtype).to_doubles();
      };
      INFO(name << ", " << name_of(dtype));
      const Tensor all = tensor_on(*comm, values_of(comm->rank(), n), dtype);
      comm->all_reduce(all, ReduceOp::mean).wait();
      CHECK((all.to_doubles() == mean_of(n, 0)));
      const Tensor to_last = tensor_on(*comm, values_of(comm->rank(), n), dtype);
      comm->reduce(to_last, to_last, ReduceOp::mean, size - 1).wait();
      CHECK(
          (to_last.to_doubles() == (comm->rank() == size - 1 ? mean_of(n, 0) : values_of(comm->rank(), n))));
      for (const std::vector<std::int64_t>& counts : some_counts(size)) {
        const std::int64_t own = counts[comm->rank()];
        const Tensor input = tensor_on(*comm, values_of(comm->rank(), total(counts)), dtype);
        const Tensor output = zeros_on(*comm, own, dtype);
        comm->reduce_scatter(input, output, ReduceOp::mean, counts).wait();
        CHECK((output.to_doubles() == mean_of(own, offset_of(counts, comm->rank()))));
      }
    }
  }
}

TEST_CASE("broadcast", "[dist][collectives]") {
  for (const auto& [name, comm] : all_communicators()) {
    for (DType dtype : kDTypes) {
      for (int root = 0; root < comm->size(); ++root) {
        for (std::int64_t n : kSizes) {
          INFO(name << ", " << n << " " << name_of(dtype) << ", root " << root);
          const Tensor tensor = tensor_on(*comm, values_of(comm->rank(), n), dtype);
          comm->broadcast(tensor, root).wait();
          CHECK(tensor.to_doubles() == values_of(root, n));
        }
      }
    }
  }
}

TEST_CASE("all_gather", "[dist][collectives]") {
  for (const auto& [name, comm] : all_communicators()) {
    for (DType dtype : kDTypes) {
      for (const std::vector<std::int64_t>& counts : some_counts(comm->size())) {
        INFO(name << ", " << name_of(dtype) << ", "
                  << Catch::StringMaker<std::vector<std::int64_t>>::convert(counts));
        const std::int64_t own = counts[comm->rank()];
        const Tensor input = tensor_on(*comm, values_of(comm->rank(), own), dtype);
        const Tensor output = zeros_on(*comm, total(counts), dtype);
        comm->all_gather(input, output, counts).wait();
        CHECK(output.to_doubles() == joined(counts));

        const Tensor whole = zeros_on(*comm, total(counts), dtype);
        Tensor part = whole.alias({own}, offset_of(counts, comm->rank()));
        part.copy_from(input);
        comm->all_gather(part, whole, counts).wait();
        CHECK(whole.to_doubles() == joined(counts));
      }
      const Tensor input = tensor_on(*comm, values_of(comm->rank(), 6), dtype);
      const Tensor output = zeros_on(*comm, 6 * comm->size(), dtype);
      comm->all_gather(input, output).wait();
      CHECK(output.to_doubles() == joined(std::vector<std::int64_t>(comm->size(), 6)));
    }
  }
}

TEST_CASE("reduce_scatter", "[dist][collectives]") {
  for (const auto& [name, comm] : all_communicators()) {
    for (DType dtype : kDTypes) {
      for (ReduceOp op : kOps) {
        if (!is_defined(op, dtype)) continue;
        for (const std::vector<std::int64_t>& counts : some_counts(comm->size())) {
          INFO(name << ", " << name_of(dtype) << ", " << name_of(op) << ", "
                    << Catch::StringMaker<std::vector<std::int64_t>>::convert(counts));
          const std::int64_t own = counts[comm->rank()], first = offset_of(counts, comm->rank());
          const std::vector<double> expected = reduced(op, comm->size(), own, first);
          const Tensor input = tensor_on(*comm, values_of(comm->rank(), total(counts)), dtype);
          const Tensor output = zeros_on(*comm, own, dtype);
          comm->reduce_scatter(input, output, op, counts).wait();
          check_close(output.to_doubles(), expected, rounding_of(dtype));
          CHECK(input.to_doubles() == values_of(comm->rank(), total(counts)));

          const Tensor part = input.alias({own}, first);
          comm->reduce_scatter(input, part, op, counts).wait();
          check_close(part.to_doubles(), expected, rounding_of(dtype));
        }
      }
    }
  }
}

TEST_CASE("gather and scatter", "[dist][collectives]") {
  for (const auto& [name, comm] : all_communicators()) {
    for (DType dtype : kDTypes) {
      for (const std::vector<std::int64_t>& counts : some_counts(comm->size())) {
        for (int root = 0; root < comm->size(); ++root) {
          INFO(name << ", " << name_of(dtype) << ", root " << root << ", "
                    << Catch::StringMaker<std::vector<std::int64_t>>::convert(counts));
          const bool is_root = comm->rank() == root;
          const std::int64_t own = counts[comm->rank()];
          const Tensor part = tensor_on(*comm, values_of(comm->rank(), own), dtype);
          const Tensor whole = is_root ? zeros_on(*comm, total(counts), dtype) : Tensor();
          comm->gather(part, whole, root, counts).wait();
          if (is_root) CHECK(whole.to_doubles() == joined(counts));
          const Tensor back = zeros_on(*comm, own, dtype);
          comm->scatter(whole, back, root, counts).wait();
          CHECK(back.to_doubles() == values_of(comm->rank(), own));
        }
      }
    }
    // In place: the root's part of the whole.
    const std::vector<std::int64_t> counts = some_counts(comm->size())[2];
    const Tensor whole = zeros_on(*comm, total(counts), DType::f32);
    Tensor part = whole.alias({counts[comm->rank()]}, offset_of(counts, comm->rank()));
    part.copy_from(tensor_on(*comm, values_of(comm->rank(), counts[comm->rank()]), DType::f32));
    comm->gather(part, whole, 0, counts).wait();
    if (comm->rank() == 0) CHECK(whole.to_doubles() == joined(counts));
    comm->scatter(whole, part, 0, counts).wait();
    CHECK(part.to_doubles() == values_of(comm->rank(), counts[comm->rank()]));
  }
}

TEST_CASE("exchange: every rank to every rank, itself included, twice", "[dist][collectives]") {
  for (const auto& [name, comm] : all_communicators()) {
    for (DType dtype : kDTypes) {
      INFO(name << ", " << name_of(dtype));
      // Rank a sends rank b 3 a + b elements (rank 0 sends itself none), then as many other elements.
      const auto elements = [](int from, int to) { return std::int64_t{3 * from + to}; };
      std::vector<Transfer> sends, receives;
      std::vector<std::vector<double>> expected;
      std::uint64_t sent = 0, received = 0;
      for (int round = 0; round < 2; ++round) {
        for (int peer = 0; peer < comm->size(); ++peer) {
          const std::int64_t out = elements(comm->rank(), peer), in = elements(peer, comm->rank());
          sends.push_back({tensor_on(*comm, values_of(comm->rank(), out, 10 * peer + round), dtype), peer});
          receives.push_back({zeros_on(*comm, in, dtype), peer});
          expected.push_back(values_of(peer, in, 10 * comm->rank() + round));
          sent += static_cast<std::uint64_t>(out) * size_of(dtype);
          received += static_cast<std::uint64_t>(in) * size_of(dtype);
        }
      }
      const Traffic before = comm->traffic();
      comm->exchange(sends, receives).wait();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CHECK(receives[i].tensor.to_doubles() == expected[i]);
      }
      CHECK(comm->traffic().sent - before.sent == sent);
      CHECK(comm->traffic().received - before.received == received);
    }
  }
}

TEST_CASE("exchange: a collective of another communicator does not wait for the receiver to be ready",
          "[dist][stages]") {
  const auto world = all_communicators().front().communicator;
  if (world->size() == 1) return;
  const auto pairs = world->split(0, world->rank()), sums = world->split(0, world->rank());
  const int rank = world->rank(), last = world->size() - 1;
  constexpr std::int64_t kElements = 100'000;  // more than MPI keeps for a receiver that is not ready
  // The first message waits for its receiver all the same: NCCL connects two ranks when both have called it.
  const Tensor first = zeros_on(*pairs, 1, DType::f32);
  if (rank == 0) pairs->exchange({{first, last}}, {}).wait();
  if (rank == last) pairs->exchange({}, {{first, 0}}).wait();
  const Tensor values = tensor_on(*pairs, values_of(0, kElements), DType::f32);
  const Work sent = rank == 0 ? pairs->exchange({{values, last}}, {}) : Work();
  const Tensor sum = tensor_on(*sums, values_of(rank, 10), DType::f32);
  sums->all_reduce(sum, ReduceOp::sum).wait();
  CHECK(sum.to_doubles() == reduced(ReduceOp::sum, world->size(), 10));
  const Tensor received = zeros_on(*pairs, kElements, DType::f32);
  if (rank == last) {
    pairs->exchange({}, {{received, 0}}).wait();
    CHECK(received.to_doubles() == values_of(0, kElements));
  }
  sent.wait();
}

TEST_CASE("operations in flight together are waited for in another order", "[dist][collectives]") {
  for (const auto& [name, comm] : all_communicators()) {
    INFO(name);
    const int rank = comm->rank(), size = comm->size();
    std::vector<Tensor> sums;
    std::vector<Work> works;
    std::vector<Tensor> received;
    for (int k = 0; k < 20; ++k) {
      sums.push_back(tensor_on(*comm, values_of(rank, 100, k), DType::f32));
      works.push_back(comm->all_reduce(sums.back(), ReduceOp::sum));
      // Only the operation holds the sent tensors.
      received.push_back(zeros_on(*comm, 50, DType::f32));
      works.push_back(
          comm->exchange({{tensor_on(*comm, values_of(rank, 50, k), DType::f32), (rank + 1) % size}},
                         {{received.back(), (rank + size - 1) % size}}));
    }
    for (std::size_t i = works.size(); i-- > 0;) works[i].wait();
    for (int k = 0; k < 20; ++k) {
      CHECK(sums[k].to_doubles() == reduced(ReduceOp::sum, size, 100, k));
      CHECK(received[k].to_doubles() == values_of((rank + size - 1) % size, 50, k));
    }
  }
}

TEST_CASE("all_reduce: the same bits on all ranks, and at every call", "[dist][collectives]") {
  for (const auto& [name, comm] : all_communicators()) {
    for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      INFO(name << ", " << name_of(dtype));
      constexpr std::int64_t n = 3001;
      const std::vector<double> own = random_doubles(n, 100 + comm->rank());
      std::vector<double> sums(n, 0.0), sizes(n, 0.0);
      for (int rank = 0; rank < comm->size(); ++rank) {
        const std::vector<double> values = tensor_of(random_doubles(n, 100 + rank), {n}, dtype).to_doubles();
        for (std::int64_t i = 0; i < n; ++i) sums[i] += values[i], sizes[i] += std::abs(values[i]);
      }
      std::vector<double> first;
      for (int call = 0; call < 3; ++call) {
        const Tensor tensor = tensor_on(*comm, own, dtype);
        comm->all_reduce(tensor, ReduceOp::sum).wait();
        const Tensor all = zeros_on(*comm, n * comm->size(), dtype);
        comm->all_gather(tensor, all).wait();
        const std::vector<double> found = all.to_doubles();
        for (std::int64_t i = 0; i < n; ++i) {
          // Each of size - 1 additions rounds a partial sum no larger than the sum of magnitudes.
          REQUIRE(std::abs(found[i] - sums[i]) <= (comm->size() - 1) * 1.01 * rounding_of(dtype) * sizes[i]);
          for (int rank = 1; rank < comm->size(); ++rank) REQUIRE(found[i] == found[i + rank * n]);
        }
        if (call == 0) first = found;
        CHECK((found == first));
      }
    }
  }
}

TEST_CASE("split", "[dist][collectives]") {
  for (const auto& [name, comm] : all_communicators()) {
    INFO(name);
    const int rank = comm->rank(), size = comm->size();
    // Ranks of one parity, in reverse order.
    const std::shared_ptr<Communicator> part = comm->split(rank % 2, -rank);
    REQUIRE(part != nullptr);
    const int in_part = rank % 2 == 0 ? (size + 1) / 2 : size / 2;
    CHECK(part->size() == in_part);
    CHECK(part->rank() == in_part - 1 - rank / 2);
    const Tensor sum = tensor_on(*part, {static_cast<double>(rank)}, DType::f32);
    part->all_reduce(sum, ReduceOp::sum).wait();
    double expected = 0;
    for (int other = rank % 2; other < size; other += 2) expected += other;
    CHECK(sum.item() == expected);
    part->barrier();

    const std::shared_ptr<Communicator> first = comm->split(rank == 0 ? 0 : -1, 0);
    CHECK((first != nullptr) == (rank == 0));
    if (first) CHECK(first->size() == 1);
  }
}

TEST_CASE("barrier: no rank leaves before all have entered", "[dist][collectives]") {
  const auto now = [] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  for (const auto& [name, comm] : all_communicators()) {
    for (int last = 0; last < comm->size(); ++last) {
      INFO(name);
      if (comm->rank() == last) std::this_thread::sleep_for(std::chrono::milliseconds(30));
      const std::int64_t came = now();
      comm->barrier(Seconds(100));
      const std::int64_t left = now();
      const Tensor latest = from_vector(std::vector<std::int64_t>{came}, {1}, comm->device());
      const Tensor earliest = from_vector(std::vector<std::int64_t>{left}, {1}, comm->device());
      comm->all_reduce(latest, ReduceOp::max).wait();
      comm->all_reduce(earliest, ReduceOp::min).wait();
      CHECK(earliest.to_vector<std::int64_t>()[0] >= latest.to_vector<std::int64_t>()[0]);
    }
  }
}

TEST_CASE("wrong arguments are an error on every rank, and the next operation is right",
          "[dist][collectives]") {
  for (const auto& [name, comm] : all_communicators()) {
    INFO(name);
    const int size = comm->size();
    const Tensor floats = zeros_on(*comm, 4, DType::f32), others = zeros_on(*comm, 4, DType::f32);
    const Tensor three = zeros_on(*comm, 3, DType::f32), ints = zeros_on(*comm, 4, DType::i32);
    const Tensor bytes = empty({4}, DType::u8, comm->device());
    const std::vector<std::int64_t> too_few(static_cast<std::size_t>(size + 1), 4);
    CHECK_THROWS_WITH(comm->all_reduce(Tensor(), ReduceOp::sum), ContainsSubstring("undefined"));
    CHECK_THROWS_WITH(comm->all_reduce(bytes, ReduceOp::sum), ContainsSubstring("u8[4]"));
    CHECK_THROWS_WITH(comm->all_reduce(ints, ReduceOp::mean), ContainsSubstring("mean of i32"));
    CHECK_THROWS_WITH(comm->all_reduce(floats, three, ReduceOp::sum),
                      ContainsSubstring("the same number of elements"));
    CHECK_THROWS_WITH(comm->all_reduce(floats, ints, ReduceOp::sum), ContainsSubstring("same dtype"));
    CHECK_THROWS_WITH(comm->all_reduce(floats.alias({3}, 0), floats.alias({3}, 1), ReduceOp::sum),
                      ContainsSubstring("separate"));
    CHECK_THROWS_WITH(comm->broadcast(floats, size), ContainsSubstring("root is rank"));
    CHECK_THROWS_WITH(comm->broadcast(floats, -1), ContainsSubstring("root is rank -1"));
    CHECK_THROWS_WITH(comm->all_gather(floats, three), ContainsSubstring("all_gather: output"));
    CHECK_THROWS_WITH(comm->all_gather(floats, others, too_few), ContainsSubstring("counts for"));
    CHECK_THROWS_WITH(comm->reduce_scatter(three, floats, ReduceOp::sum), ContainsSubstring("input is"));
    CHECK_THROWS_WITH(comm->exchange({{floats, size}}, {}), ContainsSubstring("peer"));
    CHECK_THROWS_WITH(comm->exchange({{floats, 0}}, {{ints, 0}}), ContainsSubstring("one dtype"));
    CHECK_THROWS_WITH(comm->barrier(Seconds(0)), ContainsSubstring("deadline of 0 s"));

    const Tensor tensor = tensor_on(*comm, values_of(comm->rank(), 5), DType::f32);
    comm->all_reduce(tensor, ReduceOp::sum).wait();
    CHECK(tensor.to_doubles() == reduced(ReduceOp::sum, size, 5));
  }
}
