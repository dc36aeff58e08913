#include "dist/naive_reducer.h"

#include <utility>

#include "dist/gradient_buckets.h"
#include "trace/spans.h"

namespace ringtape {

NaiveReducer::NaiveReducer(const ParameterArena& arena, std::shared_ptr<Communicator> comm,
                           const BucketSizes& sizes, std::shared_ptr<CommHook> hook, UsedParameters& used)
    : arena_(arena),
      comm_(std::move(comm)),
      buckets_(make_gradient_buckets(arena, sizes)),
      hook_(std::move(hook)),
      used_(used) {}

void NaiveReducer::end_round() {
  for (const std::size_t b : buckets_of_chunk(arena_, buckets_, chunk_)) {
    const SpanScope span(Track::compute, "launch bucket", {{"bucket", static_cast<std::int64_t>(b)}});
    used_.add_bucket_and_fill(buckets_[b]);
    hook_->launch(*comm_, arena_.gradients().alias({buckets_[b].elements}, buckets_[b].offset));
  }
  hook_->wait(*comm_);
}

}  // namespace ringtape
