#include "train/option_types.h"

#include <utility>

#include "core/error.h"
#include "core/quote.h"
#include "io/parse.h"
#include "train/recorded_steps.h"

namespace ringtape {
namespace {

/// The same value; read() calls `check_value` with the text after it has set the variable.
OptionValue checked_after(OptionValue value, std::function<void(const std::string& text)> check_value) {
  value.read = [read = std::move(value.read), check_value = std::move(check_value)](const std::string& text) {
    read(text);
    check_value(text);
  };
  return value;
}

void check_f32(double value, const std::string& text) {
  const bool fits = value <= std::numeric_limits<float>::max() && static_cast<float>(value) > 0;
  check(value == 0 || fits, "expected 0 or a number from 1.4e-45 to 3.4e38, found {}", quote(text));
}

}  // namespace

OptionValue f32_value(double& value) {
  return checked_after(option_value(value), [&value](const std::string& text) { check_f32(value, text); });
}

OptionValue f32_value(std::optional<double>& value) {
  return checked_after(option_value(value), [&value](const std::string& text) { check_f32(*value, text); });
}

OptionValue below_one_value(std::optional<double>& value) {
  return checked_after(option_value(value), [&value](const std::string& text) {
    check(*value >= 0 && *value < 1, "expected a number from 0 to below 1, found {}", quote(text));
  });
}

OptionValue optimizer_value(const OptimizerKind*& kind) {
  std::vector<std::pair<std::string, const OptimizerKind*>> names;
  for (const OptimizerKind& each : optimizers()) names.emplace_back(each.name, &each);
  return named_option_value(kind, names);
}

OptionValue gemm_value(std::optional<GemmBackend>& backend) {
  return named_option_value<std::optional<GemmBackend>>(
      backend, {{"default", std::nullopt}, {"own", GemmBackend::own}, {"vendor", GemmBackend::vendor}});
}

OptionValue compression_value(std::optional<DType>& dtype) {
  OptionValue option = named_option_value<std::optional<DType>>(
      dtype, {{"none", std::nullopt}, {"bf16", DType::bf16}, {"f16", DType::f16}});
  option.write = [&dtype] { return dtype ? std::string(name_of(*dtype)) : "none"; };
  return option;
}

OptionValue step_range_value(std::optional<StepRange>& range) {
  return {"A:B",
          [&range](const std::string& text) {
            range = text.empty() ? std::nullopt : std::optional(parse_step_range(text));
          },
          [&range] { return range ? fmt::format("{}:{}", range->first, range->last) : std::string(); }};
}

OptionValue option_value(ScheduleKind& kind) {
  return named_option_value<ScheduleKind>(kind, {{"constant", ScheduleKind::constant},
                                                 {"linear", ScheduleKind::linear},
                                                 {"cosine", ScheduleKind::cosine},
                                                 {"polynomial", ScheduleKind::polynomial},
                                                 {"step", ScheduleKind::step},
                                                 {"one-cycle", ScheduleKind::one_cycle}});
}

OptionValue option_value(schedule::Warmup& shape) {
  return named_option_value<schedule::Warmup>(shape, {{"linear", schedule::Warmup::linear},
                                                      {"quadratic", schedule::Warmup::quadratic},
                                                      {"constant", schedule::Warmup::constant}});
}

OptionValue option_value(BatchScaling& rule) {
  return named_option_value<BatchScaling>(
      rule,
      {{"none", BatchScaling::none}, {"linear", BatchScaling::linear}, {"sqrt", BatchScaling::square_root}});
}

OptionValue option_value(ProfileColumn& column) {
  return named_option_value(column, profile_columns());
}

OptionValue warmup_value(std::optional<std::int64_t>& steps) {
  return {"INT|auto",
          [&steps](const std::string& text) {
            if (text == "auto") {
              steps = std::nullopt;
              return;
            }
            constexpr std::uint64_t kMaxSteps = 999'999'999'999'999;
            const std::optional<std::uint64_t> number = parse_uint64(text);
            check(number && *number <= kMaxSteps, "expected a number of steps or auto, found {}",
                  quote(text));
            steps = static_cast<std::int64_t>(*number);
          },
          [&steps] { return steps ? fmt::format("{}", *steps) : std::string("auto"); }};
}

OptionValue option_value(std::optional<SlowLink>& link) {
  return {"LATENCY_US,MBYTES_PER_S",
          [&link](const std::string& text) {
            link = text.empty() ? std::nullopt : std::optional(parse_slow_link(text));
          },
          [&link] {
            // 15 digits: with 16, 100 us stored in seconds would show a rounding error.
            return link ? fmt::format("{:.15g},{:.15g}", link->latency.count() * 1e6,
                                      link->bytes_per_second * 1e-6)
                        : std::string();
          }};
}

}  // namespace ringtape
