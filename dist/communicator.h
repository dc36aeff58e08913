#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "dist/call.h"

namespace ringtape {

using Seconds = std::chrono::duration<double>;

/// An operation in flight, as in PyTorch. It needs no further calls to progress; call wait() before using its
/// result.
class Work {
 public:
  /// The state of the operation in its backend.
  class State {
   public:
    virtual ~State() = default;
    virtual void wait() = 0;
  };

  /// Completed work.
  Work() = default;
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

  /// On the CPU: returns when the result is complete, or throws the Error with which the operation failed. On
  /// CUDA: makes the current stream wait for the result; the host continues at once.
  void wait() const {
    if (state_) state_->wait();
  }

 private:
  std::shared_ptr<State> state_;
};

/// A tensor to send to, or to receive from, another rank.
struct Transfer {
  Tensor tensor;
  int peer;
};

/// Bytes that a communicator's exchanges, gathers and scatters have moved.
struct Traffic {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

/// The calls of an operation, and the total bytes of their tensors: of the larger one where input and output
/// differ. Of exchanges, those in which this rank sends, and the bytes that it sends.
struct CollectiveCount {
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
};
using CollectiveCounts = std::array<CollectiveCount, kOperations>;  // indexed by CommOperation

/// Connects the ranks of a run. The collective operations are as in MPI and NCCL: every rank calls the same
/// operations in the same order, with the same sizes, dtype, ReduceOp and root.
///
/// Tensors live on device() and hold f32, f64, f16, bf16, i32 or i64; any shape, treated as a flat array of
/// elements, which may be empty. An operation returns at once and is executed after the operations called
/// before it on this communicator (see exchange() for the exception); until Work::wait() its tensors must not
/// be written and its outputs must not be read, not by another operation either, and the communicator keeps
/// them alive. Input and output may be the same tensor, or one may be this rank's part of the other, in its
/// place there; they must not overlap otherwise. 16-bit types are added in f32 and rounded after every
/// addition; the number of partial sums that are rounded depends on the backend.
///
/// Throws Error for arguments that are wrong on this rank. Work::wait() throws Error if the backend finds
/// that ranks called different operations; after that no communicator of this process can be used. If a rank
/// is dead or hangs, no operation fails: when an operation exceeds the timeout, the process prints one line
/// that names its rank, the operation, the bytes and the sequence number, and exits with code 1
/// (dist/watchdog.h).
///
/// Only one thread at a time may call a communicator.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  Device device() const { return device_; }
  /// "MPI", "NCCL" or "one rank".
  virtual const char* backend() const = 0;

  /// output[i] = op over the ranks of input[i]; the same on all ranks.
  Work all_reduce(const Tensor& input, const Tensor& output, ReduceOp op);
  Work all_reduce(const Tensor& tensor, ReduceOp op) { return all_reduce(tensor, tensor, op); }
  /// all_reduce with the result only on `root`; on other ranks `output` is not used and may be undefined.
  Work reduce(const Tensor& input, const Tensor& output, ReduceOp op, int root);
  /// tensor = the tensor of `root`.
  Work broadcast(const Tensor& tensor, int root);
  /// output = the inputs of all ranks in the order of ranks. `counts` has the number of elements of each
  /// rank; without it all ranks have the same number.
  Work all_gather(const Tensor& input, const Tensor& output, std::span<const std::int64_t> counts = {});
  /// Adds up the inputs and gives each rank its part of the sum: the parts follow each other in the order of
  /// ranks, and have counts[rank] elements, or without `counts` all the same number. If the output is a part
  /// of the input, the rest of the input has undefined values afterwards.
  Work reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op,
                      std::span<const std::int64_t> counts = {});
  /// all_gather with the result only on `root`; on other ranks `output` is not used and may be undefined.
  Work gather(const Tensor& input, const Tensor& output, int root, std::span<const std::int64_t> counts = {});
  /// output = this rank's part of the input of `root`; on other ranks `input` is not used and may be
  /// undefined.
  Work scatter(const Tensor& input, const Tensor& output, int root,
               std::span<const std::int64_t> counts = {});
  /// Sends and receives at the same time. All tensors of a call have one dtype. Each send matches a receive
  /// of its peer, which must have the same number of elements; several between two ranks match in order. A
  /// rank without transfers need not call. traffic() counts their bytes. Over MPI, consecutive exchanges are
  /// in flight together. Over NCCL, each begins when the one before it has ended, so transfers that wait for
  /// each other, such as a send to a rank and a receive from it, belong in one call.
  Work exchange(std::vector<Transfer> sends, std::vector<Transfer> receives);
  /// Returns when all ranks have called it; `deadline` is the timeout of this call.
  void barrier(Seconds deadline);
  void barrier() { barrier(timeout_); }

  /// A communicator of the ranks that give the same `color`, ordered by `key`, then by rank here
  /// (MPI_Comm_split). Null for a negative color. All ranks must call it.
  std::shared_ptr<Communicator> split(int color, int key);

  /// The name of this process group, such as "data", in timelines and tables of traffic. Empty until
  /// set_group(), which a Mesh calls; split() passes the name on. The text must outlive all recordings.
  const char* group() const { return group_; }
  void set_group(const char* name) { group_ = name; }

  const Traffic& traffic() const { return traffic_; }
  /// Calls and bytes of each operation so far. The number of bytes on a link depends on the backend;
  /// dist/traffic.h has the formulas.
  const CollectiveCounts& collectives() const { return counts_; }
  Seconds timeout() const { return timeout_; }

 protected:
  /// A checked request with a part for each rank: `counts` are the parts' numbers of elements.
  struct Parts {
    Call call;
    Tensor input, output;
    std::vector<std::int64_t> counts;
  };

  Communicator(int rank, int size, Device device, Seconds timeout);

  virtual Work do_all_reduce(const Call& call, const Tensor& input, const Tensor& output) = 0;
  virtual Work do_reduce(const Call& call, const Tensor& input, const Tensor& output) = 0;
  virtual Work do_broadcast(const Call& call, const Tensor& tensor) = 0;
  virtual Work do_all_gather(const Parts& parts) = 0;
  virtual Work do_reduce_scatter(const Parts& parts) = 0;
  /// Also performs gathers and scatters, whose Call, unlike an exchange's, is the same on all ranks.
  virtual Work do_exchange(const Call& call, std::vector<Transfer> sends, std::vector<Transfer> receives) = 0;
  virtual void do_barrier(const Call& call, Seconds deadline) = 0;
  virtual std::shared_ptr<Communicator> do_split(const Call& call, int color, int key) = 0;

 private:
  Call next_call(CommOperation operation, DType dtype, std::int64_t elements, int root = -1);
  Call next_call_of_parts(CommOperation operation, DType dtype, std::span<const std::int64_t> counts,
                          int root = -1);
  Call next_reduction(CommOperation operation, DType dtype, std::int64_t elements, ReduceOp op,
                      int root = -1);
  void check_tensor(CommOperation operation, const char* name, const Tensor& tensor) const;
  void check_pair(CommOperation operation, const Tensor& input, const Tensor& output) const;
  void check_root(CommOperation operation, int root) const;
  std::vector<std::int64_t> parts(CommOperation operation, std::span<const std::int64_t> counts,
                                  std::int64_t own) const;
  Work exchange_as(const Call& call, std::vector<Transfer> sends, std::vector<Transfer> receives);

  int rank_;
  int size_;
  Device device_;
  Seconds timeout_;
  const char* group_ = "";
  std::uint64_t collectives_ = 0;
  std::uint64_t exchanges_ = 0;
  Traffic traffic_;
  CollectiveCounts counts_{};
};

/// The sum of a number over the ranks of `comm`, on each of them; all must call it. On CUDA the host waits.
template <class T>
T sum_over_ranks(Communicator& comm, T own) {
  if (comm.size() == 1) return own;
  const Tensor sum = from_vector(std::vector<T>{own}, {1}, comm.device());
  comm.all_reduce(sum, ReduceOp::sum).wait();
  return sum.to_vector<T>()[0];
}

/// A function that reduces a tensor in place over the ranks of `comm`.
std::function<void(const Tensor&)> all_reduce_over(std::shared_ptr<Communicator> comm, ReduceOp op);

}  // namespace ringtape
