// Sequences of different lengths: ignored padding, and a mean loss over tokens rather than over
// micro-batches.
#include <cmath>
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
const std::vector<std::int64_t> kLengths = {8, 7, 2, 1, 0, 0};  // of six sequences
constexpr std::int64_t kSequences = 6, kPerMicroBatch = 2;

/// Six sequences, padded to one length, and a model that predicts a token from each position.
struct Example {
  Tensor positions, targets;
  Linear model;
  ParameterArena arena;

  Example()
      : positions((manual_seed(0), randn({kSequences * kLength, kFeatures}))),
        targets(padded_targets()),
        model(kFeatures, kVocabulary),
        arena(model, Device()) {}

  static Tensor padded_targets() {
    std::vector<std::int64_t> values;
    for (std::int64_t s = 0; s < kSequences; ++s) {
      for (std::int64_t i = 0; i < kLength; ++i) {
        values.push_back(i < kLengths[static_cast<std::size_t>(s)] ? (7 * s + 3 * i) % kVocabulary : kPad);
      }
    }
    return from_vector(values, {kSequences * kLength});
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

std::int64_t tokens_of(const MicroBatch& sequences) {
  std::int64_t tokens = 0;
  for (std::int64_t s = sequences.first; s < sequences.first + sequences.size; ++s) {
    tokens += kLengths[static_cast<std::size_t>(s)];
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

void show() {
  Example example;
  const MicroBatch all = {0, kSequences};
  const std::vector<MicroBatch> pieces = cut_into_micro_batches(kSequences, kPerMicroBatch);
  const std::int64_t tokens = tokens_of(all);
  fmt::print("{} sequences padded to {} positions: {} positions, {} non-ignored tokens\n", kSequences,
             kLength, kSequences * kLength, tokens);
  const double at_once = example.backward(all, {});
  const std::vector<double> expected = example.arena.gradients().to_doubles();

  AccumulationWindow window;
  window.begin(tokens);
  fmt::print("\nmicro-batch  tokens  weight   mean loss  sum of losses / {}\n", tokens);
  const auto print_pieces = [&](const std::vector<MicroBatch>& some) {
    for (const MicroBatch& piece : some) {
      const double mean = Example().backward(piece, {});
      const double sum = example.backward(piece, {.reduction = Reduction::sum, .divisor = window.divisor()});
      fmt::print("{:>11}  {:>6}  {:.4f} {:>11} {:>18.4f}\n", piece.first / kPerMicroBatch + 1,
                 tokens_of(piece), static_cast<double>(tokens_of(piece)) / window.divisor(), text_of(mean),
                 sum);
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
  of_means(2);
  of_means(3);
  const double off = relative_difference(by_tokens, expected);
  check(off < 1e-6, "the gradients differ by {:.1e}", off);
  fmt::print("sums over {} tokens: gradient off by less than 1e-6\n", tokens);
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app("Losses of padded sequences, normalised by tokens.\nExample: variable_length");
  return app.run(argc, argv, show);
}
