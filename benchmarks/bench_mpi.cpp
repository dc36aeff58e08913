// Times MPI's own all-reduce, called directly: a reference for `collectives`, whose collectives run on
// Ringtape's MPI thread.
//
//   OMP_NUM_THREADS=1 mpirun -n 2 bench_mpi
#include <fmt/format.h>
#include <mpi.h>

#include <chrono>
#include <vector>

#include "cli/command_line.h"
#include "core/error.h"
#include "core/numbers.h"
#include "profile/result_file.h"

namespace {

using namespace ringtape;
using Clock = std::chrono::steady_clock;

struct Options {
  std::int64_t min_bytes = std::int64_t{4} << 20;
  std::int64_t max_bytes = std::int64_t{64} << 20;
  int iterations = 8;
  std::string json;
};

void check_mpi(int code, const char* call) {
  check(code == MPI_SUCCESS, "{} failed: code {}", call, code);
}

/// The mean seconds of a call on the slowest rank.
double seconds_of_all_reduce(std::int64_t bytes, int iterations) {
  const auto elements = static_cast<int>(bytes / static_cast<std::int64_t>(sizeof(float)));
  const std::vector<float> from(static_cast<std::size_t>(elements), 1.5f);
  std::vector<float> to(from.size());
  const auto all_reduce = [&] {
    check_mpi(MPI_Allreduce(from.data(), to.data(), elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD),
              "MPI_Allreduce");
  };
  all_reduce();  // connects the ranks, and touches the memory
  check_mpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < iterations; ++i) all_reduce();
  const double own = std::chrono::duration<double>(Clock::now() - start).count() / iterations;
  double slowest = 0;
  check_mpi(MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
  return slowest;
}

void measure(const Options& options) {
  check(options.min_bytes <= options.max_bytes, "--min-bytes is {}, expected at most --max-bytes, {}",
        options.min_bytes, options.max_bytes);
  check_mpi(MPI_Init(nullptr, nullptr), "MPI_Init");
  int rank = 0, world_size = 1;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &world_size), "MPI_Comm_size");
  Results results("bench_mpi", Device{}, rank == 0 ? options.json : "");
  results.setting("ranks", world_size);
  results.setting("iterations", options.iterations);
  if (rank == 0) {
    fmt::print("MPI_Allreduce of f32, {}, mean of {}\n", counted(world_size, "rank"),
               counted(options.iterations, "call"));
  }
  for (std::int64_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= 2) {
    const double seconds = seconds_of_all_reduce(bytes, options.iterations);
    if (rank == 0) fmt::print("{:>12} bytes {:>10.1f} us\n", bytes, seconds * 1e6);
    results.add({.name = "MPI_Allreduce",
                 .size = fmt::format("{} bytes of f32", bytes),
                 .seconds = seconds,
                 .bytes = static_cast<double>(bytes)});
  }
  results.save();
  check_mpi(MPI_Finalize(), "MPI_Finalize");
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app("Times MPI's own all-reduce at doubling sizes.");
  Options options;
  app.option("--min-bytes", between(options.min_bytes, 4, 1LL << 32), "smallest size in bytes");
  app.option("--max-bytes", between(options.max_bytes, 4, 1LL << 32), "largest size in bytes");
  app.option("--iterations", between(options.iterations, 1, 1000000), "number of calls in a timed interval");
  app.file("--json", options.json, kJsonHelp);
  return app.run(argc, argv, [&] { measure(options); });
}
