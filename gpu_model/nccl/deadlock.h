#pragma once

namespace gpu_model::nccl {

class Communicator;

/// Takes this rank's part in the search for waits that never end, which the threads of all ranks of a
/// communicator make together. A process is quiet when all its threads that use NCCL wait, and what its
/// communicators wait for are processes of this communicator alone. When every process was quiet twice in
/// turn and nothing has happened in any of them between (Francez and Mattern call this detection by double
/// counting), nothing can ever happen: that is reported, and the communicator ends with ncclInvalidUsage.
///
/// Not found are waits of threads that have not called NCCL before, of ranks in ncclCommInitRank(), for
/// something outside of NCCL (MPI), and circles through communicators of which none has all the processes.
void look_for_deadlock(const Communicator& comm);

}  // namespace gpu_model::nccl
