#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "nn/gpt.h"

namespace ringtape {

/// How the next token is drawn from the logits.
struct SamplingOptions {
  double temperature = 1;  ///< divides the logits; 0: the most likely token (greedy)
  std::int64_t top_k = 0;  ///< only the k most likely tokens; 0: all
  double top_p = 1;  ///< only the most likely tokens whose probabilities reach this sum (Holtzman et al.,
                     ///< "The curious case of neural text degeneration", 2020)
  std::uint64_t seed = 0;
};

/// Draws tokens. The draw number n of a seed is always from the same random number, which is core/philox.h's.
class TokenSampler {
 public:
  /// Throws Error for a temperature that is negative or not finite, a negative top_k, and a top_p outside
  /// (0, 1].
  explicit TokenSampler(const SamplingOptions& options);
  /// A token, given the logits of all. top_k is applied before top_p. Of equal logits the first counts as the
  /// likeliest. Throws Error for a logit that is NaN or infinity, and where all are -infinity,
  /// which is the logit of a token that must not be drawn.
  std::int32_t operator()(std::span<const float> logits);

 private:
  template <class Weight, class Likelier>
  double keep_likeliest(double wanted, const Weight& weight, const Likelier& likelier);

  SamplingOptions options_;
  std::uint64_t draws_ = 0;
  std::vector<std::int32_t> order_;  // the tokens that may be drawn
};

/// How many tokens to generate, and how each is drawn.
struct GenerationOptions {
  std::int64_t tokens = 100;  ///< at most this many new ones
  SamplingOptions sampling;
  std::int64_t vocabulary = 0;  ///< only tokens below this one, for a model with more rows; 0: all
};

/// Throws Error for a prompt without tokens, and one that does not fit into the model's context.
void check_prompt(const GPT& model, const std::vector<std::int32_t>& prompt);

/// Continues a prompt: calls `emit` for every new token, until `emit` returns false or the number is reached.
/// A text that outgrows the context goes on with its last context / 2 tokens, as if it began with them.
/// Throws Error like check_prompt() and TokenSampler, in training mode, and for a token outside of the
/// vocabulary.
void generate(GPT& model, const std::vector<std::int32_t>& prompt, const GenerationOptions& options,
              const std::function<bool(std::int32_t token)>& emit);

}  // namespace ringtape
