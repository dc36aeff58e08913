// Gradients reduced in two halves, by hand, during backward; then the same by DataParallel.
//
//   mpirun -n 2 buckets
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "dist/data_parallel.h"
#include "lessons/ranks.h"
#include "nn/layers.h"

namespace {

using namespace ringtape;
using namespace ringtape::lessons;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kBatch = 64;

struct Options {
  std::int64_t width = 128;       ///< of the layers
  std::int64_t bucket_kib = 128;  ///< of the second row of buckets
  std::int64_t calls = 256;       ///< that reduce 256 KiB together
};

/// The same model on all ranks, and samples of this rank's own.
struct Example {
  std::shared_ptr<Sequential> model;
  ParameterArena arena{*model, Device()};
  Tensor x, y;

  Example(const Communicator& comm, std::int64_t width)
      : model((manual_seed(0), make_mlp({width, width, width, width, 10}))) {
    manual_seed(100 + static_cast<std::uint64_t>(comm.rank()));
    x = randn({kBatch, width});
    y = randn({kBatch, 10}, DType::f32, {}, 1);
  }
  void backward() { mse_loss((*model)(x), y).backward(); }
};

/// Two ranges of the arena, each reduced once its gradients are complete. The arena begins with the last
/// layer's parameters, whose gradients backward completes first.
class Halves {
 public:
  Halves(Example& example, Communicator& comm) : arena_(example.arena), comm_(comm) {
    const std::size_t entries = arena_.entries().size(), middle = entries / 2;
    for (std::size_t i = 0; i < entries; ++i) {
      const std::size_t half = i < middle ? 0 : 1;
      ++missing_[half];
      arena_.entries()[i].tensor->autograd->post_accumulate_hooks.emplace_back([this, i, half] {
        log_ += fmt::format("  {} complete\n", arena_.entries()[i].name);
        if (--missing_[half] == 0) launch(half);
      });
    }
    begin_[0] = 0;
    begin_[1] = arena_.entries()[middle].offset;
    begin_[2] = arena_.size();
  }

  void wait() {
    log_ += "  backward has ended, both halves are waited for\n";
    for (const Work& work : works_) work.wait();
  }
  const std::string& log() const { return log_; }
  /// The share of half 0.
  double early() const { return static_cast<double>(begin_[1]) / static_cast<double>(begin_[2]); }

 private:
  void launch(std::size_t half) {
    const std::int64_t elements = begin_[half + 1] - begin_[half];
    log_ += fmt::format("  -> all_reduce of half {}, {} elements\n", half, elements);
    works_.push_back(comm_.all_reduce(arena_.gradients().alias({elements}, begin_[half]), ReduceOp::mean));
  }

  ParameterArena& arena_;
  Communicator& comm_;
  std::int64_t begin_[3];
  int missing_[2] = {0, 0};
  std::vector<Work> works_;
  std::string log_;
};

/// Averaged gradients, in how many calls, and the share of them in calls before the last, which can begin
/// while backward goes on.
struct Reduced {
  std::vector<double> gradients;
  std::size_t calls;
  double early;
};

Reduced reduced_by_hand(const std::shared_ptr<Communicator>& comm, std::int64_t width) {
  Example example(*comm, width);
  Halves halves(example, *comm);
  example.backward();
  halves.wait();
  if (prints(*comm)) fmt::print("By hand, on rank 0:\n{}\n", halves.log());
  return {example.arena.gradients().to_doubles(), 2, halves.early()};
}

Reduced reduced_by_data_parallel(const std::shared_ptr<Communicator>& comm, const BucketSizes& sizes,
                                 std::int64_t width) {
  Example example(*comm, width);
  DataParallel parallel(*example.model, example.arena, comm,
                        {.bucket_sizes = sizes, .overlap = true, .allow_unused = false, .hook = nullptr});
  example.backward();
  parallel.finish();
  const GradientBucket& last = parallel.buckets().back();
  return {example.arena.gradients().to_doubles(), parallel.buckets().size(),
          static_cast<double>(last.offset) / static_cast<double>(example.arena.size())};
}

/// Seconds to reduce the tensor in `calls` calls.
double time_of(Communicator& comm, const Tensor& tensor, std::int64_t calls) {
  const std::int64_t elements = tensor.elements() / calls;
  comm.barrier();
  const Clock::time_point start = Clock::now();
  std::vector<Work> works;
  for (std::int64_t i = 0; i < calls; ++i) {
    works.push_back(comm.all_reduce(tensor.alias({elements}, i * elements), ReduceOp::mean));
  }
  for (const Work& work : works) work.wait();
  return Seconds(Clock::now() - start).count();
}

/// Times one call and many calls in turn, so that other work on the machine affects both; the fastest of each
/// counts.
void compare_calls(Communicator& comm, std::int64_t calls) {
  const Tensor tensor = ones({65536});
  double one = 1e9, many = 1e9;
  for (int attempt = 0; attempt < 40; ++attempt) {
    one = std::min(one, time_of(comm, tensor, 1));
    many = std::min(many, time_of(comm, tensor, calls));
  }
  if (!prints(comm)) return;
  fmt::print("\n256 KiB in {} calls took {:.1f} ms, in one {:.3f} ms\n", calls, many * 1e3, one * 1e3);
  fmt::print("one call took less than a quarter: {}\n", one < many / 4 ? "yes" : "no");
}

void show(const std::shared_ptr<Communicator>& comm, const Options& options) {
  const Reduced by_hand = reduced_by_hand(comm, options.width);
  struct Row {
    std::string name;
    BucketSizes sizes;
  };
  const std::int64_t bytes = options.bucket_kib << 10;
  if (prints(*comm)) {
    fmt::print("DataParallel             buckets  early  gradients\n");
    fmt::print("  (by hand)              {:>7}  {:>4.0f}%\n", by_hand.calls, 100 * by_hand.early);
  }
  for (const auto& [name, sizes] : {Row{"a bucket a parameter", {1, 1}},
                                    Row{fmt::format("of {} KiB", options.bucket_kib), {bytes, bytes}},
                                    Row{"of 1 MiB, then 25 MiB", {}}}) {
    const Reduced reduced = reduced_by_data_parallel(comm, sizes, options.width);
    if (prints(*comm)) {
      fmt::print("  {:<22} {:>7}  {:>4.0f}%  {}\n", name, reduced.calls, 100 * reduced.early,
                 reduced.gradients == by_hand.gradients ? "those by hand in every bit" : "differ");
    }
  }
  compare_calls(*comm, options.calls);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app("Gradient buckets by hand and built in.\nExample: mpirun -n 2 buckets");
  app.option("--width", between(options.width, 1, 4096), "neurons in a layer");
  app.option("--bucket-kib", between(options.bucket_kib, 1, 1 << 20), "KiB of a bucket in the second row");
  app.option("--calls", between(options.calls, 1, 65536), "calls that reduce 256 KiB together");
  return app.run(argc, argv, [&] {
    check(65536 % options.calls == 0, "--calls must divide 65,536 elements, found {}", options.calls);
    const auto comm = connect_ranks();
    if (has_ranks(*comm, 2, "buckets")) show(comm, options);
  });
}
