#pragma once

namespace gpu_model::nccl {

class CommRank;

/// Takes this rank's part in the detection of deadlocks, in which the threads of all ranks of a communicator
/// cooperate. A process is quiet when all its threads that use NCCL wait, and its communicators wait only for
/// processes of this communicator. If every process was quiet twice in succession, without activity in any of
/// them in between (Francez and Mattern: detection by double counting), no process can ever continue: that is
/// reported, and the communicator ends with ncclInvalidUsage.
///
/// It does not detect waits of threads that have not called NCCL before, waits in ncclCommInitRank(), waits
/// for events outside NCCL (MPI), or cycles through several communicators if none of them has all processes.
void look_for_deadlock(const CommRank& comm);

}  // namespace gpu_model::nccl
