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
  double top_p = 1;        ///< only the fewest most likely tokens of this total probability (Holtzman et al.,
                           ///< "The curious case of neural text degeneration", 2020); 1: all
  std::uint64_t seed = 0;
};

/// Draws tokens. Draw number n with a seed always uses the same random number of Philox (core/philox.h).
class TokenSampler {
 public:
  /// Throws Error for a temperature that is negative or not finite, a negative top_k, or a top_p outside
  /// (0, 1].
  explicit TokenSampler(const SamplingOptions& options);
  /// A token, given the logits of all tokens. top_k is applied before top_p. Of equal logits the first counts
  /// as the most likely. A logit of -infinity excludes its token. Throws Error for a logit that is NaN or
  /// +infinity, and if no token is left.
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
  std::int64_t tokens = 100;  ///< largest number of new tokens
  SamplingOptions sampling;
  std::int64_t vocabulary = 0;  ///< only tokens below this number, for a padded vocabulary; 0: all
};

/// Throws Error for a prompt without tokens, or one that is longer than the model's context.
void check_prompt(const GPT& model, const std::vector<std::int32_t>& prompt);

/// Continues a prompt: calls `emit` for each new token, until `emit` returns false or `options.tokens` tokens
/// have been generated. When the text outgrows the context, generation goes on from its last context / 2
/// tokens, as if the text began with them. Throws Error as check_prompt() and TokenSampler do, in training
/// mode, and for a token outside the vocabulary.
void generate(GPT& model, const std::vector<std::int32_t>& prompt, const GenerationOptions& options,
              const std::function<bool(std::int32_t token)>& emit);

}  // namespace ringtape
