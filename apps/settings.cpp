#include "apps/settings.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>

#include "core/checksum.h"
#include "core/error.h"

namespace ringtape::apps {
namespace {

const std::set<std::string> kWithoutEffect = {
    "--help",          "--graph",        "--device",
    "--gemm",          "--micro-batch",  "--eval-batch-size",
    "--eval-only",     "--data",         "--load",
    "--save",          "--epochs",       "--max-steps",
    "--recipe",        "--every",        "--print-schedule",
    "--metrics",       "--print-tape",   "--checkpoint",
    "--keep",          "--resume",       "--recompute",
    "--memory-report", "--comm-timeout", "--bucket-mib",
    "--no-overlap",    "--show-launch",  "--sync-each-micro-batch",
    "--slow-link",     "--timeline",     "--profile",
    "--profile-steps", "--sort",         "--zero",
    "--save-tape",     "--report",
};

/// One text for each number, however it was written: 1e-3 and 0.001, 08 and 8. Whole numbers stay text: a
/// seed may have more digits than a double.
std::string plain(const std::string& text) {
  if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos) {
    return text.substr(std::min(text.find_first_not_of('0'), text.size() - 1));
  }
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const bool is_fraction = text.find_first_of(".eE") != std::string::npos;
  return is_fraction && error == std::errc() && stop == end ? fmt::format("{}", number) : text;
}

std::string value_of(const CLI::Option& option) {
  if (option.count() > 0) {
    std::vector<std::string> values;
    for (const std::string& result : option.results()) values.push_back(plain(result));
    return fmt::format("{}", fmt::join(values, ","));
  }
  const std::string text = option.get_default_str();
  return plain(text.starts_with('[') ? text.substr(1, text.size() - 2) : text);  // [...]: a list
}

}  // namespace

TrainingSettings settings_of(const CLI::App& app) {
  TrainingSettings settings;
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    const std::string value = value_of(*option);
    if (!kWithoutEffect.contains(name) && !value.empty()) settings[name] = value;
  }
  return settings;
}

std::vector<std::pair<std::string, std::string>> given_flags(const CLI::App& app) {
  std::vector<std::pair<std::string, std::string>> flags;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0) flags.emplace_back(option->get_name(), value_of(*option));
  }
  return flags;
}

std::string describe_program(const CLI::App& app) {
  std::string text = fmt::format("a program with the CRC-32 {:08x}\n", crc32_of_file("/proc/self/exe"));
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name(), value = value_of(*option);
    if (name != "--device" && name != "--data" && !value.empty()) text += fmt::format("{} {}\n", name, value);
  }
  return text;
}

std::string describe_data(const Dataset& data) {
  constexpr std::int64_t kPiece = 1024;  // samples
  std::vector<std::uint8_t> features(kPiece * data.features().bytes());
  std::vector<std::uint8_t> targets(kPiece * data.target().bytes());
  std::uint32_t checksum = 0;
  for (std::int64_t first = 0; first < data.size(); first += kPiece) {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(std::min(kPiece, data.size() - first)));
    std::iota(indices.begin(), indices.end(), first);
    data.read(indices, features.data(), targets.data());
    checksum = crc32(checksum, features.data(), indices.size() * data.features().bytes());
    checksum = crc32(checksum, targets.data(), indices.size() * data.target().bytes());
  }
  return fmt::format("{} samples with the CRC-32 {:08x}", data.size(), checksum);
}

}  // namespace ringtape::apps
