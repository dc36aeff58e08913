#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"

/// Conversion of typed options to and from text: for flags, checkpoints, and the comparison of ranks.
namespace ringtape {

/// The conversions of a variable from and to text. The variable must outlive them.
struct OptionValue {
  std::string type;  ///< for --help: "INT", "FLOAT", "TEXT"; empty for a switch without a value
  /// Sets the variable. Throws Error that states the expected form if `text` is not a value of the type.
  std::function<void(const std::string& text)> read;
  /// The canonical text of the value; empty if the variable has none.
  std::function<std::string()> write;
  /// Resets the variable to no value; empty for a variable that always has one.
  std::function<void()> clear{};
  /// All accepted words, for --help; empty if the value is not one of a list of words.
  std::vector<std::string> words{};
};

OptionValue option_value(bool& value);  ///< "true" or "false"
OptionValue option_value(int& value);
OptionValue option_value(std::int64_t& value);
OptionValue option_value(std::uint64_t& value);
OptionValue option_value(double& value);
OptionValue option_value(std::string& value);
OptionValue option_value(std::optional<int>& value);
OptionValue option_value(std::optional<double>& value);
OptionValue option_value(std::optional<std::int64_t>& value);
/// Comma-separated numbers or texts.
OptionValue option_value(std::vector<std::int64_t>& values);
OptionValue option_value(std::vector<double>& values);
OptionValue option_value(std::vector<std::string>& values);
/// "cpu", "cuda:N", or "auto" (std::nullopt); "cuda" is "auto" that throws Error if there is no GPU.
OptionValue option_value(std::optional<Device>& device);
/// The help text of a program's --device.
inline constexpr const char* kDeviceHelp = "auto, cpu, cuda or cuda:N; auto: the first GPU, else cpu";

/// The words as in a sentence: "a, b or c".
std::string list_of(const std::vector<std::string>& words);
/// Throws Error that `text` is not one of the words.
[[noreturn]] void fail_unknown_word(const std::string& text, const std::vector<std::string>& words);

/// One of several named values, such as enumerators.
template <class T>
OptionValue named_option_value(T& value, std::vector<std::pair<std::string, T>> names) {
  std::vector<std::string> words;
  for (const auto& [name, named] : names) words.push_back(name);
  const auto read = [&value, names, words](const std::string& text) {
    for (const auto& [name, named] : names) {
      if (name != text) continue;
      value = named;
      return;
    }
    fail_unknown_word(text, words);
  };
  const auto write = [&value, names]() -> std::string {
    for (const auto& [name, named] : names) {
      if (named == value) return name;
    }
    return "";
  };
  return {"TEXT", read, write, {}, words};
}

/// "f32", "bf16" or "f16".
OptionValue dtype_value(DType& dtype);
/// The same, or "auto" (std::nullopt).
OptionValue dtype_value(std::optional<DType>& dtype);

/// The same value, restricted to `low` to `high`, inclusive; for a list, each of its numbers.
OptionValue in_range(OptionValue value, double low, double high);
/// A whole number from 1 to 2^40.
template <class T>
OptionValue positive(T& value) {
  return in_range(option_value(value), 1, 1LL << 40);
}
/// A whole number from 0 to 2^40.
template <class T>
OptionValue not_negative(T& value) {
  return in_range(option_value(value), 0, 1LL << 40);
}
/// The same value; read() first calls `check` with the text.
OptionValue checked(OptionValue value, std::function<void(const std::string& text)> check);
/// The name of a file or folder, which is neither empty nor "-"; `type` is for --help.
OptionValue file_value(std::string& name, const std::string& type = "FILE");
/// The name of a file that ends with one of these extensions, which is its format.
OptionValue format_file_value(std::string& name, const std::vector<std::string>& extensions);
/// As file_value(), but the name may be "-", for standard input or output.
OptionValue file_or_dash_value(std::string& name, const std::string& type = "FILE");

}  // namespace ringtape
