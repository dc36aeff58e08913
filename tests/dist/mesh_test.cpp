// Ranks named by the dimensions of a mesh.
#include "dist/mesh.h"

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

TEST_CASE("mesh: a rank's number is tensor + context * tensors + ...", "[dist][mesh]") {
  const MeshSizes sizes{.tensor = 2, .context = 3, .data = 4, .pipeline = 5};
  CHECK(sizes.ranks() == 120);
  for (int p = 0, rank = 0; p < 5; ++p) {
    for (int d = 0; d < 4; ++d) {
      for (int c = 0; c < 3; ++c) {
        for (int t = 0; t < 2; ++t, ++rank) CHECK(place_in(sizes, rank) == std::array{t, c, d, p});
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
}

TEST_CASE("mesh: it is drawn with a column for each place along the tensor dimension", "[dist][mesh]") {
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
  // All ranks along each dimension in turn, and two dimensions where the number is not a prime.
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
    CHECK(mesh.of_mean()->size() == (is_of_mean ? ranks : 1));
  }
  if (ranks != 4) return;
  const Mesh mesh(world, {.tensor = 2, .data = 2});
  CHECK(mesh.along(MeshDimension::tensor)->rank() == rank % 2);
  CHECK(mesh.along(MeshDimension::data)->rank() == rank / 2);
  CHECK(sum_of_numbers(*mesh.along(MeshDimension::tensor), rank) == (rank < 2 ? 0 + 1 : 2 + 3));
  CHECK(sum_of_numbers(*mesh.of_mean(), rank) == (rank % 2 == 0 ? 0 + 2 : 1 + 3));
  const Mesh of_mean(world, {.context = 2, .pipeline = 2});
  CHECK(sum_of_numbers(*of_mean.of_mean(), rank) == (rank < 2 ? 0 + 1 : 2 + 3));
  CHECK_THROWS_WITH(Mesh(world, {.tensor = 3}), ContainsSubstring("mesh: sizes for 3 ranks, found 4"));
}

}  // namespace
}  // namespace ringtape::test
