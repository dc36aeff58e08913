// Measures the collective operations, and checks their results, at doubling sizes:
//
//   mpirun -n 4 collectives --min-bytes 1024 --max-bytes 16777216
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "apps/collectives/ring_trace.h"
#include "autograd/ops.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "core/numbers.h"
#include "core/stream.h"
#include "dist/connect.h"
#include "dist/ring_all_reduce.h"
#include "dist/traffic.h"
#include "dist/verify_same.h"
#include "io/file.h"
#include "profile/result_file.h"
#include "train/option_types.h"

namespace {

using namespace ringtape;

std::string text_of(std::optional<SlowLink> link) {
  return option_value(link).write();
}
using Clock = std::chrono::steady_clock;

struct Options {
  std::optional<Device> device;
  DType dtype = DType::f32;
  std::vector<std::string> operations;
  std::int64_t min_bytes = 1024;
  std::int64_t max_bytes = 16 << 20;
  int iterations = 10;
  double comm_timeout = 60;
  std::optional<SlowLink> slow_link;
  std::int64_t segment_bytes = RingOptions().segment_bytes;
  int in_flight = RingOptions().in_flight;
  bool show_launcher = false;
  bool trace_ring = false;
  std::string svg;
  std::string json;
};

/// Whether an operation is among those of --operations.
bool measures(const Options& options, const std::string& operation) {
  const auto& wanted = options.operations;
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), operation) != wanted.end();
}

/// Element `i` of a rank's buffer: whole numbers whose sums are exact in every dtype.
double value_of(int rank, std::int64_t i) {
  return static_cast<double>((7 * i + 3 * rank) % 11 - 5);
}

/// The buffers for one size: `total` elements, of which each rank has a part.
class Buffers {
 public:
  Buffers(const Communicator& comm, DType dtype, std::int64_t elements)
      : total(elements), part(ring_chunk(elements, comm.size(), comm.rank())) {
    for (int rank = 0; rank < comm.size(); ++rank) {
      counts.push_back(ring_chunk(elements, comm.size(), rank).count);
    }
    std::vector<double> values;
    for (std::int64_t i = 0; i < elements; ++i) values.push_back(value_of(comm.rank(), i));
    input = to(to(from_vector(values, {elements}), dtype), comm.device());
    output = zeros({elements}, dtype, comm.device());
    input_part = input.alias({part.count}, part.first);
    output_part = output.alias({part.count}, part.first);
  }

  std::int64_t total;
  ElementRange part;
  std::vector<std::int64_t> counts;
  Tensor input, output, input_part, output_part;
};

/// A measured operation. Its size is the size of its larger buffer.
struct Collective {
  std::string name;
  CommOperation operation;  ///< whose bytes_on_link() it has
  std::function<void(Communicator&, const Buffers&)> run;
  /// The tensor with the result; undefined on a rank without a result.
  std::function<Tensor(const Communicator&, const Buffers&)> result;
  /// The expected element at index `i` of the result.
  std::function<double(const Communicator&, std::int64_t i)> expected;
};

double sum_at(const Communicator& comm, std::int64_t i) {
  double sum = 0;
  for (int rank = 0; rank < comm.size(); ++rank) sum += value_of(rank, i);
  return sum;
}

/// All operations.
std::vector<Collective> all_collectives(const Options& options) {
  const auto whole = [](const Communicator&, const Buffers& b) { return b.output; };
  const auto own_part = [](const Communicator&, const Buffers& b) { return b.output_part; };
  const auto on_root = [](const Communicator& c, const Buffers& b) {
    return c.rank() == 0 ? b.output : Tensor();
  };
  const auto of_root = [](const Communicator&, std::int64_t i) { return value_of(0, i); };
  const auto of_previous = [](const Communicator& c, std::int64_t i) {
    return value_of((c.rank() + c.size() - 1) % c.size(), i);
  };
  // In all_gather and gather, each rank sends its part of `input`; nullptr: the result has the values of each
  // part's owner.
  const RingOptions ring{.segment_bytes = options.segment_bytes, .in_flight = options.in_flight, .trace = {}};
  return {
      {"all_reduce", CommOperation::all_reduce,
       [](auto& c, auto& b) { c.all_reduce(b.input, b.output, ReduceOp::sum).wait(); }, whole, sum_at},
      {"ring_all_reduce", CommOperation::all_reduce,
       [ring](auto& c, auto& b) { ring_all_reduce(c, b.output, ReduceOp::sum, ring); }, whole, sum_at},
      {"reduce", CommOperation::reduce,
       [](auto& c, auto& b) { c.reduce(b.input, b.output, ReduceOp::sum, 0).wait(); }, on_root, sum_at},
      {"broadcast", CommOperation::broadcast, [](auto& c, auto& b) { c.broadcast(b.output, 0).wait(); },
       whole, of_root},
      {"all_gather", CommOperation::all_gather,
       [](auto& c, auto& b) { c.all_gather(b.input_part, b.output, b.counts).wait(); }, whole, nullptr},
      {"reduce_scatter", CommOperation::reduce_scatter,
       [](auto& c, auto& b) { c.reduce_scatter(b.input, b.output_part, ReduceOp::sum, b.counts).wait(); },
       own_part, sum_at},
      {"gather", CommOperation::gather,
       [](auto& c, auto& b) { c.gather(b.input_part, b.output, 0, b.counts).wait(); }, on_root, nullptr},
      {"scatter", CommOperation::scatter,
       [](auto& c, auto& b) { c.scatter(b.input, b.output_part, 0, b.counts).wait(); }, own_part, of_root},
      {"exchange", CommOperation::exchange,
       [](auto& c, auto& b) {
         c.exchange({{b.input, (c.rank() + 1) % c.size()}},
                    {{b.output, (c.rank() + c.size() - 1) % c.size()}})
             .wait();
       },
       whole, of_previous},
  };
}

/// The rank whose part holds element `i`.
int owner_of(const Communicator& comm, std::int64_t total, std::int64_t i) {
  int rank = 0;
  while (i >= ring_chunk(total, comm.size(), rank).first + ring_chunk(total, comm.size(), rank).count) ++rank;
  return rank;
}

/// Reduces a number over all ranks.
std::int64_t over_ranks(Communicator& comm, std::int64_t number, ReduceOp op) {
  const Tensor tensor = from_vector(std::vector<std::int64_t>{number}, {1}, comm.device());
  comm.all_reduce(tensor, op).wait();
  return tensor.to_vector<std::int64_t>()[0];
}

/// Runs the operation once on fresh buffers; returns the number of wrong elements of the result, over all
/// ranks.
std::int64_t count_wrong(Communicator& comm, const Collective& collective, const Buffers& buffers) {
  // These two operate on `output` in place.
  const bool in_place = collective.name == "ring_all_reduce" || collective.name == "broadcast";
  Tensor output = buffers.output;
  output.copy_from(in_place ? buffers.input : zeros(output.shape(), output.dtype(), output.device()));
  collective.run(comm, buffers);
  const Tensor result = collective.result(comm, buffers);
  std::int64_t wrong = 0;
  if (result.defined()) {
    const std::int64_t first = result.elements() == buffers.total ? 0 : buffers.part.first;
    const std::vector<double> found = result.to_doubles();
    for (std::size_t k = 0; k < found.size(); ++k) {
      const std::int64_t i = first + static_cast<std::int64_t>(k);
      const double expected =
          collective.expected ? collective.expected(comm, i) : value_of(owner_of(comm, buffers.total, i), i);
      wrong += found[k] != expected;
    }
  }
  return over_ranks(comm, wrong, ReduceOp::sum);
}

/// The mean seconds of a call on the slowest rank.
double time_of(Communicator& comm, const Collective& collective, const Buffers& buffers, int iterations) {
  collective.run(comm, buffers);
  Stream::current(comm.device()).synchronize();
  comm.barrier();
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < iterations; ++i) collective.run(comm, buffers);
  Stream::current(comm.device()).synchronize();
  const auto own = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
  return static_cast<double>(over_ranks(comm, own, ReduceOp::max)) * 1e-9 / iterations;
}

void measure(Communicator& comm, const Options& options) {
  const bool prints = comm.rank() == 0;
  Results results("collectives", comm.device(), prints ? options.json : "");
  if (prints) {
    fmt::print("{}, {}, {}, mean of {}; S: size, t: time, n: ranks\n", counted(comm.size(), "rank"),
               comm.backend(), name_of(options.dtype), counted(options.iterations, "call"));
    fmt::print("{:<16} {:>10} {:>10} {:>10} {:>12} {:>12} {:>7}\n", "operation", "bytes S", "elements",
               "t us", "S/t GB/s", "busbw GB/s", "wrong");
  }
  results.setting("ranks", comm.size());
  results.setting("backend", comm.backend());
  results.setting("iterations", options.iterations);
  if (options.slow_link) results.setting("slow_link", text_of(options.slow_link));
  std::int64_t all_wrong = 0;
  for (const Collective& collective : all_collectives(options)) {
    if (!measures(options, collective.name)) continue;
    for (std::int64_t size = options.min_bytes; size <= options.max_bytes; size *= 2) {
      const auto element = static_cast<std::int64_t>(size_of(options.dtype));
      const std::int64_t elements = size / element, bytes = elements * element;
      const Buffers buffers(comm, options.dtype, elements);
      const std::int64_t wrong = count_wrong(comm, collective, buffers);
      const double seconds = time_of(comm, collective, buffers, options.iterations);
      const double algorithm = static_cast<double>(bytes) / seconds * 1e-9;
      const double busbw = algorithm * bytes_on_link(collective.operation, comm.size(), 1);
      all_wrong += wrong;
      if (!prints) continue;
      fmt::print("{:<16} {:>10} {:>10} {:>10.1f} {:>12.3f} {:>12.3f} {:>7}\n", collective.name, bytes,
                 elements, seconds * 1e6, algorithm, busbw, wrong);
      std::fflush(stdout);
      results.add({.name = collective.name,
                   .size = fmt::format("{} bytes of {}", bytes, name_of(options.dtype)),
                   .seconds = seconds,
                   .bytes = static_cast<double>(bytes),
                   .more = {{"busbw_gb_per_s", busbw}}});
    }
  }
  results.save();
  check(all_wrong == 0, "{} elements of the results are wrong", all_wrong);
}

void show_ring(Communicator& comm, const Options& options) {
  const RingTrace trace = trace_ring(comm);
  if (comm.rank() != 0) return;
  fmt::print("{}", to_text(trace));
  if (!options.svg.empty()) save_text(options.svg, to_svg(trace));
}

void check_sizes(const Options& options) {
  check(options.min_bytes <= options.max_bytes, "--min-bytes is {}, expected at most --max-bytes, {}",
        options.min_bytes, options.max_bytes);
  check(!measures(options, "ring_all_reduce") ||
            options.segment_bytes >= static_cast<std::int64_t>(size_of(options.dtype)),
        "--segment-bytes is {}, expected at least an element of {}", options.segment_bytes,
        name_of(options.dtype));
  // The least memory of a rank: input and output, and the values of one buffer twice in double precision.
  const auto element = static_cast<double>(size_of(options.dtype));
  const double needed = static_cast<double>(options.max_bytes) / element * (2 * element + 2 * sizeof(double));
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  constexpr double kGiB = 1 << 30;
  check(needed <= memory, "--max-bytes is {}: a rank needs {:.0f} GiB, but this machine has {:.0f} GiB",
        options.max_bytes, needed / kGiB, memory / kGiB);
}

/// The flags that must be the same on all ranks, one line for each.
std::string describe_work(const Options& options) {
  return fmt::format(
      "--dtype {}\n--operations {}\n--min-bytes {}\n--max-bytes {}\n--iterations {}\n--segment-bytes {}\n"
      "--in-flight {}\n--slow-link {}\n--trace-ring {}\n",
      name_of(options.dtype), fmt::join(options.operations, ","), options.min_bytes, options.max_bytes,
      options.iterations, options.segment_bytes, options.in_flight, text_of(options.slow_link),
      options.trace_ring);
}

void run_ranks(const Options& options) {
  check_sizes(options);
  const RankEnvironment env = detect_rank_environment(process_environment());
  if (options.show_launcher) {
    fmt::print("{}", describe(env));
    return;
  }
  const Device device = device_of_rank(env, options.device, options.device ? 0 : cuda_device_count());
  const std::shared_ptr<Communicator> comm =
      connect(env, device, Seconds(options.comm_timeout), options.slow_link);
  verify_same(*comm, "the ranks' flags", "line", describe_work(options));
  if (options.trace_ring) {
    show_ring(*comm, options);
  } else {
    measure(*comm, options);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app(
      "Measures the collective operations at doubling sizes, and checks every result.\n"
      "Example: mpirun -n 4 collectives --operations all_reduce,ring_all_reduce");
  Options options;
  std::vector<std::string> names;
  for (const Collective& collective : all_collectives(options)) names.push_back(collective.name);

  app.option("--device", options.device,
             "auto, cpu, cuda or cuda:N; auto and cuda: the GPU whose number is the local rank");
  app.option("--operations", word(options.operations, names),
             "operations to measure, separated by commas [all]")
      .no_default();
  app.option("--dtype", dtype_value(options.dtype), "dtype of the elements");
  app.option("--min-bytes", between(options.min_bytes, 4, 1LL << 36), "smallest size in bytes");
  app.option("--max-bytes", between(options.max_bytes, 4, 1LL << 36), "largest size in bytes");
  app.option("--iterations", between(options.iterations, 1, 1000000), "number of calls in a timed interval");
  const Flag segment = app.option("--segment-bytes", between(options.segment_bytes, 1, 1LL << 36),
                                  "ring_all_reduce: bytes of a segment");
  const Flag in_flight = app.option("--in-flight", between(options.in_flight, 1, 1024),
                                    "ring_all_reduce: number of segments in flight");
  app.option("--comm-timeout", between(options.comm_timeout, 0.1, 1e6),
             "timeout of an operation between ranks in seconds; a timeout ends the run");
  app.option("--slow-link", option_value(options.slow_link),
             "delay messages between ranks on CPUs as on a link of this latency and bandwidth, "
             "such as 100,250: 100 microseconds and 250 MB/s");
  app.option("--show-launcher", options.show_launcher,
             "print the launcher and the rank that were detected, and why");
  app.option("--trace-ring", options.trace_ring,
             "print the chunk that each rank sends in each step of ring_all_reduce");
  app.option("--svg", format_file_value(options.svg, {".svg"}), "draw the ring's steps to this file")
      .needs(app["--trace-ring"]);
  app.file("--json", options.json, kJsonHelp).excludes(app["--show-launcher"]).excludes(app["--trace-ring"]);
  return app.run(argc, argv, [&] {
    for (const auto& [name, flag] : {std::pair("--segment-bytes", segment), {"--in-flight", in_flight}}) {
      check(!flag.is_given() || measures(options, "ring_all_reduce"),
            "{} has no effect: --operations has no ring_all_reduce", name);
    }
    run_ranks(options);
  });
}
