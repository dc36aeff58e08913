#include "dist/zero3_reducer.h"

namespace ringtape {

Zero3Reducer::Zero3Reducer(ParameterArena& arena, std::shared_ptr<Communicator> comm, UsedParameters& used)
    : Zero2Reducer(arena, comm, used) {
  Zero2Reducer::promise_equal_rounds(true);
  arena.keep_gathering(nullptr);  // of an earlier DataParallel
  values_ = std::make_shared<UnitValues>(arena, comm);
  arena.keep_gathering(values_);
}

void Zero3Reducer::launch(std::size_t bucket) {
  values_->end_of(bucket);
  Zero2Reducer::launch(bucket);
}

void Zero3Reducer::begin_round(int chunk) {
  chunk_ = chunk;
  Zero2Reducer::begin_round(chunk);
}

void Zero3Reducer::end_round() {
  Zero2Reducer::end_round();
  values_->end_of_backward(chunk_);
}

}  // namespace ringtape
