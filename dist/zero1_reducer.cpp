#include "dist/zero1_reducer.h"

#include <utility>

#include "core/stream.h"
#include "kernels/elementwise.h"
#include "kernels/pointwise.h"

namespace ringtape {

Zero1Reducer::Zero1Reducer(const ParameterArena& arena, std::shared_ptr<Communicator> comm, bool overlap,
                           UsedParameters& used)
    : arena_(arena),
      comm_(std::move(comm)),
      buckets_(arena, {}, [this](std::size_t bucket) { launch(bucket); }),
      overlap_(overlap),
      used_(used),
      reduced_(buckets().size(), 0) {}

void Zero1Reducer::after_gradient(std::size_t entry) {
  if (overlap_) buckets_.complete(entry);
}

void Zero1Reducer::launch(std::size_t number) {
  const GradientBucket& bucket = buckets()[number];
  const ShardSlice& slice = arena_.slices()[number];
  reopen_if_reduced(number);
  used_.add_bucket_and_fill(bucket);
  const Tensor whole = arena_.gradients().alias({bucket.elements}, bucket.offset);
  const Tensor own = arena_.gradients().alias({slice.elements}, slice.offset);
  works_.push_back(comm_->reduce_scatter(whole, own, ReduceOp::mean));
  reduced_[number] = arena_.zero_grad_count();
}

/// Called before gradients are added to a bucket. If the bucket was already reduced in this window: writes n
/// times the mean to the own slice and zeros to the others, so that the mean over the n ranks is the mean so
/// far.
void Zero1Reducer::reopen_if_reduced(std::size_t number) {
  if (std::exchange(reduced_[number], 0) != arena_.zero_grad_count()) return;
  const GradientBucket& bucket = buckets()[number];
  const ShardSlice& slice = arena_.slices()[number];
  const Stream stream = Stream::current(arena_.device());
  const std::int64_t after_slice = slice.offset + slice.elements;
  const std::int64_t after_bucket = bucket.offset + bucket.elements;
  float* const gradients = arena_.gradients().data<float>();
  fill(stream, DType::f32, gradients + bucket.offset, slice.offset - bucket.offset, 0.0);
  fill(stream, DType::f32, gradients + after_slice, after_bucket - after_slice, 0.0);
  scale(stream, DType::f32, gradients + slice.offset, gradients + slice.offset, slice.elements,
        static_cast<double>(comm_->size()));
}

void Zero1Reducer::end_round() {
  buckets_.end_round();
  for (const Work& work : std::exchange(works_, {})) work.wait();
}

}  // namespace ringtape
