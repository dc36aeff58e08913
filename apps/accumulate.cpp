// Shows, with all numbers, that the gradients of micro-batches add up to the gradient of the whole batch, and
// the errors of other scalings.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "autograd/ops.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "core/numbers.h"
#include "data/mnist.h"
#include "dist/rank_environment.h"
#include "kernels/pointwise.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/accumulation.h"

namespace {

using namespace ringtape;

constexpr std::int64_t kPixels = 28 * 28, kClasses = 10, kIgnored = -100;

struct Options {
  std::optional<Device> device;
  std::int64_t batch = 80;
  std::int64_t micro_batch = 10;
};

using Pieces = std::vector<MicroBatch>;
/// The elements of every parameter's gradient, in the order of the arena.
using Gradients = std::vector<std::vector<double>>;
/// How the loss of a micro-batch is computed from the losses of its samples.
using LossOf = std::function<CrossEntropyOptions(const MicroBatch&)>;

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value * value;
  return std::sqrt(sum);
}

/// ||a - b||
double distance(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return norm(a);
}

/// ||a - b|| / ||b||, and 0 if a and b are equal.
double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  const double off = distance(a, b);
  return off == 0 ? 0 : off / norm(b);
}

/// The largest relative difference over all parameters; infinite if one is NaN.
double largest_difference(const Gradients& a, const Gradients& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = relative_difference(a[i], b[i]);
    if (!(difference <= largest)) largest = std::isnan(difference) ? INFINITY : difference;
  }
  return largest;
}

/// The allowed difference in f32, relative to the gradient's norm. The k-th of n additions rounds a sum of
/// about k/n of the gradient to 24 bits. These errors are independent, so their sum grows with the square
/// root of n: about sqrt(n) / 3 * 2^-24; three times that is allowed. The 1e-6 is for the sums over the
/// samples of a micro-batch, which also depend on the order of additions.
double allowed_difference(std::size_t pieces) {
  return std::max(1e-6, std::sqrt(static_cast<double>(pieces)) * 0x1p-24);
}

/// A network with its initial weights, and a batch of images.
class Example {
 public:
  Example(const Options& options, const TensorDataset& images)
      : model_((manual_seed(0), make_mlp({kPixels, 64, 64, 64, kClasses}))),
        arena_(*model_, device_or_auto(options.device)),
        labels_(images.all_targets().to_vector<std::int64_t>()) {
    const Tensor pixels = copy_to(images.all_features(), arena_.device());
    x_ = mnist_input(pixels);
  }

  const std::vector<ArenaEntry>& parameters() const { return arena_.entries(); }
  std::int64_t batch() const { return x_.size(0); }
  void set_recompute(bool on) { model_->set_recompute(on ? 4 : 0); }  // segments of two layers
  void ignore(std::int64_t sample) { labels_[static_cast<std::size_t>(sample)] = kIgnored; }

  /// The number of non-ignored targets in these micro-batches.
  std::int64_t targets(const Pieces& pieces) const {
    std::int64_t count = 0;
    for (const MicroBatch& piece : pieces) {
      const auto first = labels_.begin() + piece.first;
      count += piece.size - std::count(first, first + piece.size, kIgnored);
    }
    return count;
  }

  void zero_grad() { arena_.zero_grad(); }
  /// Adds to the gradients; returns the loss.
  double backward(const MicroBatch& piece, const CrossEntropyOptions& options) {
    const auto first = labels_.begin() + piece.first;
    const std::vector<std::int64_t> labels(first, first + piece.size);
    const Tensor x = x_.alias({piece.size, kPixels}, piece.first * kPixels);
    const Tensor loss = cross_entropy((*model_)(x), from_vector(labels, {piece.size}, x.device()), options);
    loss.backward();
    return loss.item();
  }
  Gradients gradients() const {
    Gradients all;
    for (const ArenaEntry& entry : parameters()) all.push_back(entry.tensor->grad().to_doubles());
    return all;
  }

  Gradients accumulate(const Pieces& pieces, const LossOf& loss_of) {
    zero_grad();
    for (const MicroBatch& piece : pieces) backward(piece, loss_of(piece));
    return gradients();
  }
  /// The correct way: each micro-batch's sum of losses is divided by the window's number of targets.
  Gradients accumulate(const Pieces& pieces) {
    AccumulationWindow window;
    window.begin(targets(pieces));
    return accumulate(pieces, [&](const MicroBatch&) {
      return CrossEntropyOptions{.reduction = Reduction::sum, .divisor = window.divisor()};
    });
  }
  Gradients at_once() {
    return accumulate({{0, batch()}}, [](const MicroBatch&) { return CrossEntropyOptions{}; });
  }

 private:
  std::shared_ptr<Sequential> model_;
  ParameterArena arena_;
  Tensor x_;
  std::vector<std::int64_t> labels_;
};

void print_formula(std::int64_t batch, const Pieces& pieces) {
  fmt::print(
      "1. The formula\n\n"
      "   A batch of N = {} samples has the mean of their losses, and its gradient:\n\n"
      "      L = 1/N (l_1 + ... + l_N)              g = 1/N (dl_1/dw + ... + dl_N/dw)\n\n"
      "   A sum can be taken in parts. Micro-batch k, which has n_k of the samples, adds\n\n"
      "      L_k = 1/N (the sum of its l_i)         g_k = n_k/N (the mean of its dl_i/dw)\n\n"
      "   to what the gradient buffers hold; after all {} of them that is g. The divisor N is the number of\n"
      "   targets in the whole window, the same for each micro-batch, and known before the first backward.\n"
      "   n_k/N is the weight of the micro-batch.\n\n",
      batch, pieces.size());
}

/// One element of one parameter's gradient.
struct Element {
  std::size_t parameter, index;
};

/// The element of the last layer's weight gradient with the largest magnitude.
Element element_to_follow(const Example& example, const Gradients& gradients) {
  std::size_t parameter = 0;
  while (example.parameters()[parameter].tensor->dims() != 2) ++parameter;
  const std::vector<double>& values = gradients[parameter];
  const auto largest = std::max_element(values.begin(), values.end(),
                                        [](double a, double b) { return std::abs(a) < std::abs(b); });
  return {parameter, static_cast<std::size_t>(largest - values.begin())};
}

void print_micro_batches(Example& example, const Pieces& pieces) {
  example.zero_grad();
  const double batch_loss = example.backward({0, example.batch()}, {});
  const Gradients at_once = example.gradients();
  const Element element = element_to_follow(example, at_once);
  const auto value = [&] { return example.gradients()[element.parameter][element.index]; };
  const ArenaEntry& parameter = example.parameters()[element.parameter];
  const auto columns = static_cast<std::size_t>(parameter.tensor->size(1));
  fmt::print("2. Each micro-batch, and what it adds to one element of the gradient, that of {}[{}, {}]\n\n",
             parameter.name, element.index / columns, element.index % columns);
  fmt::print("   {:>3}  {:<12} {:>7} {:>8} {:>8} {:>12} {:>14} {:>14}\n", "k", "samples", "targets",
             "divisor", "weight", "loss L_k", "adds", "so far");

  AccumulationWindow window;
  window.begin(example.targets(pieces));
  example.zero_grad();
  double loss_sum = 0, so_far = 0;
  for (std::size_t k = 0; k < pieces.size(); ++k) {
    const auto [first, size] = pieces[k];
    const double loss =
        example.backward(pieces[k], {.reduction = Reduction::sum, .divisor = window.divisor()});
    const double before = std::exchange(so_far, value());
    loss_sum += loss;
    const std::int64_t targets = example.targets({pieces[k]});
    fmt::print("   {:>3}  {:<12} {:>7} {:>8} {:>8.5f} {:>12.8f} {:>14.10f} {:>14.10f}\n", k + 1,
               fmt::format("{} to {}", first, first + size - 1), targets, window.divisor(),
               static_cast<double>(targets) / window.divisor(), loss, so_far - before, so_far);
  }
  fmt::print("        {:<38} {:>12.8f} {:>14} {:>14.10f}\n", "sum", loss_sum, "", so_far);
  fmt::print("        {:<38} {:>12.8f} {:>14} {:>14.10f}\n\n", "the batch at once", batch_loss, "",
             at_once[element.parameter][element.index]);
}

/// Throws Error if the gradients differ by more than rounding.
void print_parameters(Example& example, const Pieces& pieces) {
  const Gradients at_once = example.at_once();
  const Gradients accumulated = example.accumulate(pieces);
  example.set_recompute(true);
  const Gradients recomputed = example.accumulate(pieces);
  example.set_recompute(false);
  fmt::print("3. Every parameter: g of the batch at once, and G, accumulated over {} micro-batches\n\n",
             pieces.size());
  fmt::print("   {:<10} {:>10} {:>14} {:>14} {:>16}   {}\n", "parameter", "elements", "||g||", "||G - g||",
             "||G - g||/||g||", "G with recomputed activations");
  for (std::size_t i = 0; i < at_once.size(); ++i) {
    const double off = distance(accumulated[i], at_once[i]);
    fmt::print("   {:<10} {:>10} {:>14.8f} {:>14.2e} {:>16.2e}   {}\n", example.parameters()[i].name,
               at_once[i].size(), norm(at_once[i]), off, relative_difference(accumulated[i], at_once[i]),
               recomputed[i] == accumulated[i] ? "the same in every bit" : "differs");
  }
  const double largest = largest_difference(accumulated, at_once);
  const double allowed = allowed_difference(pieces.size());
  check(largest <= allowed && recomputed == accumulated,
        "the gradients do not agree: relative difference {:.2e}, expected at most {:.2g}", largest, allowed);
  fmt::print(
      "\n   At most {:.2g} was allowed: f32 rounds each sum to 24 bits, and the order of the sums "
      "differs.\n\n",
      allowed);
}

/// Each micro-batch's mean, divided by the number of micro-batches: correct only if all have the same number
/// of targets.
LossOf mean_over_steps(const Pieces& pieces) {
  const auto steps = static_cast<double>(pieces.size());
  return [steps](const MicroBatch&) { return CrossEntropyOptions{.divisor = steps}; };
}

/// Such as "2 x 33 + 14".
std::string sizes_of(const Pieces& pieces) {
  const std::int64_t full = pieces.front().size, last = pieces.back().size;
  if (last == full) return fmt::format("{} x {}", pieces.size(), full);
  return fmt::format("{} x {} + {}", pieces.size() - 1, full, last);
}

void print_mistakes(Example& example, const Pieces& pieces) {
  const auto line = [](const std::string& text, const Gradients& found, const Gradients& expected) {
    fmt::print("   {:<84} {:>15.2e}\n", text, largest_difference(found, expected));
  };
  const LossOf mean = [](const MicroBatch&) { return CrossEntropyOptions{}; };
  const Gradients at_once = example.at_once();
  fmt::print("4. What goes wrong otherwise (the largest of all parameters)\n\n   {:<84} {:>15}\n", "",
             "||G - g||/||g||");
  line("right: sums of losses over N", example.accumulate(pieces), at_once);
  const char* const about = pieces.back().size == pieces.front().size ? "" : "about ";
  line(
      fmt::format("scaling forgotten: {} means added up, so G = {}{} g", pieces.size(), about, pieces.size()),
      example.accumulate(pieces, mean), at_once);
  line(fmt::format("means over {}, {}", counted(std::ssize(pieces), "step"), sizes_of(pieces)),
       example.accumulate(pieces, mean_over_steps(pieces)), at_once);

  const std::int64_t batch = example.batch();
  const Pieces unequal = cut_into_micro_batches(batch, batch * 2 / 5 + 1);
  line(fmt::format("unequal micro-batches, means over {}, {}", counted(std::ssize(unequal), "step"),
                   sizes_of(unequal)),
       example.accumulate(unequal, mean_over_steps(unequal)), at_once);
  line("the same micro-batches, right: sums over N", example.accumulate(unequal), at_once);

  for (std::int64_t i = 0; i < batch / 2; ++i) {
    if (i % 10 != 0) example.ignore(i);
  }
  const Gradients of_counted = example.at_once();
  const std::string with_ignored = fmt::format("{} of {} targets are not ignored, most in the second half",
                                               example.targets({{0, batch}}), batch);
  line(with_ignored + fmt::format(": means over {}", counted(std::ssize(pieces), "step")),
       example.accumulate(pieces, mean_over_steps(pieces)), of_counted);
  line(fmt::format("the same targets, right: sums over N = {}", example.targets({{0, batch}})),
       example.accumulate(pieces), of_counted);
  fmt::print(
      "\n   SGD takes a gradient {}{} times as large for a learning rate {} times as large. Adam divides by "
      "the\n"
      "   gradient's size and hides the mistake; clipping by norm does not.\n\n",
      about, pieces.size(), pieces.size());
}

void print_epoch(std::int64_t samples, std::int64_t global_batch, std::int64_t micro_batch) {
  const Pieces updates = cut_into_micro_batches(samples, global_batch);
  fmt::print("   Batches of {} in micro-batches of {}: {} an epoch\n\n", global_batch, micro_batch,
             counted(std::ssize(updates), "update"));
  fmt::print("   {:>6}  {:<10} {:<14} {:>8}  {}\n", "update", "samples", "micro-batches", "divisor",
             "weight of each");
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const auto [first, size] = updates[i];
    const Pieces pieces = cut_into_micro_batches(size, micro_batch);
    AccumulationWindow window;
    window.begin(size);
    fmt::print("   {:>6}  {:<10} {:<14} {:>8}  {}/{} = {:g}\n", i + 1,
               fmt::format("{} to {}", first, first + size - 1), sizes_of(pieces), window.divisor(),
               pieces[0].size, size, static_cast<double>(pieces[0].size) / window.divisor());
  }
  fmt::print("\n");
}

void print_epochs() {
  fmt::print("5. An epoch of 100 samples\n\n");
  print_epoch(100, 20, 20);
  print_epoch(100, 8 * 10, 10);
  fmt::print(
      "   The last window is short: its 2 micro-batches are weighted as 2, 1/2 each. Weighted as 8, its "
      "update\n"
      "   would be made with a quarter of its gradient.\n");
}

void show(const Options& options) {
  Example example(options, load_mnist().train.slice(0, options.batch));
  const Pieces pieces = cut_into_micro_batches(options.batch, options.micro_batch);
  print_formula(options.batch, pieces);
  print_micro_batches(example, pieces);
  print_parameters(example, pieces);
  print_mistakes(example, pieces);
  print_epochs();
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app(
      "Compares the gradients of one batch of MNIST images with those accumulated over its micro-batches, "
      "step by step.\nExample: accumulate --batch-size 80 --micro-batch 10");
  Options options;

  app.option("--batch-size", between(options.batch, 1, 60000), "images in the batch");
  app.option("--micro-batch", between(options.micro_batch, 1, 60000), "images in a forward pass");
  app.option("--device", options.device, kDeviceHelp);
  app.after_parsing([&options] {
    check(options.micro_batch <= options.batch,
          "--micro-batch: expected at most the {} of --batch-size, found {}", options.batch,
          options.micro_batch);
  });
  return app.run(argc, argv, [&options] {
    // Under mpirun only one rank prints.
    if (detect_rank_environment(process_environment()).rank == 0) show(options);
  });
}
