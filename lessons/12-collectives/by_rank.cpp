// The collective operations rank by rank, and which ranks must wait for a late one.
//
//   mpirun -n 4 by_rank
#include <fmt/ranges.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "autograd/creation.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "lessons/ranks.h"

namespace {

using namespace ringtape;
using namespace ringtape::lessons;
using Clock = std::chrono::steady_clock;

struct Options {
  int root = 0, late = 2;  ///< the root, and the other rank that comes late
  int delay = 150;         ///< milliseconds
};

/// Rank r begins with 10^r times 1, 2, 3, ...: the digits of a sum show which ranks' values it contains.
Tensor own_values(const Communicator& comm) {
  std::int64_t power = 1;
  for (int rank = 0; rank < comm.rank(); ++rank) power *= 10;
  std::vector<std::int64_t> values;
  for (int i = 1; i <= comm.size(); ++i) values.push_back(power * i);
  return from_vector(values, {comm.size()});
}

/// On which ranks' values a result depends, and so which ranks must wait for which.
enum class Needs { nothing_but_the_root, all_at_the_root, all_everywhere };

struct Collective {
  const char* name;
  const char* meaning;
  Needs needs;
  /// Calls the operation with the rank's own values, or the first of them, and returns its result: undefined
  /// where this rank gets none.
  std::function<Tensor(Communicator&, const Tensor&, int root)> run;
};

bool has_to_wait(Needs needs, int rank, int late, int root) {
  if (rank == late) return false;
  if (needs == Needs::nothing_but_the_root) return late == root;
  if (needs == Needs::all_at_the_root) return rank == root;
  return true;
}

Tensor room(std::int64_t elements) {
  return zeros({elements}, DType::i64);
}

const std::vector<Collective> kCollectives = {
    {"broadcast", "all get the root's values", Needs::nothing_but_the_root,
     [](Communicator& comm, const Tensor& own, int root) {
       comm.broadcast(own, root).wait();
       return own;
     }},
    {"reduce", "the root gets the sum", Needs::all_at_the_root,
     [](Communicator& comm, const Tensor& own, int root) {
       const Tensor sum = comm.rank() == root ? room(comm.size()) : Tensor();
       comm.reduce(own, sum, ReduceOp::sum, root).wait();
       return sum;
     }},
    {"all_reduce", "all get the sum", Needs::all_everywhere,
     [](Communicator& comm, const Tensor& own, int) {
       comm.all_reduce(own, ReduceOp::sum).wait();
       return own;
     }},
    {"gather", "the root gets everybody's first value", Needs::all_at_the_root,
     [](Communicator& comm, const Tensor& own, int root) {
       const Tensor all = comm.rank() == root ? room(comm.size()) : Tensor();
       comm.gather(own.alias({1}), all, root).wait();
       return all;
     }},
    {"all_gather", "all get everybody's first value", Needs::all_everywhere,
     [](Communicator& comm, const Tensor& own, int) {
       const Tensor all = room(comm.size());
       comm.all_gather(own.alias({1}), all).wait();
       return all;
     }},
    {"scatter", "each gets its part of the root's values", Needs::nothing_but_the_root,
     [](Communicator& comm, const Tensor& own, int root) {
       const Tensor part = room(1);
       comm.scatter(own, part, root).wait();
       return part;
     }},
    {"reduce_scatter", "each gets its part of the sum", Needs::all_everywhere,
     [](Communicator& comm, const Tensor& own, int) {
       const Tensor part = room(1);
       comm.reduce_scatter(own, part, ReduceOp::sum).wait();
       return part;
     }},
    {"barrier", "nobody goes on before all have come", Needs::all_everywhere,
     [](Communicator& comm, const Tensor&, int) {
       comm.barrier();
       return Tensor();
     }},
};

std::string text_of(const Tensor& values) {
  return values.defined() ? fmt::format("{}", fmt::join(values.to_vector<std::int64_t>(), " ")) : "-";
}

void show_values(Communicator& comm, int root) {
  for (const Collective& collective : kCollectives) {
    if (prints(comm)) fmt::print("{}: {}\n", collective.name, collective.meaning);
    const Tensor own = own_values(comm);
    const std::string before = text_of(own);
    const Tensor after = collective.run(comm, own, root);
    print_by_rank(comm, fmt::format("  rank {}   {:<20} -> {}\n", comm.rank(), before, text_of(after)));
  }
}

/// Whether this rank waited for the late one. The delay begins after every rank has read its clock, so
/// a rank that waits for the late one measures the whole delay, even on a busy machine.
bool waited(Communicator& comm, const Collective& collective, const Options& options, int late) {
  const std::chrono::milliseconds delay(options.delay);
  const Tensor own = own_values(comm);
  comm.barrier();
  const Clock::time_point start = Clock::now();
  comm.barrier();
  if (comm.rank() == late) std::this_thread::sleep_for(delay);
  collective.run(comm, own, options.root);
  return comm.rank() != late && Clock::now() - start >= delay;
}

void show_waiting(Communicator& comm, const Options& options) {
  if (prints(comm)) {
    fmt::print("\nA rank comes {} ms late: who waited\n{:<15} {:<13} {:<11} {}\n", options.delay, "", "late",
               "had to", "did so without need");
  }
  for (const Collective& collective : kCollectives) {
    for (const int late : {options.root, options.late}) {
      const std::vector<std::int64_t> own = {waited(comm, collective, options, late)};
      const Tensor all = room(comm.size());
      comm.all_gather(from_vector(own, {1}), all).wait();
      std::string needed, unneeded;
      for (int rank = 0; rank < comm.size(); ++rank) {
        const bool did = all.data<std::int64_t>()[rank] != 0,
                   had_to = has_to_wait(collective.needs, rank, late, options.root);
        check(did || !had_to, "{}: rank {} did not wait for rank {}", collective.name, rank, late);
        if (did) (had_to ? needed : unneeded) += fmt::format("{} ", rank);
      }
      if (prints(comm)) {
        fmt::print("{:<15} {:<13} {:<11} {}\n", collective.name,
                   fmt::format("rank {}{}", late, late == options.root ? ", root" : ""),
                   needed.empty() ? "nobody" : needed, unneeded);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app("The collective operations, rank by rank.\nExample: mpirun -n 4 by_rank --root 3 --late 0");
  app.option("--root", options.root, "rank that broadcasts, scatters, and receives");
  app.option("--late", options.late, "second rank to come late, after the root");
  app.option("--delay", between(options.delay, 1, 10000), "by how much, in milliseconds");
  return app.run(argc, argv, [&] {
    const auto comm = connect_ranks();
    if (!has_ranks(*comm, 4, "by_rank")) return;
    check(comm->size() <= 15, "the values of rank r begin with 10^r: expected at most 15 ranks, found {}",
          comm->size());
    for (const int rank : {options.root, options.late}) {
      check(rank >= 0 && rank < comm->size(), "--root and --late are ranks from 0 to {}, found {}",
            comm->size() - 1, rank);
    }
    show_values(*comm, options.root);
    show_waiting(*comm, options);
  });
}
