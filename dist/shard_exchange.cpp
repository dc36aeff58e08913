#include "dist/shard_exchange.h"

#include <vector>

namespace ringtape {
namespace {

void all_gather_slices(const ParameterArena& arena, Communicator& comm, const Tensor& flat) {
  std::vector<Work> works;
  for (std::size_t b = 0; b < arena.buckets().size(); ++b) {
    const GradientBucket& bucket = arena.buckets()[b];
    const ShardSlice& slice = arena.slices()[b];
    works.push_back(comm.all_gather(flat.alias({slice.elements}, slice.offset),
                                    flat.alias({bucket.elements}, bucket.offset)));
  }
  for (const Work& work : works) work.wait();
}

}  // namespace

ShardExchange make_shard_exchange(const ParameterArena& arena, std::shared_ptr<Communicator> comm) {
  return {.sum = all_reduce_over(comm, ReduceOp::sum),
          .max = all_reduce_over(comm, ReduceOp::max),
          .all_gather = [comm, &arena](const Tensor& flat) { all_gather_slices(arena, *comm, flat); }};
}

}  // namespace ringtape
