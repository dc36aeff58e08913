// Ranks named by the dimensions of a mesh.
#include "dist/mesh.h"

#include <memory>
#include <vector>

#include "core/divisors.h"
#include "core/error.h"
#include "tests/dist/ranks.h"
#include "tests/dist/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"

namespace ringtape::test {
namespace {

/// The sum over the ranks of `comm` of each one's number in the world.
double sum_of_numbers(Communicator& comm, int world_rank) {
  const Tensor number = tensor_of({static_cast<double>(world_rank)}, {1}, DType::f32, comm.device());
  comm.all_reduce(number, ReduceOp::sum).wait();
  return number.to_doubles()[0];
}

/// A rank of a simulated world: it only records how it is split.
class FakeWorld : public Communicator {
 public:
  struct Split {
    int color, key;
  };
  FakeWorld(int rank, int size) : Communicator(rank, size, Device{}, Seconds(1)) {}
  const char* backend() const override { return "none"; }

  std::vector<Split> splits;

 protected:
  Work do_all_reduce(const Call&, const Tensor&, const Tensor&) override { is_not_there(); }
  Work do_reduce(const Call&, const Tensor&, const Tensor&) override { is_not_there(); }
  Work do_broadcast(const Call&, const Tensor&) override { is_not_there(); }
  Work do_all_gather(const Parts&) override { is_not_there(); }
  Work do_reduce_scatter(const Parts&) override { is_not_there(); }
  Work do_exchange(const Call&, std::vector<Transfer>, std::vector<Transfer>) override { is_not_there(); }
  void do_barrier(const Call&, Seconds) override { is_not_there(); }
  std::shared_ptr<Communicator> do_split(const Call&, int color, int key) override {
    splits.push_back({color, key});
    return std::make_shared<FakeWorld>(0, 2);  // one of several: a Mesh uses nothing else
  }

 private:
  [[noreturn]] static void is_not_there() { fail("a fake communicator can only be split"); }
};

TEST_CASE("mesh: a rank's number is tensor + context * tensors + ...", "[dist][mesh]") {
  const MeshSizes sizes{.tensor = 2, .context = 3, .data = 4, .pipeline = 5};
  CHECK(sizes.ranks() == 120);
  for (int p = 0, rank = 0; p < 5; ++p) {
    for (int d = 0; d < 4; ++d) {
      for (int c = 0; c < 3; ++c) {
        for (int t = 0; t < 2; ++t, ++rank) CHECK(coordinates_of(sizes, rank) == std::array{t, c, d, p});
      }
    }
  }
}

TEST_CASE("mesh: data takes the ranks that are left", "[dist][mesh]") {
  CHECK(mesh_of(8, {.tensor = 2}) == MeshSizes{.tensor = 2, .data = 4});
  CHECK(mesh_of(8, {.tensor = 2, .pipeline = 4}) == MeshSizes{.tensor = 2, .data = 1, .pipeline = 4});
  CHECK(mesh_of(1, {}) == MeshSizes{});
  CHECK(error_of([] { mesh_of(8, {.tensor = 3}); }) ==
        "--tensor-parallel 3: expected a divisor of the 8 ranks, the nearest is 2");
  CHECK(error_of([] { mesh_of(8, {.tensor = 2, .pipeline = 3}); }) ==
        "--pipeline-parallel 3: expected a divisor of the 4 ranks left, the nearest is 2");
  CHECK(nearest_divisor(12, 5) == 4);
  CHECK(nearest_divisor(12, 100) == 12);
  CHECK(nearest_divisor(7, 3) == 1);
  CHECK(nearest_divisor(12, 8, 5) == 4);
  CHECK(nearest_divisor(12, 5, 1) == 1);
  CHECK(nearest_multiple(7, 4) == 8);
  CHECK(nearest_multiple(6, 4) == 8);
  CHECK(nearest_multiple(9, 5) == 10);
  CHECK(nearest_multiple(11, 5) == 10);
  CHECK(nearest_multiple(1, 5) == 5);
}

TEST_CASE("mesh: it is drawn with a column for each coordinate along the tensor dimension", "[dist][mesh]") {
  CHECK(draw_mesh({.tensor = 2, .data = 2, .pipeline = 2}) ==
        "8 ranks: 2 pipeline x 2 data x 1 context x 2 tensor\n"
        "\n"
        "                     tensor 0   tensor 1\n"
        "pipeline 0, data 0          0          1\n"
        "pipeline 0, data 1          2          3\n"
        "pipeline 1, data 0          4          5\n"
        "pipeline 1, data 1          6          7\n");
}

TEST_CASE("mesh: the communicators connect the ranks of a line", "[dist][mesh]") {
  const auto world = this_run();
  const int rank = world->rank(), ranks = world->size();
  // All ranks along each dimension in turn; with four ranks, two dimensions.
  for (const MeshDimension dimension :
       {MeshDimension::tensor, MeshDimension::context, MeshDimension::data, MeshDimension::pipeline}) {
    MeshSizes sizes;
    (dimension == MeshDimension::tensor    ? sizes.tensor
     : dimension == MeshDimension::context ? sizes.context
     : dimension == MeshDimension::data    ? sizes.data
                                           : sizes.pipeline) = ranks;
    const Mesh mesh(world, sizes);
    CHECK(mesh.along(dimension)->rank() == rank);
    CHECK(sum_of_numbers(*mesh.along(dimension), rank) == ranks * (ranks - 1) / 2);
    const bool is_of_mean = dimension == MeshDimension::data || dimension == MeshDimension::context;
    CHECK(mesh.data_and_context()->size() == (is_of_mean ? ranks : 1));
  }
  if (ranks != 4) return;
  const Mesh mesh(world, {.tensor = 2, .data = 2});
  CHECK(mesh.along(MeshDimension::tensor)->rank() == rank % 2);
  CHECK(mesh.along(MeshDimension::data)->rank() == rank / 2);
  CHECK(sum_of_numbers(*mesh.along(MeshDimension::tensor), rank) == (rank < 2 ? 0 + 1 : 2 + 3));
  CHECK(sum_of_numbers(*mesh.data_and_context(), rank) == (rank % 2 == 0 ? 0 + 2 : 1 + 3));
  const Mesh data_and_context(world, {.context = 2, .pipeline = 2});
  CHECK(sum_of_numbers(*data_and_context.data_and_context(), rank) == (rank < 2 ? 0 + 1 : 2 + 3));
  CHECK_THROWS_WITH(Mesh(world, {.tensor = 3}), ContainsSubstring("mesh: sizes for 3 ranks, found 4"));
}

TEST_CASE("mesh: in four dimensions a communicator has the ranks that differ along its own alone",
          "[dist][mesh]") {
  // With two places along each dimension the digits of a rank's binary number are its places: 1 along tensor,
  // 2 along context, 4 along data, 8 along pipeline. These are the digits in which the ranks of a
  // communicator differ: a line of each dimension, and the plane of data and context.
  const std::vector<unsigned> digits = {0b0001, 0b0010, 0b0100, 0b1000, 0b0110};
  std::vector<std::vector<FakeWorld::Split>> splits;  // by rank
  for (int rank = 0; rank < 16; ++rank) {
    const auto world = std::make_shared<FakeWorld>(rank, 16);
    const Mesh mesh(world, {.tensor = 2, .context = 2, .data = 2, .pipeline = 2});
    splits.push_back(world->splits);
    REQUIRE(splits.back().size() == digits.size());
  }
  for (std::size_t i = 0; i < digits.size(); ++i) {
    for (unsigned a = 0; a < 16; ++a) {
      REQUIRE(splits[a][i].color >= 0);
      for (unsigned b = a + 1; b < 16; ++b) {
        INFO("communicator " << i << ", ranks " << a << " and " << b);
        const bool are_together = ((a ^ b) & ~digits[i]) == 0;
        CHECK((splits[a][i].color == splits[b][i].color) == are_together);
        CHECK(splits[a][i].key < splits[b][i].key);
      }
    }
  }
}

}  // namespace
}  // namespace ringtape::test
