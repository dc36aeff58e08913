// The ways to average gradients: which collectives each calls, and with how many bytes.
#include "dist/data_parallel.h"
#include "tests/dist/trainer.h"
#include "tests/dist/zero_trainer.h"
#include "tests/support/catch.h"

using namespace ringtape;
using namespace ringtape::test;

namespace {

CollectiveCount count_of(const Communicator& comm, CommOperation operation) {
  return comm.collectives()[static_cast<std::size_t>(operation)];
}

struct Calls {
  std::uint64_t all_reduces, reduce_scatters, reduce_scattered_bytes;
};

}  // namespace

TEST_CASE("gradient reducers: the collectives of one window of two micro-batches", "[dist][ddp][zero]") {
  const auto comm = this_run();
  const auto n = static_cast<std::int64_t>(comm->size());
  const Data data(4 * n, 1);
  const std::vector<MicroBatch> own = cut({4 * comm->rank(), 4}, 2);
  std::vector<double> all_reduced;
  for (const auto& [stage, overlap] :
       std::vector<std::pair<int, bool>>{{0, false}, {0, true}, {1, false}, {1, true}, {2, true}}) {
    INFO("stage " << stage << ", overlap " << overlap);
    manual_seed(1);
    const auto model = make_mlp({kInputs, 16, 16, kClasses});
    ParameterArena arena(*model, comm->device(), DType::f32, sharding_of(*comm, stage, 1024));
    DataParallel parallel(
        *model, arena, comm,
        {.bucket_sizes = {1024, 1024}, .overlap = overlap, .allow_unused = false, .hook = nullptr});
    const auto buckets = static_cast<std::uint64_t>(parallel.buckets().size());
    const auto bytes = static_cast<std::uint64_t>(arena.size()) * sizeof(float);
    REQUIRE(buckets > 1);

    const CollectiveCount reduces = count_of(*comm, CommOperation::all_reduce);
    const CollectiveCount scatters = count_of(*comm, CommOperation::reduce_scatter);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const auto no_sync = parallel.no_sync(i + 1 < own.size());
      const TapeScope scope;
      const auto x = data.x.begin() + own[i].first * kInputs;
      const auto y = data.targets.begin() + own[i].first;
      const Tensor inputs =
          tensor_of({x, x + own[i].size * kInputs}, {own[i].size, kInputs}, DType::f32, comm->device());
      const Tensor targets =
          copy_to(from_vector(std::vector<std::int64_t>(y, y + own[i].size), {own[i].size}), comm->device());
      cross_entropy((*model)(inputs), targets, {.reduction = Reduction::sum, .divisor = 4}).backward();
    }
    parallel.finish();

    // Each kind ends with the all-reduce of used parameters; one rank needs none. Stage 2 reduces in every
    // backward, announces each backward, and announces once that no other follows.
    const std::uint64_t last = n > 1 ? 1 : 0;
    const Calls expected = stage == 0   ? Calls{buckets + last, 0, 0}
                           : stage == 1 ? Calls{last, buckets, bytes}
                                        : Calls{2 + 1 + last, 2 * buckets, 2 * bytes};
    CHECK(count_of(*comm, CommOperation::all_reduce).calls - reduces.calls == expected.all_reduces);
    CHECK(count_of(*comm, CommOperation::reduce_scatter).calls - scatters.calls == expected.reduce_scatters);
    CHECK(count_of(*comm, CommOperation::reduce_scatter).bytes - scatters.bytes ==
          expected.reduce_scattered_bytes);

    // With equal bucket sizes the same numbers are added, whenever the buckets are launched.
    if (stage > 0) continue;
    const std::vector<double> gradients = arena.gradients().to_doubles();
    if (overlap) CHECK(gradients == all_reduced);
    all_reduced = gradients;
  }
}
