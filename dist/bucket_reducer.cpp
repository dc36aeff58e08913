#include "dist/bucket_reducer.h"

#include <utility>

namespace ringtape {

BucketReducer::BucketReducer(const ParameterArena& arena, std::shared_ptr<Communicator> comm,
                             const BucketSizes& sizes, std::shared_ptr<CommHook> hook, UsedParameters& used)
    : arena_(arena),
      comm_(std::move(comm)),
      buckets_(arena, sizes, [this](std::size_t bucket) { launch(buckets()[bucket]); }),
      hook_(std::move(hook)),
      used_(used) {}

void BucketReducer::launch(const GradientBucket& bucket) {
  used_.add_bucket_and_fill(bucket);
  hook_->launch(*comm_, arena_.gradients().alias({bucket.elements}, bucket.offset));
}

void BucketReducer::end_round() {
  buckets_.end_round();
  hook_->wait(*comm_);
}

}  // namespace ringtape
