#include "gpu_model/nccl/handles.h"

#include <mutex>
#include <set>
#include <utility>

#include "gpu_model/nccl/comm_rank.h"

namespace gpu_model::nccl {
namespace {

struct Handles {
  std::mutex mutex;
  std::set<const ncclComm*> live;
};

Handles& handles() {
  static Handles* const all = new Handles;  // outlives every thread
  return *all;
}

}  // namespace

ncclComm_t make_handle(std::shared_ptr<CommRank> comm) {
  const std::lock_guard lock(handles().mutex);
  ncclComm_t const handle = new ncclComm{std::move(comm)};
  handles().live.insert(handle);
  return handle;
}

std::shared_ptr<CommRank> find(const ncclComm* handle) {
  const std::lock_guard lock(handles().mutex);
  return handles().live.count(handle) == 0 ? nullptr : handle->self;
}

std::shared_ptr<CommRank> take(ncclComm_t handle) {
  const std::lock_guard lock(handles().mutex);
  if (handles().live.erase(handle) == 0) return nullptr;
  std::shared_ptr<CommRank> comm = std::move(handle->self);
  delete handle;
  return comm;
}

}  // namespace gpu_model::nccl
