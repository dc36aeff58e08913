#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "train/option_value.h"
#include "train/options.h"

/// Option values with types or ranges that only a trainer's options have; train/option_value.h has the common
/// ones.
namespace ringtape {

/// A finite number of at least 0.
template <class T>
OptionValue finite_value(T& value) {
  return in_range(option_value(value), 0, std::numeric_limits<double>::max());
}
/// 0, or a number whose value in f32 is above 0 and finite.
OptionValue f32_value(double& value);
OptionValue f32_value(std::optional<double>& value);
/// A number in [0, 1).
OptionValue below_one_value(std::optional<double>& value);
/// The name of an optimizer in the registry.
OptionValue optimizer_value(const OptimizerKind*& kind);
/// "default" (std::nullopt), "own" or "vendor".
OptionValue gemm_value(std::optional<GemmBackend>& backend);
/// "bf16", "f16", or "none" (std::nullopt).
OptionValue compression_value(std::optional<DType>& dtype);
/// "A:B", or the empty text (std::nullopt).
OptionValue step_range_value(std::optional<StepRange>& range);

OptionValue option_value(ScheduleKind& kind);
OptionValue option_value(schedule::Warmup& shape);
OptionValue option_value(BatchScaling& rule);
OptionValue option_value(ProfileColumn& column);
/// "LATENCY_US,MBYTES_PER_S", or the empty text (std::nullopt).
OptionValue option_value(std::optional<SlowLink>& link);

/// A number of steps, or "auto" (std::nullopt).
OptionValue warmup_value(std::optional<std::int64_t>& steps);

}  // namespace ringtape
