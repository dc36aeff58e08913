#include "dist/comm_hook.h"

#include <utility>

namespace ringtape {

void AllReduceHook::launch(Communicator& comm, const Tensor& bucket) {
  works_.push_back(comm.all_reduce(bucket, ReduceOp::mean));
}

void AllReduceHook::wait(Communicator&) {
  for (const Work& work : std::exchange(works_, {})) work.wait();
}

}  // namespace ringtape
