// Ranks that fail, for tests/dist/failures_test.sh:
//
//   failing_ranks WAY SECONDS      SECONDS: the timeout of every operation
//
// Writes its process id to the file RANK.pid of the current folder once the ranks are connected.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "core/error.h"
#include "dist/connect.h"

using namespace ringtape;

namespace {

Tensor floats(std::int64_t n) {
  const Tensor tensor = empty({n});
  std::memset(tensor.raw(), 0, tensor.bytes());
  return tensor;
}

void write_process_id(int rank) {
  const std::string name = std::to_string(rank) + ".pid", unfinished = name + ".tmp";
  std::FILE* file = std::fopen(unfinished.c_str(), "w");
  std::fprintf(file, "%d\n", static_cast<int>(getpid()));
  std::fclose(file);
  std::rename(unfinished.c_str(), name.c_str());
}

/// Rank 1 calls gather, scatter, all_gather or reduce_scatter with different arguments than the others.
/// Returns whether `way` is one of these.
bool fail_in_parts(const std::string& way, Communicator& comm) {
  const bool is_other = comm.rank() == 1;
  const DType dtype = is_other && way == "gather-dtype" ? DType::i32 : DType::f32;
  const int root = is_other && way.ends_with("-root") ? 1 : 0;
  const Tensor part = empty({6}, dtype), whole = empty({6 * comm.size()}, dtype);
  if (way == "gather-dtype" || way == "gather-root") {
    comm.gather(part, whole, root).wait();
  } else if (way == "scatter-root") {
    comm.scatter(whole, part, root).wait();
  } else if (way == "gather-order") {
    is_other ? comm.scatter(whole, part, 0).wait() : comm.gather(part, whole, 0).wait();
  } else if (way == "counts" || way == "scatter-counts") {  // the same total
    std::vector<std::int64_t> counts(static_cast<std::size_t>(comm.size()), 6);
    if (is_other) {
      counts[0] -= 2;
      counts[2] += 2;
    }
    if (way == "counts") {
      comm.all_gather(part, whole, counts).wait();
    } else {
      comm.reduce_scatter(whole, part, ReduceOp::sum, counts).wait();
    }
  } else {
    return false;
  }
  return true;
}

/// Rank 1 fails in the given way while the others call all_reduce #1.
void fail_in(const std::string& way, Communicator& comm) {
  comm.all_reduce(floats(1000), ReduceOp::sum).wait();
  write_process_id(comm.rank());
  while (way == "work") {  // until it is killed
    comm.all_reduce(floats(1000), ReduceOp::sum).wait();
  }
  if (way == "short-barrier") {
    if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::hours(1));
    comm.barrier(Seconds(1));
    return;
  }
  if (way == "late-barrier") {
    if (comm.rank() == 1 || comm.rank() == 2) std::this_thread::sleep_for(std::chrono::hours(1));
    comm.barrier();
    return;
  }
  if (fail_in_parts(way, comm)) return;
  if (comm.rank() == 1) {
    if (way == "kill") raise(SIGKILL);
    if (way == "hang") std::this_thread::sleep_for(std::chrono::hours(1));
    if (way == "exit") std::_Exit(0);
    if (way == "leave") return;
    if (way == "throw") fail("rank 1 has had enough");
    if (way == "order") comm.broadcast(floats(1000), 0).wait();
    if (way == "size") comm.all_reduce(floats(999), ReduceOp::sum).wait();
    if (way == "dtype") comm.all_reduce(empty({1000}, DType::i32), ReduceOp::sum).wait();
    if (way == "root") comm.broadcast(floats(1000), 1).wait();
    if (way == "short-exchange") comm.exchange({{floats(5), 0}}, {}).wait();
    if (way == "long-exchange") comm.exchange({{floats(7), 0}}, {}).wait();
  }
  if (way == "root") {
    comm.broadcast(floats(1000), 0).wait();
  } else if (way == "short-exchange" || way == "long-exchange") {
    if (comm.rank() == 0) comm.exchange({}, {{floats(6), 1}}).wait();
  } else {
    comm.all_reduce(floats(1000), ReduceOp::sum).wait();
  }
  std::printf("rank %d got through\n", comm.rank());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const RankEnvironment environment = detect_rank_environment(process_environment());
    // Starting may take long: the short timeout is for the operations after it.
    const std::shared_ptr<Communicator> patient = connect(environment, Device{}, Seconds(120));
    patient->barrier();
    const std::shared_ptr<Communicator> comm = connect(environment, Device{}, Seconds(std::atof(argv[2])));
    fail_in(argv[1], *comm);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
