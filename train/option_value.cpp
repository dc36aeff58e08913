#include "train/option_value.h"

#include <fmt/ranges.h>

#include <cmath>
#include <limits>
#include <string_view>

#include "core/error.h"
#include "core/quote.h"
#include "io/parse.h"

namespace ringtape {
namespace {

std::int64_t read_whole(const std::string& text) {
  const std::optional<std::int64_t> number = parse_int64(text);
  if (number) return *number;
  const std::string_view digits = std::string_view(text).substr(text.starts_with('-') ? 1 : 0);
  const bool is_whole = !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos;
  fail("expected a whole number{}, found {}", is_whole ? " from -2^63 to 2^63 - 1" : "", quote(text));
}

int read_int(const std::string& text) {
  const std::int64_t number = read_whole(text);
  constexpr std::int64_t kLow = std::numeric_limits<int>::min(), kHigh = std::numeric_limits<int>::max();
  check(number >= kLow && number <= kHigh, "expected a whole number from {} to {}, found {}", kLow, kHigh,
        text);
  return static_cast<int>(number);
}

double read_real(const std::string& text) {
  const std::optional<double> number = parse_double(text);
  check(number.has_value(), "expected a number, found {}", quote(text));
  return *number;
}

/// Comma-separated elements, each read by `read`.
template <class T>
OptionValue list_value(const char* type, std::vector<T>& values, T (*read)(const std::string&)) {
  return {type,
          [&values, read](const std::string& text) {
            std::vector<T> found;
            for (const std::string& piece : split(text, ',')) {
              check(!piece.empty(), "expected a value on each side of a comma, found {}", quote(text));
              found.push_back(read(piece));
            }
            values = std::move(found);
          },
          [&values] { return fmt::format("{}", fmt::join(values, ",")); }};
}

}  // namespace

OptionValue option_value(bool& value) {
  return {"",
          [&value](const std::string& text) {
            check(text == "true" || text == "false", "expected true or false, found {}", quote(text));
            value = text == "true";
          },
          [&value] { return std::string(value ? "true" : "false"); }};
}

OptionValue option_value(std::int64_t& value) {
  return {"INT", [&value](const std::string& text) { value = read_whole(text); },
          [&value] { return fmt::format("{}", value); }};
}

OptionValue option_value(int& value) {
  return {"INT", [&value](const std::string& text) { value = read_int(text); },
          [&value] { return fmt::format("{}", value); }};
}

OptionValue option_value(std::uint64_t& value) {
  return {"UINT",
          [&value](const std::string& text) {
            const std::optional<std::uint64_t> number = parse_uint64(text);
            check(number.has_value(), "expected a whole number from 0 to 2^64 - 1, found {}", quote(text));
            value = *number;
          },
          [&value] { return fmt::format("{}", value); }};
}

OptionValue option_value(double& value) {
  return {"FLOAT", [&value](const std::string& text) { value = read_real(text); },
          [&value] { return fmt::format("{}", std::isnan(value) ? std::abs(value) : value); }};
}

OptionValue option_value(std::string& value) {
  return {"TEXT", [&value](const std::string& text) { value = text; }, [&value] { return value; }};
}

OptionValue option_value(std::optional<int>& value) {
  return {"INT", [&value](const std::string& text) { value = read_int(text); },
          [&value] { return value ? fmt::format("{}", *value) : std::string(); },
          [&value] { value.reset(); }};
}

OptionValue option_value(std::optional<double>& value) {
  return {"FLOAT", [&value](const std::string& text) { value = read_real(text); },
          [&value] { return value ? fmt::format("{}", *value) : std::string(); },
          [&value] { value.reset(); }};
}

OptionValue option_value(std::optional<std::int64_t>& value) {
  return {"INT", [&value](const std::string& text) { value = read_whole(text); },
          [&value] { return value ? fmt::format("{}", *value) : std::string(); },
          [&value] { value.reset(); }};
}

OptionValue option_value(std::vector<std::int64_t>& values) {
  return list_value("INT,...", values, read_whole);
}
OptionValue option_value(std::vector<double>& values) {
  return list_value("FLOAT,...", values, read_real);
}
OptionValue option_value(std::vector<std::string>& values) {
  return list_value<std::string>("TEXT,...", values, [](const std::string& text) { return text; });
}

OptionValue option_value(std::optional<Device>& device) {
  return {"TEXT",
          [&device](const std::string& text) {
            const Device found = Device::parse(text);
            // Which GPU "cuda" is depends on the local rank.
            device = text == "auto" || text == "cuda" ? std::nullopt : std::optional(found);
          },
          [&device] { return device ? to_string(*device) : std::string("auto"); }};
}

std::string list_of(const std::vector<std::string>& words) {
  if (words.size() < 2) return words.empty() ? "" : words[0];
  return fmt::format("{} or {}", fmt::join(words.begin(), words.end() - 1, ", "), words.back());
}

void fail_unknown_word(const std::string& text, const std::vector<std::string>& words) {
  fail("expected {}, found {}", list_of(words), quote(text));
}

OptionValue dtype_value(DType& dtype) {
  return named_option_value<DType>(dtype, {{"f32", DType::f32}, {"bf16", DType::bf16}, {"f16", DType::f16}});
}

OptionValue dtype_value(std::optional<DType>& dtype) {
  OptionValue option = named_option_value<std::optional<DType>>(
      dtype, {{"f32", DType::f32}, {"bf16", DType::bf16}, {"f16", DType::f16}, {"auto", std::nullopt}});
  option.write = [&dtype] { return dtype ? std::string(name_of(*dtype)) : "auto"; };
  return option;
}

OptionValue in_range(OptionValue value, double low, double high) {
  value.read = [read = std::move(value.read), low, high](const std::string& text) {
    read(text);
    for (const std::string& piece : split(text, ',')) {
      const double number = parse_double(piece).value_or(std::numeric_limits<double>::quiet_NaN());
      constexpr double kMaxDouble = std::numeric_limits<double>::max();
      const std::string range = high < kMaxDouble   ? fmt::format("a number from {} to {}", low, high)
                                : high > kMaxDouble ? fmt::format("a number of at least {}", low)
                                                    : fmt::format("a finite number of at least {}", low);
      check(number >= low && number <= high, "expected {}, found {}", range, quote(text));
    }
  };
  return value;
}

OptionValue file_value(std::string& name, const std::string& type) {
  return checked(file_or_dash_value(name, type), [](const std::string& text) {
    check(text != "-", "expected a file name, found '-'; ./- is a file of this name");
  });
}

OptionValue file_or_dash_value(std::string& name, const std::string& type) {
  OptionValue value = checked(
      option_value(name), [](const std::string& text) { check(!text.empty(), "the file name is empty"); });
  value.type = type;
  return value;
}

OptionValue format_file_value(std::string& name, const std::vector<std::string>& extensions) {
  return checked(file_value(name, fmt::format("FILE{}", fmt::join(extensions, "|FILE"))),
                 [extensions](const std::string& text) {
                   for (const std::string& extension : extensions) {
                     if (text.ends_with(extension)) return;
                   }
                   fail("expected a file name that ends with {}, found {}", list_of(extensions), quote(text));
                 });
}

OptionValue checked(OptionValue value, std::function<void(const std::string& text)> check) {
  value.read = [read = std::move(value.read), check = std::move(check)](const std::string& text) {
    check(text);
    read(text);
  };
  return value;
}

}  // namespace ringtape
