// Sequences of different lengths: ignored padding, and a mean loss over tokens rather than over
// micro-batches.
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/accumulation.h"

namespace {

using namespace ringtape;

constexpr std::int64_t kLength = 8, kFeatures = 16, kVocabulary = 32, kPad = -100;
constexpr std::int64_t kPerMicroBatch = 2;
using Lengths = std::vector<std::int64_t>;  // of the sequences

/// Sequences, padded to one length, and a model that predicts a token from each position.
struct Example {
  Tensor positions, targets;
  Linear model;
  ParameterArena arena;

  explicit Example(const Lengths& lengths)
      : positions((manual_seed(0), randn({std::ssize(lengths) * kLength, kFeatures}))),
        targets(padded_targets(lengths)),
        model(kFeatures, kVocabulary),
        arena(model, Device()) {}

  static Tensor padded_targets(const Lengths& lengths) {
    std::vector<std::int64_t> values;
    for (std::int64_t s = 0; s < std::ssize(lengths); ++s) {
      for (std::int64_t i = 0; i < kLength; ++i) {
        values.push_back(i < lengths[static_cast<std::size_t>(s)] ? (7 * s + 3 * i) % kVocabulary : kPad);
      }
    }
    return from_vector(values, {std::ssize(lengths) * kLength});
  }

  /// The loss of some sequences; adds its gradient to the earlier ones.
  double backward(const MicroBatch& sequences, const CrossEntropyOptions& options) {
    const std::int64_t first = sequences.first * kLength, count = sequences.size * kLength;
    const Tensor logits = model(positions.alias({count, kFeatures}, first * kFeatures));
    const Tensor loss = cross_entropy(logits, targets.alias({count}, first), options);
    loss.backward();
    return loss.item();
  }
};

std::int64_t tokens_of(const Lengths& lengths, const MicroBatch& sequences) {
  std::int64_t tokens = 0;
  for (std::int64_t s = sequences.first; s < sequences.first + sequences.size; ++s) {
    tokens += lengths[static_cast<std::size_t>(s)];
  }
  return tokens;
}

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

void show(const Lengths& lengths) {
  Example example(lengths);
  const std::int64_t sequences = std::ssize(lengths);
  const MicroBatch all = {0, sequences};
  const std::vector<MicroBatch> pieces = cut_into_micro_batches(sequences, kPerMicroBatch);
  const std::int64_t tokens = tokens_of(lengths, all);
  check(tokens > 0, "--lengths: at least one sequence must have a token");
  fmt::print("{} sequences padded to {} positions: {} positions, {} non-ignored tokens\n", sequences, kLength,
             sequences * kLength, tokens);
  const double at_once = example.backward(all, {});
  const std::vector<double> expected = example.arena.gradients().to_doubles();

  AccumulationWindow window;
  window.begin(tokens);
  fmt::print("\nmicro-batch  tokens  weight   mean loss  sum of losses / {}\n", tokens);
  const auto print_pieces = [&](const std::vector<MicroBatch>& some) {
    for (const MicroBatch& piece : some) {
      const double mean = Example(lengths).backward(piece, {});
      const double sum = example.backward(piece, {.reduction = Reduction::sum, .divisor = window.divisor()});
      fmt::print("{:>11}  {:>6}  {:.4f} {:>11} {:>18.4f}\n", piece.first / kPerMicroBatch + 1,
                 tokens_of(lengths, piece), static_cast<double>(tokens_of(lengths, piece)) / window.divisor(),
                 text_of(mean), sum);
    }
  };
  example.arena.zero_grad();
  print_pieces(pieces);
  const std::vector<double> by_tokens = example.arena.gradients().to_doubles();
  fmt::print("the batch at once                    {:>18.4f}\n\n", at_once);

  const auto of_means = [&](std::size_t count) {
    example.arena.zero_grad();
    double loss = 0;
    for (std::size_t i = 0; i < count; ++i) {
      loss += example.backward(pieces[i], {.divisor = static_cast<double>(count)});
    }
    fmt::print("mean of the means of micro-batches 1 to {}: loss {}, gradient off by {:.1f}%\n", count,
               text_of(loss), 100 * relative_difference(example.arena.gradients().to_doubles(), expected));
  };
  for (std::size_t count = 2; count <= pieces.size(); ++count) of_means(count);
  const double off = relative_difference(by_tokens, expected);
  check(off < 1e-6, "the gradients differ by {:.1e}", off);
  fmt::print("sums over {} tokens: gradient off by less than 1e-6\n", tokens);
}

}  // namespace

int main(int argc, char** argv) {
  Lengths lengths = {8, 7, 2, 1, 0, 0};
  CommandLine app(
      "Losses of padded sequences, normalised by tokens.\nExample: variable_length --lengths 5,4,5,4");
  app.option("--lengths", lengths, "tokens of each sequence, 0 to 8; two sequences are a micro-batch");
  return app.run(argc, argv, [&] {
    for (const std::int64_t length : lengths) {
      check(length >= 0 && length <= kLength, "--lengths: expected 0 to {} tokens, found {}", kLength,
            length);
    }
    show(lengths);
  });
}
