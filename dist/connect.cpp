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

std::shared_ptr<Communicator> connect_by_mpi([[maybe_unused]] const Launch& launch,
                                             [[maybe_unused]] Seconds timeout,
                                             [[maybe_unused]] const SlowLink& link = {}) {
#ifdef RINGTAPE_WITH_MPI
  std::shared_ptr<Communicator> ranks =
      MpiCommunicator::connect(timeout, MpiCommunicator::kLargestPiece, link);
  check(
      ranks->rank() == launch.rank && ranks->size() == launch.size,
      "MPI says rank {} of {}, but {} says rank {} of {}: is mpirun that of the MPI Ringtape was built with?",
      ranks->rank(), ranks->size(), name_of(launch.launcher), launch.rank, launch.size);
  return ranks;
#else
  fail(
      "{} ranks were started, but this build of Ringtape has no MPI to connect them (Debian: libopenmpi-dev)",
      launch.size);
#endif
}

std::shared_ptr<Communicator> connect_by_nccl([[maybe_unused]] const Launch& launch,
                                              [[maybe_unused]] Device device,
                                              [[maybe_unused]] Seconds timeout) {
#ifdef RINGTAPE_WITH_NCCL
  if (launch.has_mpi) return NcclCommunicator::connect(connect_by_mpi(launch, timeout), device);
  return NcclCommunicator::connect(launch, device, timeout);
#else
  fail("{} ranks on GPUs were started, but this build of Ringtape has no NCCL to connect them", launch.size);
#endif
}

}  // namespace

std::shared_ptr<Communicator> connect(const Launch& launch, Device device, Seconds timeout,
                                      const std::optional<SlowLink>& slow_link) {
  check(!slow_link || device.is_cpu(), "a slow link is for ranks on CPUs: this one is on {}",
        to_string(device));
  if (launch.size == 1) return std::make_shared<SelfCommunicator>(device, timeout);
  if (device.is_cuda()) return connect_by_nccl(launch, device, timeout);
  check(launch.has_mpi, "{} started {} ranks, but ranks on CPUs are connected by MPI: start them with mpirun",
        name_of(launch.launcher), launch.size);
  return connect_by_mpi(launch, timeout, slow_link.value_or(SlowLink()));
}

}  // namespace ringtape
