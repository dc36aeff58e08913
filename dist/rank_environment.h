#pragma once

#include <map>
#include <optional>
#include <string>

#include "core/device.h"

/// The rank of this process and the number of ranks. The launcher sets them in environment variables; no flag
/// is needed:
///
///     mpirun -n 4 app ...                                  CPU and GPU ranks
///     srun -n 4 --mpi=pmix app ...                         CPU and GPU ranks
///     torchrun --no-python --nproc-per-node 4 app ...      GPU ranks
///     app ...                                              one rank
namespace ringtape {

/// What started the ranks.
enum class Launcher { none, torchrun, open_mpi, pmi, slurm };

/// "torchrun", "Open MPI", ...; "none" for a plain start.
const char* name_of(Launcher launcher);

/// The rank of this process among the processes that were started together.
struct RankEnvironment {
  Launcher launcher = Launcher::none;
  int rank = 0;        ///< 0 to world_size - 1
  int world_size = 1;  ///< number of ranks
  int local_rank = 0;  ///< this rank's number among the ranks of this machine; chooses the GPU
  /// An MPI launcher started this process, so MPI can connect the ranks.
  bool has_mpi = false;
  std::string master_address;  ///< torchrun: the machine of rank 0
  int master_port = 0;         ///< torchrun: the port that its agent listens on
  std::string reason;          ///< the variables that were read, as in "OMPI_COMM_WORLD_RANK=1, ..."
};

using Environment = std::map<std::string, std::string>;

/// The variables of this process.
Environment process_environment();

/// Looks for the variables of torchrun (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT), Open MPI
/// (OMPI_COMM_WORLD_*), PMI (PMI_RANK, PMI_SIZE) and a Slurm step (SLURM_PROCID and others, where
/// SLURM_STEP_ID is set), in this order; the first found is used. Slurm comes last because torchrun and
/// mpirun are often started inside its steps, as one task on each machine. Throws Error if a variable is
/// missing, not a number or out of range, and if torchrun's, Open MPI's and PMI's variables contradict each
/// other.
RankEnvironment detect_rank_environment(const Environment& environment);

/// Three lines: the launcher, the ranks, and the variables that were read. --show-launcher prints them.
std::string describe(const RankEnvironment& env);

/// The device of this rank: `device`, or without one the GPU whose number is the local rank, or the CPU if
/// there are no GPUs. `gpus` is the number of GPUs of this machine; it matters only without `device`. Throws
/// Error if there is no GPU of that number, and for several ranks on CPUs that no MPI launcher has started
/// (torchrun, srun without --mpi=pmix). Two ranks with the same GPU are not detected.
Device device_of_rank(const RankEnvironment& env, std::optional<Device> device, int gpus);

}  // namespace ringtape
