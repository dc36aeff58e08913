// Gradients sent in 16 bits: their bytes, the error of one reduction, and that of many with error feedback.
//
//   mpirun -n 2 compression
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "cli/command_line.h"
#include "core/stream.h"
#include "dist/compress_hook.h"
#include "dist/traffic.h"
#include "kernels/compress.h"
#include "lessons/norm.h"
#include "lessons/ranks.h"
#include "nn/arena.h"
#include "nn/layers.h"

namespace {

using namespace ringtape;
using namespace ringtape::lessons;

constexpr std::int64_t kBatch = 32, kWidth = 128;

struct Options {
  double scale = 1;              ///< factor of the loss, and so of all gradients
  DType compress = DType::bf16;  ///< dtype of the second table
  std::uint64_t seed = 0;
};

/// f16 without the factor of the library's hook.
class UnscaledHook : public CommHook {
 public:
  void launch(Communicator& comm, const Tensor& bucket) override {
    const Stream& stream = Stream::current(bucket.device());
    const CompressionScale none{nullptr, comm.size()};
    const std::int64_t n = bucket.elements();
    const Tensor sent = empty(bucket.shape(), DType::f16);
    compress(stream, bucket.data<float>(), n, none, nullptr, DType::f16, sent.raw());
    comm.all_reduce(sent, ReduceOp::mean).wait();
    decompress(stream, DType::f16, sent.raw(), n, none, bucket.data<float>());
  }
  void wait(Communicator&) override {}
};

/// The same model on all ranks; each rank has different samples.
struct Example {
  std::shared_ptr<Sequential> model;
  ParameterArena arena;

  explicit Example(const Options& options)
      : model((manual_seed(options.seed), make_mlp({kWidth, 2 * kWidth, kWidth, 10}))),
        arena(*model, Device()) {}

  /// Computes the gradients of batch number `number` into the arena.
  void backward(const Communicator& comm, const Options& options, std::int64_t number) {
    arena.zero_grad();
    manual_seed(1000 * (options.seed + 1) + static_cast<std::uint64_t>(number * comm.size() + comm.rank()));
    const Tensor x = randn({kBatch, kWidth}), y = randn({kBatch, 10});
    scale(mse_loss((*model)(x), y), options.scale).backward();
  }
};

std::vector<double> difference(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

/// The mean over the ranks of the gradients in the arena, in f64.
std::vector<double> exact_mean(Communicator& comm, const ParameterArena& arena) {
  const std::vector<double> own = arena.gradients().to_doubles();
  const Tensor mean = from_vector(own, {arena.size()});
  comm.all_reduce(mean, ReduceOp::mean).wait();
  return mean.to_doubles();
}

std::vector<double> mean_by(CommHook& hook, Communicator& comm, const ParameterArena& arena) {
  hook.launch(comm, arena.gradients());
  hook.wait(comm);
  return arena.gradients().to_doubles();
}

void one_reduction(Communicator& comm, const Options& options) {
  Example example(options);
  if (prints(comm)) {
    fmt::print("One reduction of {} elements, {} rank{}\n", example.arena.size(), comm.size(),
               comm.size() == 1 ? "" : "s");
    fmt::print("{:<16} {:>5} {:>8} {:>10} {:>10}\n", "sent as", "calls", "bytes", "error", "became 0");
  }
  const auto row = [&](const char* name, std::unique_ptr<CommHook> hook) {
    example.backward(comm, options, 0);
    const std::vector<double> exact = exact_mean(comm, example.arena);
    const CollectiveCounts before = comm.collectives();
    const std::vector<double> found = mean_by(*hook, comm, example.arena);
    std::uint64_t calls = 0, bytes = 0;
    for (const CollectiveCount& count : difference(before, comm.collectives())) {
      calls += count.calls;
      bytes += count.bytes;
    }
    std::int64_t lost = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) lost += exact[i] != 0 && found[i] == 0 ? 1 : 0;
    if (!prints(comm)) return;
    fmt::print("{:<16} {:>5} {:>8} {:>10.2e} {:>10}\n", name, calls, bytes,
               norm(difference(found, exact)) / norm(exact), lost);
  };
  const ParameterArena& arena = example.arena;
  row("f32", std::make_unique<AllReduceHook>());
  row("bf16", std::make_unique<CompressHook>(arena, DType::bf16, false));
  row("f16, not scaled", std::make_unique<UnscaledHook>());
  row("f16", std::make_unique<CompressHook>(arena, DType::f16, false));
}

/// The error of the sum of 1, 10, 100 reductions, over the norm of the first mean gradient.
std::vector<double> errors_of_sums(Communicator& comm, const Options& options, bool feedback, bool same) {
  Example example(options);
  CompressHook hook(example.arena, options.compress, feedback);
  std::vector<double> off(static_cast<std::size_t>(example.arena.size())), errors;
  double first = 0;
  for (int i = 1; i <= 100; ++i) {
    example.backward(comm, options, same ? 0 : i);
    const std::vector<double> exact = exact_mean(comm, example.arena);
    if (i == 1) first = norm(exact);
    // off + found - exact
    off = difference(mean_by(hook, comm, example.arena), difference(exact, off));
    if (i == 1 || i == 10 || i == 100) errors.push_back(norm(off) / first);
  }
  return errors;
}

void many_reductions(Communicator& comm, const Options& options) {
  std::vector<std::vector<double>> columns;
  for (const bool same : {true, false})
    for (const bool feedback : {false, true})
      columns.push_back(errors_of_sums(comm, options, feedback, same));
  if (!prints(comm)) return;
  fmt::print("\nMany reductions in {}: error of their sum, in norms of one mean gradient\n",
             name_of(options.compress));
  fmt::print("{:<10} {:>24} {:>30}\n", "", "the same gradients", "of new samples each time");
  fmt::print("{:<10} {:>12} {:>13} {:>14} {:>13}\n", "reductions", "no feedback", "feedback", "no feedback",
             "feedback");
  const int counts[] = {1, 10, 100};
  for (std::size_t i = 0; i < std::size(counts); ++i)
    fmt::print("{:<10} {:>12.5f} {:>13.5f} {:>14.5f} {:>13.5f}\n", counts[i], columns[0][i], columns[1][i],
               columns[2][i], columns[3][i]);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app(
      "Gradients sent in 16 bits, and their errors.\nExample: mpirun -n 2 compression --compress f16");
  app.option("--scale", between(options.scale, 1e-30, 1e30), "factor of the loss, and so of all gradients");
  app.option("--compress",
             named_option_value<DType>(options.compress, {{"bf16", DType::bf16}, {"f16", DType::f16}}),
             "dtype of the second table: bf16 or f16");
  app.option("--seed", options.seed, "seed of the weights and samples");
  return app.run(argc, argv, [&] {
    const auto comm = connect_ranks();
    one_reduction(*comm, options);
    many_reductions(*comm, options);
  });
}
