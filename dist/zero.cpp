#include "dist/zero.h"

#include <utility>

#include "core/stream.h"
#include "kernels/elementwise.h"
#include "kernels/pointwise.h"

namespace ringtape {
namespace {

/// This rank's slice of a bucket.
Tensor own_slice(const Communicator& ranks, const Tensor& bucket) {
  const std::int64_t elements = bucket.elements() / ranks.size();
  return bucket.alias({elements}, ranks.rank() * elements);
}

void all_gather_slices(const ParameterArena& arena, Communicator& ranks, const Tensor& flat) {
  std::vector<Work> works;
  for (const GradientBucket& bucket : arena.buckets()) {
    const Tensor whole = flat.alias({bucket.elements}, bucket.offset);
    works.push_back(ranks.all_gather(own_slice(ranks, whole), whole));
  }
  for (const Work& work : works) work.wait();
}

}  // namespace

ShardExchange make_shard_exchange(const ParameterArena& arena, std::shared_ptr<Communicator> ranks) {
  return {.sum = [ranks](const Tensor& x) { ranks->all_reduce(x, ReduceOp::sum).wait(); },
          .max = [ranks](const Tensor& x) { ranks->all_reduce(x, ReduceOp::max).wait(); },
          .all_gather = [ranks, &arena](const Tensor& flat) { all_gather_slices(arena, *ranks, flat); }};
}

void ReduceScatterHook::launch(Communicator& ranks, const Tensor& bucket) {
  works_.push_back(ranks.reduce_scatter(bucket, own_slice(ranks, bucket), ReduceOp::mean));
}

void ReduceScatterHook::wait(Communicator&) {
  for (const Work& work : std::exchange(works_, {})) work.wait();
}

void ReduceScatterHook::reopen(Communicator& ranks, const Tensor& bucket) {
  const Stream stream = Stream::current(bucket.device());
  const Tensor own = own_slice(ranks, bucket);
  const std::int64_t before = own.offset() - bucket.offset();
  const std::int64_t after = bucket.elements() - before - own.elements();
  fill(stream, DType::f32, bucket.raw(), before, 0.0);
  fill(stream, DType::f32, bucket.alias({after}, before + own.elements()).raw(), after, 0.0);
  scale(stream, DType::f32, own.raw(), own.raw(), own.elements(), static_cast<double>(ranks.size()));
}

}  // namespace ringtape
