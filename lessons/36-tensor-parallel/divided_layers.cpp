// Tensor parallelism: two linear layers over several ranks by hand, then the library's GPT with the size of
// its parts and the number of its collectives.
//
//   mpirun -n 2 divided_layers
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "dist/tensor_parallel.h"
#include "dist/traffic.h"
#include "lessons/ranks.h"
#include "nn/gpt.h"
#include "nn/parameter_shard.h"

namespace {

using namespace ringtape;
using namespace ringtape::lessons;

struct Options {
  std::vector<double> x = {1, 2};
  std::int64_t layers = 2, width = 64, heads = 4, context = 16, vocabulary = 96;
};

/// The layers by hand: y = B relu(A x), with A [4, 2] and B [2, 4].
const std::vector<double> kA = {1, 1, 1, -1, 2, 0, -1, 1}, kB = {1, 1, 1, -2, -2, 1, 2, -1};

struct ByHand {
  Tensor hidden, y, x_gradient;
};

/// Both layers with the part of the rows of A and the columns of B that rank `rank` of `ranks` has.
ByHand two_layers(const std::vector<double>& x_values, int rank, int ranks) {
  const Tensor x = from_vector(x_values, {1, 2}).set_requires_grad(true);
  const Tensor a = part_of(from_vector(kA, {4, 2}), {.dim = 0, .blocks = {4}, .rank = rank, .ranks = ranks});
  const Tensor b = part_of(from_vector(kB, {2, 4}), {.dim = 1, .blocks = {4}, .rank = rank, .ranks = ranks});
  const Tensor hidden = relu(linear(x, a)), y = linear(hidden, b);
  sum(y).backward();
  return {hidden.detach(), y.detach(), x.grad()};
}

void show_by_hand(Communicator& comm, const std::vector<double>& x) {
  const auto text = [](const std::string& who, const ByHand& of, const Tensor& after) {
    std::string line = fmt::format("  {:<11}", who);
    for (const Tensor& tensor : {of.hidden, of.y, after, of.x_gradient})
      line += fmt::format("  {:>14}", fmt::format("{}", fmt::join(tensor.to_doubles(), ", ")));
    return line + "\n";
  };
  const ByHand whole = two_layers(x, 0, 1), own = two_layers(x, comm.rank(), comm.size());
  if (prints(comm)) {
    fmt::print("B relu(A x) for x = ({})\n", fmt::join(x, ", "));
    fmt::print("                 hidden layer               y    relu of that   gradient of x\n{}",
               text("whole", whole, relu(whole.y)));
  }
  ByHand sums = own;
  const Tensor after = relu(own.y);
  print_by_rank(comm, text(fmt::format("rank {}", comm.rank()), own, after));
  for (const Tensor& part : {sums.y, sums.x_gradient, after}) comm.all_reduce(part, ReduceOp::sum).wait();
  sums.hidden = empty({0});
  if (prints(comm)) fmt::print("{}", text("all-reduced", sums, after));
}

/// A GPT after a forward and a backward.
struct Trained {
  std::int64_t parameters = 0, block_parameters = 0;
  Shape logits;
  double loss = 0;
  std::vector<double> gradients;  ///< of norms and positions, which every rank has as a whole
  CollectiveCounts forward{}, backward{};
};

Trained train(const Communicator& comm, const Options& options, const std::shared_ptr<LayerFactory>& layers) {
  manual_seed(0);
  TransformerOptions shape;
  shape.layers = options.layers;
  shape.width = options.width;
  shape.heads = options.heads;
  shape.context = options.context;
  shape.vocabulary = options.vocabulary;
  GPT model(shape, layers);
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < 2 * options.context; ++i) tokens.push_back(i * i % options.vocabulary);
  const std::int64_t rows = 2 * options.context;
  const CollectiveCounts start = comm.collectives();
  Tensor logits = model(from_vector(tokens, {2, options.context}));
  logits = view(logits, {rows, logits.size(2)});
  Trained result;
  result.logits = logits.shape();
  const Tensor loss =
      layers->cross_entropy(std::move(logits), from_vector(tokens, {rows}),
                            {.reduction = Reduction::sum, .divisor = static_cast<double>(rows)});
  const CollectiveCounts middle = comm.collectives();
  loss.backward();
  result.forward = difference(start, middle);
  result.backward = difference(middle, comm.collectives());
  result.loss = loss.item();
  for (const auto& [name, parameter] : model.named_parameters()) {
    result.parameters += parameter->elements();
    if (name.starts_with("h.0.")) result.block_parameters += parameter->elements();
    if (name.starts_with("ln_") || name.starts_with("wpe")) {
      for (const double g : parameter->grad().to_doubles()) result.gradients.push_back(g);
    }
  }
  return result;
}

/// The largest difference, relative to the largest value.
double distance(const std::vector<double>& found, const std::vector<double>& expected) {
  double largest = 0, off = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    off = std::max(off, std::abs(found[i] - expected[i]));
  }
  return off / largest;
}

void show_gpt(const std::shared_ptr<Communicator>& comm, const Options& options) {
  const Trained one = train(*comm, options, std::make_shared<LayerFactory>()),
                part = train(*comm, options, std::make_shared<TensorParallelFactory>(comm));
  check(std::abs(part.loss - one.loss) < 1e-5 * one.loss && distance(part.gradients, one.gradients) < 1e-5,
        "the loss or gradients differ from those of one rank");
  if (!prints(*comm)) return;
  fmt::print("\nA GPT of {} layers of {}, {} heads, {} tokens of vocabulary; 2 x {} tokens\n", options.layers,
             options.width, options.heads, options.vocabulary, options.context);
  fmt::print("                            one rank   {} ranks\n", comm->size());
  const auto row = [](const char* what, const auto& a, const auto& b) {
    fmt::print("  {:<24}  {:>8}  {:>8}\n", what, a, b);
  };
  row("parameters of a rank", one.parameters, part.parameters);
  row("of them in a block", one.block_parameters, part.block_parameters);
  row("heads", options.heads, options.heads / comm->size());
  row("logits of a token", one.logits[1], part.logits[1]);
  row("loss", fmt::format("{:.4f}", one.loss), fmt::format("{:.4f}", part.loss));
  fmt::print("the gradients of norms and positions, which every rank has, are those of one rank\n\n");
  fmt::print("calls                forward  bytes of each  backward  bytes of each\n");
  for (const CommOperation operation : {CommOperation::all_reduce, CommOperation::all_gather}) {
    const auto cells = [&](const CollectiveCounts& counts) {
      const CollectiveCount& count = counts[static_cast<std::size_t>(operation)];
      return fmt::format("{:>7}  {:>13}", count.calls, count.calls == 0 ? 0 : count.bytes / count.calls);
    };
    fmt::print("  {:<17}  {}   {}\n", name_of(operation), cells(part.forward), cells(part.backward));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app("Layers that several ranks divide.\nExample: mpirun -n 2 divided_layers");
  app.option("--x", options.x, "the input of the layers by hand, two numbers");
  app.option("--layers", between(options.layers, 1, 100), "layers of the GPT");
  app.option("--width", between(options.width, 1, 4096), "width of the GPT");
  app.option("--heads", between(options.heads, 1, 64), "heads of the GPT");
  app.option("--context", between(options.context, 1, 4096), "tokens of each of two sequences");
  app.option("--vocabulary", between(options.vocabulary, 1, 1 << 20), "vocabulary of the GPT, in tokens");
  return app.run(argc, argv, [&] {
    check(options.x.size() == 2, "--x: expected two numbers, found {}", options.x.size());
    const auto comm = connect_ranks();
    if (!has_ranks(*comm, 2, "divided_layers")) return;
    check(4 % comm->size() == 0, "the hidden layer has 4 neurons: expected 2 or 4 ranks, found {}",
          comm->size());
    show_by_hand(*comm, options.x);
    show_gpt(comm, options);
  });
}
