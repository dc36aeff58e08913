#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dist/communicator.h"
#include "dist/share_cores.h"
#include "dist/slow_link.h"

namespace ringtape {

class MpiThread;
struct MpiJob;

/// Ranks on CPUs, connected by MPI. All MPI calls are made by one thread (dist/mpi_thread.h), so that an
/// operation progresses while the calling thread computes.
///
/// Before its part of a collective, a rank sends its Call to the next rank and receives the Call of the
/// previous rank. If they differ, wait() throws an Error that names both, and the rank touches no data. So
/// only the rank with a different call and its next rank get the error; the other ranks wait until the
/// launcher or the watchdog ends them. In a barrier each rank compares its Call with all others. Exchanges,
/// which only some ranks may call, and splits are not compared; a receive whose size differs from its send
/// throws an Error on the receiving rank.
class MpiCommunicator : public Communicator {
 public:
  /// The most elements that one MPI call can count, in an int.
  static constexpr std::int64_t kMaxPiece = 0x7fffffff;
  /// All ranks that mpirun or srun started; ranks on one machine divide its cores (dist/share_cores.h).
  /// Larger tensors are sent in pieces of at most `largest_piece` elements (a test sets it low). `link`
  /// delays the operations.
  static std::shared_ptr<MpiCommunicator> connect(Seconds timeout, std::int64_t largest_piece = kMaxPiece,
                                                  const SlowLink& link = {});
  const char* backend() const override { return "MPI"; }

 private:
  struct Connection;  // hides mpi.h
  struct Job;
  MpiCommunicator(std::shared_ptr<MpiThread> thread, std::shared_ptr<const Connection> connection,
                  Seconds timeout, std::int64_t largest_piece, const SlowLink& link);
  /// The connection of the ranks of `parent` (null: all) with the same non-negative color.
  static std::shared_ptr<const Connection> connect_ranks(MpiThread& thread, const Connection* parent,
                                                         const Call& call, Seconds timeout, int color,
                                                         int key);

  /// The cores that each rank of this machine may run on, including `own`. All ranks must call it.
  static std::vector<CoreMask> cores_of_machine(MpiThread& thread, const Connection& connection,
                                                const Call& call, Seconds timeout, const CoreMask& own);

  Work do_all_reduce(const Call& call, const Tensor& input, const Tensor& output) override;
  Work do_reduce(const Call& call, const Tensor& input, const Tensor& output) override;
  Work do_broadcast(const Call& call, const Tensor& tensor) override;
  Work do_all_gather(const Parts& parts) override;
  Work do_reduce_scatter(const Parts& parts) override;
  Work do_exchange(const Call& call, std::vector<Transfer> sends, std::vector<Transfer> receives) override;
  void do_barrier(const Call& call, Seconds deadline) override;
  std::shared_ptr<Communicator> do_split(const Call& call, int color, int key) override;

  Work submit(Job job);
  MpiJob new_job(const Call& call) const;

  std::shared_ptr<MpiThread> thread_;
  std::shared_ptr<const Connection> connection_;
  std::int64_t largest_piece_;
  SlowLink link_;
};

}  // namespace ringtape
