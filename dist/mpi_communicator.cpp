#include "dist/mpi_communicator.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "dist/element_address.h"
#include "dist/mpi_reduce_op.h"
#include "dist/mpi_thread.h"

namespace ringtape {
namespace {

using Requests = std::vector<MPI_Request>;

// Tags of messages between two ranks.
constexpr int kDataTag = 0, kCallTag = 1;

MPI_Request& added(Requests& requests) {
  return requests.emplace_back(MPI_REQUEST_NULL);
}

/// `elements` elements from `first` on, at most the number that one MPI call can count.
struct Piece {
  std::int64_t first;
  int elements;
};

std::vector<Piece> pieces_of(std::int64_t elements, std::int64_t largest) {
  std::vector<Piece> pieces;
  for (std::int64_t first = 0; first < elements; first += largest) {
    pieces.push_back({first, static_cast<int>(std::min(largest, elements - first))});
  }
  return pieces;
}

/// The offset of each rank's part.
std::vector<std::int64_t> offsets_of(const std::vector<std::int64_t>& counts) {
  std::vector<std::int64_t> offsets(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), std::int64_t{0});
  return offsets;
}

std::vector<int> to_ints(const std::vector<std::int64_t>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

struct MpiCommunicator::Connection {
  MPI_Comm comm = MPI_COMM_NULL;  // MPI_Finalize frees it
  int rank = 0;
  int size = 1;
  std::string rank_name;

  void send(const void* from, int count, MPI_Datatype type, int peer, int tag, Requests& requests) const {
    RINGTAPE_MPI(MPI_Isend(from, count, type, peer, tag, comm, &added(requests)));
  }
  void receive(void* to, int count, MPI_Datatype type, int peer, int tag, Requests& requests) const {
    RINGTAPE_MPI(MPI_Irecv(to, count, type, peer, tag, comm, &added(requests)));
  }
  void check_same(const Call& own, const Call& other, int peer) const {
    if (own == other) return;
    Call with_own_counts = other;
    with_own_counts.counts = own.counts;
    check(own != with_own_counts, "{} and rank {} called {}, but their counts of the ranks' elements differ",
          rank_name, peer, describe(own));
    fail("{} called {}, but rank {} called {}", rank_name, describe(own), peer, describe(other));
  }
};

/// A request to MPI. `start` begins it, and `finish`, which may be empty, ends it; their captures live until
/// then.
struct MpiCommunicator::Job {
  Call call;
  std::function<void(const Connection& connection, Requests& requests)> start;
  std::function<void()> finish;
};

std::shared_ptr<const MpiCommunicator::Connection> MpiCommunicator::connect_ranks(
    MpiThread& thread, const Connection* parent, const Call& call, Seconds timeout, int color, int key) {
  auto connection = std::make_shared<Connection>();
  thread.run(parent != nullptr ? parent->rank_name : "this process", call, timeout, [&] {
    RINGTAPE_MPI(MPI_Comm_split(parent != nullptr ? parent->comm : MPI_COMM_WORLD,
                                color < 0 ? MPI_UNDEFINED : color, key, &connection->comm));
    if (connection->comm == MPI_COMM_NULL) return;
    RINGTAPE_MPI(MPI_Comm_rank(connection->comm, &connection->rank));
    RINGTAPE_MPI(MPI_Comm_size(connection->comm, &connection->size));
    connection->rank_name = fmt::format("rank {} of {}", connection->rank, connection->size);
    if (parent != nullptr)
      connection->rank_name = fmt::format("{} ({} after a split)", parent->rank_name, connection->rank_name);
  });
  return connection;
}

std::vector<CoreMask> MpiCommunicator::cores_of_machine(MpiThread& thread, const Connection& connection,
                                                        const Call& call, Seconds timeout,
                                                        const CoreMask& own) {
  std::vector<CoreMask> all;
  thread.run(connection.rank_name, call, timeout, [&] {
    constexpr int kWords = static_cast<int>(std::tuple_size_v<CoreMask>);
    MPI_Comm machine = MPI_COMM_NULL;
    RINGTAPE_MPI(
        MPI_Comm_split_type(connection.comm, MPI_COMM_TYPE_SHARED, connection.rank, MPI_INFO_NULL, &machine));
    int ranks = 1;
    RINGTAPE_MPI(MPI_Comm_size(machine, &ranks));
    all.resize(static_cast<std::size_t>(ranks));
    RINGTAPE_MPI(MPI_Allgather(own.data(), kWords, MPI_UINT64_T, all.data(), kWords, MPI_UINT64_T, machine));
    RINGTAPE_MPI(MPI_Comm_free(&machine));
  });
  return all;
}

std::shared_ptr<MpiCommunicator> MpiCommunicator::connect(Seconds timeout, std::int64_t largest_piece,
                                                          const SlowLink& link) {
  check(largest_piece >= 1 && largest_piece <= 0x7fffffff,
        "MPI: pieces of {} elements, expected 1 to 2^31 - 1", largest_piece);
  const std::shared_ptr<MpiThread> thread = MpiThread::get(timeout);
  Call call;
  call.operation = CommOperation::connect;
  const auto connection = connect_ranks(*thread, nullptr, call, timeout, 0, 0);
  const CoreMask own = usable_cores();
  share_cores(own, cores_of_machine(*thread, *connection, call, timeout, own));
  return std::shared_ptr<MpiCommunicator>(
      new MpiCommunicator(thread, connection, timeout, largest_piece, link));
}

MpiCommunicator::MpiCommunicator(std::shared_ptr<MpiThread> thread,
                                 std::shared_ptr<const Connection> connection, Seconds timeout,
                                 std::int64_t largest_piece, const SlowLink& link)
    : Communicator(connection->rank, connection->size, Device{}, timeout),
      thread_(std::move(thread)),
      connection_(std::move(connection)),
      largest_piece_(largest_piece),
      link_(link) {}

/// A job for the thread, without its functions.
MpiJob MpiCommunicator::new_job(const Call& call) const {
  return {.rank_name = connection_->rank_name,
          .call = call,
          .communicator = connection_.get(),
          .timeout = timeout(),
          .group = group(),
          .latency = link_.latency,
          .transfer = link_.transfer_time(bytes_on_link(call, size())),
          .start = {},
          .completed = {},
          .finish = {},
          .hint = {}};
}

/// Compares the Call with the previous rank's, then starts the job. Request 0 receives the previous rank's
/// Call.
Work MpiCommunicator::submit(Job job) {
  const auto previous = std::make_shared<Call>();
  const auto own = std::make_shared<const Call>(job.call);
  const auto& connection = connection_;
  MpiJob mpi_job = new_job(job.call);
  mpi_job.finish = std::move(job.finish);
  if (size() == 1) {
    mpi_job.start = [=](Requests& requests) { job.start(*connection, requests); };
  } else {
    const int next_rank = (rank() + 1) % size(), previous_rank = (rank() + size() - 1) % size();
    mpi_job.meets_first = true;
    mpi_job.start = [=](Requests& requests) {
      connection->receive(previous.get(), sizeof(Call), MPI_BYTE, previous_rank, kCallTag, requests);
      connection->send(own.get(), sizeof(Call), MPI_BYTE, next_rank, kCallTag, requests);
    };
    mpi_job.completed = [=](std::size_t index, const MPI_Status&, Requests& requests) {
      if (index != 0) return;
      connection->check_same(*own, *previous, previous_rank);
      job.start(*connection, requests);
    };
  }
  return thread_->submit(std::move(mpi_job));
}

Work MpiCommunicator::do_all_reduce(const Call& call, const Tensor& input, const Tensor& output) {
  Job job{call, {}, {}};
  job.start = [=, largest = largest_piece_](const Connection& connection, Requests& requests) {
    const bool in_place = input.raw() == output.raw();
    for (const Piece& piece : pieces_of(call.elements, largest)) {
      RINGTAPE_MPI(MPI_Iallreduce(in_place ? MPI_IN_PLACE : element_address(input, piece.first),
                                  element_address(output, piece.first), piece.elements, mpi_type(call.dtype),
                                  mpi_op(call.op, call.dtype), connection.comm, &added(requests)));
    }
  };
  if (call.op == ReduceOp::mean) {
    job.finish = [=, world_size = size()] { divide(call.dtype, output.raw(), call.elements, world_size); };
  }
  return submit(std::move(job));
}

Work MpiCommunicator::do_reduce(const Call& call, const Tensor& input, const Tensor& output) {
  Job job{call, {}, {}};
  job.start = [=, largest = largest_piece_](const Connection& connection, Requests& requests) {
    const bool is_root = connection.rank == call.root;
    for (const Piece& piece : pieces_of(call.elements, largest)) {
      const bool in_place = is_root && input.raw() == output.raw();
      RINGTAPE_MPI(MPI_Ireduce(in_place ? MPI_IN_PLACE : element_address(input, piece.first),
                               is_root ? element_address(output, piece.first) : nullptr, piece.elements,
                               mpi_type(call.dtype), mpi_op(call.op, call.dtype), call.root, connection.comm,
                               &added(requests)));
    }
  };
  if (call.op == ReduceOp::mean && rank() == call.root) {
    job.finish = [=, world_size = size()] { divide(call.dtype, output.raw(), call.elements, world_size); };
  }
  return submit(std::move(job));
}

Work MpiCommunicator::do_broadcast(const Call& call, const Tensor& tensor) {
  Job job{call, {}, {}};
  job.start = [=, largest = largest_piece_](const Connection& connection, Requests& requests) {
    for (const Piece& piece : pieces_of(call.elements, largest)) {
      RINGTAPE_MPI(MPI_Ibcast(element_address(tensor, piece.first), piece.elements, mpi_type(call.dtype),
                              call.root, connection.comm, &added(requests)));
    }
  };
  return submit(std::move(job));
}

Work MpiCommunicator::do_all_gather(const Parts& parts) {
  Job job{parts.call, {}, {}};
  job.start = [parts, largest = largest_piece_, counts = to_ints(parts.counts),
               offsets = to_ints(offsets_of(parts.counts))](const Connection& connection,
                                                            Requests& requests) {
    const Call& call = parts.call;
    const MPI_Datatype type = mpi_type(call.dtype);
    void* own = element_address(parts.output, offsets_of(parts.counts)[connection.rank]);
    const bool in_place = parts.input.raw() == own;
    if (call.elements <= largest) {
      RINGTAPE_MPI(MPI_Iallgatherv(in_place ? MPI_IN_PLACE : parts.input.raw(), counts[connection.rank], type,
                                   parts.output.raw(), counts.data(), offsets.data(), type, connection.comm,
                                   &added(requests)));
      return;
    }
    // More elements than MPI can count: each rank broadcasts its part.
    if (!in_place) std::memcpy(own, parts.input.raw(), parts.input.bytes());
    std::int64_t first = 0;
    for (int root = 0; root < connection.size; first += parts.counts[root++]) {
      for (const Piece& piece : pieces_of(parts.counts[root], largest)) {
        RINGTAPE_MPI(MPI_Ibcast(element_address(parts.output, first + piece.first), piece.elements, type,
                                root, connection.comm, &added(requests)));
      }
    }
  };
  return submit(std::move(job));
}

/// MPI's in-place reduce_scatter writes this rank's part of the sum to the front of the input; `finish` moves
/// it from there to its place.
Work MpiCommunicator::do_reduce_scatter(const Parts& parts) {
  const void* own = element_address(parts.input, offsets_of(parts.counts)[rank()]);
  const bool in_place = parts.output.raw() == own, in_pieces = parts.call.elements > largest_piece_;
  Job job{parts.call, {}, {}};
  job.start = [=, largest = largest_piece_, counts = to_ints(parts.counts)](const Connection& connection,
                                                                            Requests& requests) {
    const MPI_Datatype type = mpi_type(parts.call.dtype);
    const MPI_Op op = mpi_op(parts.call.op, parts.call.dtype);
    if (!in_pieces) {
      RINGTAPE_MPI(MPI_Ireduce_scatter(in_place ? MPI_IN_PLACE : parts.input.raw(),
                                       in_place ? parts.input.raw() : parts.output.raw(), counts.data(), type,
                                       op, connection.comm, &added(requests)));
      return;
    }
    // More elements than MPI can count: each part is reduced to its rank.
    std::int64_t first = 0;
    for (int root = 0; root < connection.size; first += parts.counts[root++]) {
      const bool is_root = root == connection.rank;
      for (const Piece& piece : pieces_of(parts.counts[root], largest)) {
        void* from = element_address(parts.input, first + piece.first);
        RINGTAPE_MPI(MPI_Ireduce(is_root && in_place ? MPI_IN_PLACE : from,
                                 is_root ? element_address(parts.output, piece.first) : nullptr,
                                 piece.elements, type, op, root, connection.comm, &added(requests)));
      }
    }
  };
  job.finish = [=, world_size = size()] {
    if (in_place && !in_pieces) std::memmove(parts.output.raw(), parts.input.raw(), parts.output.bytes());
    if (parts.call.op == ReduceOp::mean) {
      divide(parts.call.dtype, parts.output.raw(), parts.output.elements(), world_size);
    }
  };
  return submit(std::move(job));
}

Work MpiCommunicator::do_exchange(const Call& call, std::vector<Transfer> sends,
                                  std::vector<Transfer> receives) {
  struct Expected {
    int elements, peer;
  };
  const auto transfers = std::make_shared<const std::pair<std::vector<Transfer>, std::vector<Transfer>>>(
      std::move(sends), std::move(receives));
  const auto expected = std::make_shared<std::vector<Expected>>();
  const MPI_Datatype type = mpi_type(call.dtype);
  const auto move_data = [=, largest = largest_piece_](const Connection& connection, Requests& requests) {
    for (const Transfer& transfer : transfers->second) {
      for (const Piece& piece : pieces_of(transfer.tensor.elements(), largest)) {
        expected->push_back({piece.elements, transfer.peer});
        connection.receive(element_address(transfer.tensor, piece.first), piece.elements, type, transfer.peer,
                           kDataTag, requests);
      }
    }
    for (const Transfer& transfer : transfers->first) {
      for (const Piece& piece : pieces_of(transfer.tensor.elements(), largest)) {
        connection.send(element_address(transfer.tensor, piece.first), piece.elements, type, transfer.peer,
                        kDataTag, requests);
      }
    }
  };
  // A gather or scatter is the same Call on all ranks; once the ranks have compared it, the sizes match.
  if (call.operation != CommOperation::exchange) return submit({call, move_data, {}});
  const auto& connection = connection_;
  MpiJob job = new_job(call);
  job.start = [=](Requests& requests) { move_data(*connection, requests); };
  job.completed = [=](std::size_t index, const MPI_Status& status, Requests&) {
    if (index >= expected->size()) return;  // a send; receives come first
    int elements = 0;
    RINGTAPE_MPI(MPI_Get_count(&status, type, &elements));
    const Expected& receive = (*expected)[index];
    check(elements == receive.elements, "{}: {} received {} elements from rank {}, expected {}",
          connection->rank_name, describe(call), elements, receive.peer, receive.elements);
  };
  return thread_->submit(std::move(job));
}

/// Every rank sends a message to every other rank, so that the error can name a late rank.
void MpiCommunicator::do_barrier(const Call& call, Seconds deadline) {
  const auto calls = std::make_shared<std::vector<Call>>(static_cast<std::size_t>(size()));
  const auto arrived = std::make_shared<std::vector<std::atomic<bool>>>(static_cast<std::size_t>(size()));
  (*arrived)[rank()] = true;
  const auto& connection = connection_;
  MpiJob job = new_job(call);
  job.timeout = deadline;
  const auto own = std::make_shared<const Call>(call);
  // Request i receives from rank i, and this rank's own request is null.
  job.start = [=](Requests& requests) {
    for (int peer = 0; peer < connection->size; ++peer) {
      if (peer == connection->rank) {
        added(requests);
      } else {
        connection->receive(&(*calls)[peer], sizeof(Call), MPI_BYTE, peer, kCallTag, requests);
      }
    }
    for (int peer = 0; peer < connection->size; ++peer) {
      if (peer == connection->rank) continue;
      connection->send(own.get(), sizeof(Call), MPI_BYTE, peer, kCallTag, requests);
    }
  };
  job.completed = [=](std::size_t index, const MPI_Status&, Requests&) {
    if (index >= calls->size()) return;
    connection->check_same(*own, (*calls)[index], static_cast<int>(index));
    (*arrived)[index] = true;
  };
  job.hint = [=] {
    std::string late;
    for (std::size_t peer = 0; peer < arrived->size(); ++peer) {
      if (!(*arrived)[peer]) late += fmt::format("{}{}", late.empty() ? "" : ", ", peer);
    }
    return fmt::format("nothing came from rank {}", late);
  };
  thread_->submit(std::move(job)).wait();
}

std::shared_ptr<Communicator> MpiCommunicator::do_split(const Call& call, int color, int key) {
  const auto connection = connect_ranks(*thread_, connection_.get(), call, timeout(), color, key);
  if (color < 0) return nullptr;
  return std::shared_ptr<Communicator>(
      new MpiCommunicator(thread_, connection, timeout(), largest_piece_, link_));
}

}  // namespace ringtape
