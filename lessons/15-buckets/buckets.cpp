// Gradients reduced in buckets by hand, during backward; then the same by DataParallel.
//
//   mpirun -n 2 buckets
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "dist/data_parallel.h"
#include "lessons/ranks.h"
#include "lessons/turns.h"
#include "nn/layers.h"
#include "train/option_types.h"

namespace {

using namespace ringtape;
using namespace ringtape::lessons;
using Clock = std::chrono::steady_clock;

struct Options {
  std::int64_t width = 128;                    ///< neurons in a layer
  std::int64_t batch = 64;                     ///< samples of a rank
  std::vector<std::int64_t> by_hand = {4, 4};  ///< parameters in each bucket, the last layer's first
  double bucket_mib = 0.125;                   ///< bucket size in the second row
  std::int64_t calls = 256;                    ///< calls that reduce 256 KiB together
  bool time = false;                           ///< whether to time an update
  std::optional<SlowLink> slow_link = SlowLink{Seconds(0), 300e6};
  std::int64_t steps = 25;
};

/// The same model on all ranks, and different samples on each.
struct Example {
  std::shared_ptr<Sequential> model;
  ParameterArena arena{*model, Device()};
  Tensor x, y;

  Example(const Communicator& comm, const Options& options)
      : model((manual_seed(0), make_mlp({options.width, options.width, options.width, options.width, 10}))) {
    manual_seed(100 + static_cast<std::uint64_t>(comm.rank()));
    x = randn({options.batch, options.width});
    y = randn({options.batch, 10}, DType::f32, {}, 1);
  }
  void backward() { mse_loss((*model)(x), y).backward(); }
};

/// Ranges of the arena, each reduced once its gradients are complete. The arena begins with the last layer's
/// parameters, whose gradients backward completes first.
class ByHand {
 public:
  /// `sizes`: the parameters of each bucket.
  ByHand(Example& example, Communicator& comm, const std::vector<std::int64_t>& sizes)
      : arena_(example.arena), comm_(comm), sizes_(sizes), missing_(sizes) {
    const std::vector<ArenaEntry>& entries = arena_.entries();
    std::size_t i = 0;
    for (std::size_t bucket = 0; bucket < sizes.size(); ++bucket) {
      begin_.push_back(entries[i].offset);
      for (std::int64_t k = 0; k < sizes[bucket]; ++k, ++i) {
        entries[i].tensor->autograd->post_accumulate_hooks.emplace_back([this, i, bucket] {
          log_ += fmt::format("  {} complete\n", arena_.entries()[i].name);
          if (--missing_[bucket] == 0) launch(bucket);
        });
      }
    }
    begin_.push_back(arena_.size());
  }

  void wait() {
    log_ += "  backward has ended, all buckets are waited for\n";
    for (const Work& work : works_) work.wait();
    works_.clear();
    missing_ = sizes_;
  }
  const std::string& log() const { return log_; }
  /// The share of the gradients in all buckets but the last.
  double early() const {
    return static_cast<double>(begin_[sizes_.size() - 1]) / static_cast<double>(arena_.size());
  }

 private:
  void launch(std::size_t bucket) {
    const std::int64_t elements = begin_[bucket + 1] - begin_[bucket];
    log_ += fmt::format("  -> all_reduce of bucket {}, {} elements\n", bucket, elements);
    works_.push_back(comm_.all_reduce(arena_.gradients().alias({elements}, begin_[bucket]), ReduceOp::mean));
  }

  ParameterArena& arena_;
  Communicator& comm_;
  std::vector<std::int64_t> sizes_, missing_, begin_;
  std::vector<Work> works_;
  std::string log_;
};

/// Averaged gradients, the number of calls, and the share of the gradients in all calls but the last, which
/// can begin while backward goes on.
struct Reduced {
  std::vector<double> gradients;
  std::size_t calls;
  double early;
};

Reduced reduced_by_hand(const std::shared_ptr<Communicator>& comm, const Options& options) {
  Example example(*comm, options);
  ByHand by_hand(example, *comm, options.by_hand);
  example.backward();
  by_hand.wait();
  if (prints(*comm)) fmt::print("By hand, on rank 0:\n{}\n", by_hand.log());
  return {example.arena.gradients().to_doubles(), options.by_hand.size(), by_hand.early()};
}

DataParallelOptions in_buckets(const BucketSizes& sizes) {
  return {.bucket_sizes = sizes, .overlap = true, .allow_unused = false, .hook = nullptr};
}

double early(const DataParallel& parallel, const ParameterArena& arena) {
  return static_cast<double>(parallel.buckets().back().offset) / static_cast<double>(arena.size());
}

Reduced reduced_by_data_parallel(const std::shared_ptr<Communicator>& comm, const BucketSizes& sizes,
                                 const Options& options) {
  Example example(*comm, options);
  DataParallel parallel(*example.model, example.arena, comm, in_buckets(sizes));
  example.backward();
  parallel.finish();
  return {example.arena.gradients().to_doubles(), parallel.buckets().size(), early(parallel, example.arena)};
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

/// Times an update in several ways over a link that is slowed down; all in one run, in turns.
void time_updates(const std::shared_ptr<Communicator>& comm, const Options& options) {
  Example alone(*comm, options);
  const auto compute = [&] {
    alone.arena.zero_grad();
    alone.backward();
  };
  const auto linked = connect_ranks(options.slow_link);

  Example mine(*linked, options);
  ByHand by_hand(mine, *linked, options.by_hand);
  std::vector<std::string> names = {"nothing is reduced", "an all_reduce alone", "by hand"};
  std::vector<std::string> buckets = {
      "", "", fmt::format("{:>7}  {:>4.0f}%", options.by_hand.size(), 100 * by_hand.early())};
  std::vector<std::function<void()>> ways = {
      compute, [&] { linked->all_reduce(alone.arena.gradients(), ReduceOp::mean).wait(); },
      [&] {
        mine.arena.zero_grad();
        mine.backward();
        by_hand.wait();
      }};
  struct Way {
    std::string name;
    BucketSizes sizes;
    bool overlap;
  };
  constexpr std::int64_t kAll = std::int64_t{1} << 40;
  std::vector<std::unique_ptr<Example>> examples;
  std::vector<std::unique_ptr<DataParallel>> parallels;
  for (const Way& way :
       {Way{"DataParallel's own", {}, true}, Way{"a bucket a parameter", {1, 1}, true},
        Way{"one bucket", {kAll, kAll}, true}, Way{"one, after backward", {kAll, kAll}, false}}) {
    Example& example = *examples.emplace_back(std::make_unique<Example>(*linked, options));
    DataParallelOptions of_way = in_buckets(way.sizes);
    of_way.overlap = way.overlap;
    DataParallel& parallel = *parallels.emplace_back(
        std::make_unique<DataParallel>(*example.model, example.arena, linked, of_way));
    names.push_back(way.name);
    buckets.push_back(
        fmt::format("{:>7}  {:>4.0f}%", parallel.buckets().size(), 100 * early(parallel, example.arena)));
    ways.emplace_back([&] {
      example.arena.zero_grad();
      example.backward();
      parallel.finish();
    });
  }
  const std::vector<Ratio> ratios = time_in_turns(*linked, ways, static_cast<int>(options.steps));
  const bool same = std::all_of(examples.begin(), examples.end(), [&](const auto& example) {
    return example->arena.gradients().to_doubles() == mine.arena.gradients().to_doubles();
  });
  if (!prints(*comm)) return;
  fmt::print("\nAn update over a link of {}, as a multiple of the time to compute it; median of {}\n",
             link_text(options.slow_link.value_or(SlowLink())), options.steps);
  fmt::print("                       buckets  early  time (lowest to highest)\n");
  for (std::size_t i = 0; i < ways.size(); ++i)
    fmt::print("  {:<20} {:<14}  {}\n", names[i], buckets[i], text_of(ratios[i]));
  fmt::print("gradients of all: {}\n", same ? "the same bits" : "they differ");
}

void show(const std::shared_ptr<Communicator>& comm, const Options& options) {
  const Reduced by_hand = reduced_by_hand(comm, options);
  struct Row {
    std::string name;
    BucketSizes sizes;
  };
  const std::int64_t bytes = buckets_of_mib(options.bucket_mib).bytes;
  if (prints(*comm)) {
    fmt::print("DataParallel             buckets  early  gradients\n");
    fmt::print("  (by hand)              {:>7}  {:>4.0f}%\n", by_hand.calls, 100 * by_hand.early);
  }
  for (const auto& [name, sizes] :
       {Row{"a bucket a parameter", {1, 1}},
        Row{fmt::format("of {:g} KiB", options.bucket_mib * 1024), {bytes, bytes}},
        Row{"of 1 MiB, then 25 MiB", {}}}) {
    const Reduced reduced = reduced_by_data_parallel(comm, sizes, options);
    if (prints(*comm)) {
      fmt::print("  {:<22} {:>7}  {:>4.0f}%  {}\n", name, reduced.calls, 100 * reduced.early,
                 reduced.gradients == by_hand.gradients ? "those by hand in every bit" : "differ");
    }
  }
  compare_calls(*comm, options.calls);
  if (options.time) time_updates(comm, options);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app("Gradient buckets by hand and built in.\nExample: mpirun -n 2 buckets");
  app.option("--width", between(options.width, 1, 4096), "neurons in a layer");
  app.option("--micro-batch", between(options.batch, 1, 65536), "samples of a rank");
  app.option("--by-hand", between(options.by_hand, 1, 8),
             "parameters in each bucket by hand, 8 in all, the last layer's bias and weight first");
  app.option("--bucket-mib", between(options.bucket_mib, 1e-6, 1e6), "MiB of a bucket in the second row");
  app.option("--calls", between(options.calls, 1, 65536), "calls that reduce 256 KiB together");
  app.option("--time", options.time, "also time an update, over a slow link");
  app.option("--slow-link", option_value(options.slow_link), "with --time: latency and bandwidth of the link")
      .needs(app["--time"]);
  app.option("--steps", between(options.steps, 1, 1000), "with --time: steps to time, of each variant");
  return app.run(argc, argv, [&] {
    check(std::accumulate(options.by_hand.begin(), options.by_hand.end(), std::int64_t{0}) == 8,
          "--by-hand must add up to 8 parameters, found {}", fmt::join(options.by_hand, ","));
    check(65536 % options.calls == 0, "--calls must divide 65,536 elements, found {}", options.calls);
    const auto comm = connect_ranks();
    if (has_ranks(*comm, 2, "buckets")) show(comm, options);
  });
}
