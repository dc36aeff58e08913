#include "dist/connect.h"

#include "core/error.h"
#include "dist/self_communicator.h"
#ifdef RINGTAPE_WITH_MPI
#include "dist/mpi_communicator.h"
#endif
#ifdef RINGTAPE_WITH_NCCL
#include "dist/nccl_communicator.h"
#endif

namespace ringtape {
namespace {

std::shared_ptr<Communicator> connect_by_mpi([[maybe_unused]] const RankEnvironment& env,
                                             [[maybe_unused]] Seconds timeout,
                                             [[maybe_unused]] const SlowLink& link = {}) {
#ifdef RINGTAPE_WITH_MPI
  std::shared_ptr<Communicator> comm = MpiCommunicator::connect(timeout, MpiCommunicator::kMaxPiece, link);
  check(comm->rank() == env.rank && comm->size() == env.world_size,
        "MPI says rank {} of {}, but {} says rank {} of {}: does mpirun belong to the MPI library that "
        "Ringtape was built with?",
        comm->rank(), comm->size(), name_of(env.launcher), env.rank, env.world_size);
  return comm;
#else
  fail(
      "{} ranks were started, but this build of Ringtape has no MPI to connect them (Debian: libopenmpi-dev)",
      env.world_size);
#endif
}

std::shared_ptr<Communicator> connect_by_nccl([[maybe_unused]] const RankEnvironment& env,
                                              [[maybe_unused]] Device device,
                                              [[maybe_unused]] Seconds timeout) {
#ifdef RINGTAPE_WITH_NCCL
  if (env.has_mpi) return NcclCommunicator::connect(connect_by_mpi(env, timeout), device);
  return NcclCommunicator::connect(env, device, timeout);
#else
  fail("{} ranks on GPUs were started, but this build of Ringtape has no NCCL to connect them",
       env.world_size);
#endif
}

}  // namespace

std::shared_ptr<Communicator> connect(const RankEnvironment& env, Device device, Seconds timeout,
                                      const std::optional<SlowLink>& slow_link) {
  check(!slow_link || device.is_cpu(), "a slow link is for ranks on CPUs: this rank is on {}",
        to_string(device));
  if (env.world_size == 1) return std::make_shared<SelfCommunicator>(device, timeout);
  if (device.is_cuda()) return connect_by_nccl(env, device, timeout);
  check(env.has_mpi, "{} started {} ranks, but ranks on CPUs are connected by MPI: start them with mpirun",
        name_of(env.launcher), env.world_size);
  return connect_by_mpi(env, timeout, slow_link.value_or(SlowLink()));
}

}  // namespace ringtape
