#pragma once

#include <string>

#include "io/json.h"
#include "planner/batch.h"

namespace ringtape::planner {

/// A training configuration in DeepSpeed's format. The planner reads and writes three numbers of it:
/// train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x ranks
/// (https://www.deepspeed.ai/docs/config-json). "auto" counts as absent; other keys are kept as they are.
class BatchConfig {
 public:
  /// Throws Error that begins with `name` for text that is not a JSON object and for values that are not
  /// whole numbers of at least 1.
  BatchConfig(const std::string& text, std::string name);

  /// `request` with the numbers of the file. Without ranks the other three numbers must be known, and the
  /// ranks follow from them. Throws Error if both give a number and the two differ.
  BatchRequest add_to(BatchRequest request) const;

  /// The file's text with all three numbers. Throws Error for a plan that was rounded or leaves ranks idle:
  /// DeepSpeed accepts only exact numbers.
  std::string complete(const BatchPlan& plan) const;

 private:
  std::optional<std::int64_t> number(const char* key) const;

  std::string name_;
  Json json_;
};

}  // namespace ringtape::planner
