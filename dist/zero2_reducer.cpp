#include "dist/zero2_reducer.h"

#include "autograd/creation.h"

namespace ringtape {

Zero2Reducer::Zero2Reducer(const ParameterArena& arena, std::shared_ptr<Communicator> comm,
                           UsedParameters& used)
    : comm_(comm),
      buckets_(arena, {}, [this](std::size_t bucket) { launch(bucket); }),
      buffers_(arena, comm),
      used_(used) {}

void Zero2Reducer::begin_round(int chunk) {
  if (!equal_rounds_) announce_round(true);
  buckets_.begin_round(chunk);
}

void Zero2Reducer::after_gradient(std::size_t entry) {
  buffers_.complete(entry);
  buckets_.complete(entry);
}

void Zero2Reducer::launch(std::size_t bucket) {
  used_.add_bucket(buckets()[bucket]);
  buffers_.launch(bucket);
}

void Zero2Reducer::end_round() {
  buckets_.end_round();
  buffers_.end_round();
}

void Zero2Reducer::finish(int chunk, bool /*is_reduced*/) {
  while (!equal_rounds_ && announce_round(false)) {
    buckets_.begin_round(chunk);
    end_round();
  }
  for (const GradientBucket& bucket : buckets()) used_.add_bucket(bucket);
}

/// The first collective of every round, unless ranks have promised equal rounds. From it a rank in finish()
/// learns whether another rank runs a backward; a rank that runs a backward ignores the result.
bool Zero2Reducer::announce_round(bool runs_backward) {
  const Tensor running = full({1}, runs_backward ? 1 : 0, DType::i32, comm_->device());
  const Work work = comm_->all_reduce(running, ReduceOp::max);
  if (runs_backward) return true;
  work.wait();
  return running.to_vector<std::int32_t>()[0] != 0;
}

}  // namespace ringtape
