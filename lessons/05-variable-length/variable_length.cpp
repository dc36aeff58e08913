// Lines of a play as samples of a GPT: ignored padding, and a mean loss over tokens rather than over
// micro-batches.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "nn/arena.h"
#include "nn/gpt.h"
#include "optim/accumulation.h"
#include "optim/adam.h"
#include "text/character_tokenizer.h"
#include "text/tinyshakespeare.h"
#include "text/token_dataset.h"

namespace {

using namespace ringtape;

struct Options {
  std::int64_t first = 1, lines = 12, micro_batch = 2;
  bool unsorted = false;
  std::int64_t steps = 0, layers = 2, width = 32;
  std::uint64_t seed = 0;
};

using Lines = std::vector<std::string_view>;

Lines lines_of(std::string_view text) {
  Lines lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::int64_t longest(const Lines& lines) {
  std::size_t most = 1;
  for (const std::string_view line : lines) most = std::max(most, line.size());
  return static_cast<std::int64_t>(most);
}

std::int64_t tokens_of(const Lines& lines) {
  std::size_t tokens = 0;
  for (const std::string_view line : lines) tokens += line.size();
  return static_cast<std::int64_t>(tokens);
}

Lines part_of(const Lines& lines, const MicroBatch& part) {
  return {lines.begin() + part.first, lines.begin() + part.first + part.size};
}

/// A GPT that predicts each character of a line from those before it.
class Example {
 public:
  Example(const Options& options, const Lines& text)
      : tokenizer_(tinyshakespeare()),
        model_((manual_seed(options.seed), TransformerOptions{.vocabulary = tokenizer_.vocabulary_size(),
                                                              .context = longest(text),
                                                              .layers = options.layers,
                                                              .heads = 4,
                                                              .width = options.width})),
        arena_(model_, Device()),
        optimizer_(arena_, {.learning_rate = 1e-3}) {}

  /// The loss of `lines`, padded to the longest of them.
  Tensor loss(const Lines& lines, const CrossEntropyOptions& options) {
    const std::int64_t length = longest(lines);
    std::vector<std::int32_t> inputs, targets;
    for (const std::string_view line : lines) {
      const std::vector<std::int32_t> ids = tokenizer_.encode(line);
      std::vector<std::int32_t> x = tokenizer_.encode("\n"), y = ids;  // the newline of the line before
      x.insert(x.end(), ids.begin(), ids.end());
      x.resize(static_cast<std::size_t>(length));
      y.resize(static_cast<std::size_t>(length), kIgnoredTarget);
      inputs.insert(inputs.end(), x.begin(), x.end());
      targets.insert(targets.end(), y.begin(), y.end());
    }
    const auto count = static_cast<std::int64_t>(lines.size());
    const Tensor logits = model_(from_vector(inputs, {count, length}));
    return cross_entropy(view(logits, {-1, logits.size(2)}), from_vector(targets, {count * length}), options);
  }

  /// Adds the gradient of loss() to the gradients; returns the loss.
  double backward(const Lines& lines, const CrossEntropyOptions& options) {
    const Tensor result = loss(lines, options);
    result.backward();
    return result.item();
  }

  double mean_loss(const Lines& lines) {
    const NoGrad no_grad;
    return loss(lines, {}).item();
  }

  /// The sum of the gradients of the losses whose backwards `losses` runs.
  std::vector<double> gradient_of(const std::function<void()>& losses) {
    arena_.zero_grad();
    losses();
    return arena_.gradients().to_doubles();
  }

  /// One update by the mean over the tokens of these lines.
  void train(const Lines& lines) {
    arena_.zero_grad();
    backward(lines, {});
    optimizer_.step();
  }

 private:
  CharacterTokenizer tokenizer_;
  GPT model_;
  ParameterArena arena_;
  Adam optimizer_;
};

/// A loss as text; NaN without the sign that some libraries print.
std::string text_of(double loss) {
  return std::isnan(loss) ? "NaN" : fmt::format("{:.4f}", loss);
}

double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

void show(const Options& options) {
  const Lines text = lines_of(tinyshakespeare());
  const auto available = static_cast<std::int64_t>(text.size());
  check(options.first + options.lines - 1 <= available, "--first and --lines: the text has {} lines",
        available);
  Lines lines = part_of(text, {options.first - 1, options.lines});
  if (!options.unsorted) {
    std::ranges::stable_sort(lines, std::ranges::greater(), &std::string_view::size);
  }
  const std::int64_t tokens = tokens_of(lines);
  check(tokens > 0, "--first and --lines: these lines are empty");

  Example example(options, text);
  for (std::int64_t update = 0; update < options.steps; ++update) {
    const std::int64_t after = options.first - 1 + options.lines;  // index of the line after the table's
    example.train(part_of(text, {(after + 64 * update) % (available - 63), 64}));
  }

  double at_once = 0;
  const std::vector<double> expected = example.gradient_of([&] { at_once = example.backward(lines, {}); });
  fmt::print("{} lines, {} tokens; padded to the longest: {} positions\n\n", lines.size(), tokens,
             options.lines * longest(lines));

  AccumulationWindow window;
  window.begin(tokens);
  const std::vector<MicroBatch> parts = cut_into_micro_batches(options.lines, options.micro_batch);
  fmt::print("micro-batch  positions  tokens  weight  mean loss  sum of losses / {}\n", tokens);
  std::int64_t number = 0, empty = 0;
  const std::vector<double> of_sums = example.gradient_of([&] {
    for (const MicroBatch& part : parts) {
      const Lines some = part_of(lines, part);
      const std::int64_t own = tokens_of(some);
      const double sum = example.backward(some, {.reduction = Reduction::sum, .divisor = window.divisor()});
      empty += own == 0 ? 1 : 0;
      fmt::print("{:>11}  {:>9}  {:>6}  {:.4f} {:>10} {:>19.4f}\n", ++number, part.size * longest(some), own,
                 static_cast<double>(own) / window.divisor(), text_of(example.mean_loss(some)), sum);
    }
  });
  fmt::print("all lines at once                           {:>20.4f}\n\n", at_once);

  const auto of_means = [&](bool with_empty) {
    double loss = 0;
    const std::size_t count = parts.size() - static_cast<std::size_t>(with_empty ? 0 : empty);
    const std::vector<double> found = example.gradient_of([&] {
      for (const MicroBatch& part : parts) {
        const Lines some = part_of(lines, part);
        if (tokens_of(some) == 0 && !with_empty) continue;
        loss += example.backward(some, {.divisor = static_cast<double>(count)});
      }
    });
    fmt::print("mean of {} means: loss {}{}, gradient off by {:.1f}%\n", count, text_of(loss),
               std::isnan(loss) ? "" : fmt::format(", off by {:+.2f}%", 100 * (loss / at_once - 1)),
               100 * relative_difference(found, expected));
  };
  of_means(false);
  if (empty > 0) of_means(true);
  const double off = relative_difference(of_sums, expected);
  check(off < 1e-5, "the gradients differ by {:.1e}", off);
  fmt::print("sums over {} tokens: gradient off by less than 1e-5\n", tokens);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app(
      "Losses of a GPT on lines of different lengths, normalised by tokens.\n"
      "Example: variable_length --lines 24 --micro-batch 4");
  app.option("--first", between(options.first, 1, 1e6), "the first line, counted from 1");
  app.option("--lines", between(options.lines, 1, 1024), "lines of the text, each a sample");
  app.option("--micro-batch", between(options.micro_batch, 1, 1024), "lines in a micro-batch");
  app.option("--unsorted", options.unsorted, "the lines in the order of the text, not the longest first");
  app.option("--steps", between(options.steps, 0, 10000),
             "optimizer steps before the table, each on the next 64 of the lines that follow");
  app.option("--layers", between(options.layers, 1, 48), "blocks of the model");
  app.option("--width", between(options.width, 4, 1024), "width of the model, a multiple of its 4 heads");
  app.option("--seed", options.seed, "seed of the weights");
  return app.run(argc, argv, [&] { show(options); });
}
