#include "trace/device_activity.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

namespace ringtape {
namespace {

void remove_all(std::string& text, std::string_view part) {
  for (std::size_t at; (at = text.find(part)) != std::string::npos;) text.erase(at, part.size());
}

/// The position of a demangled function's parameters: the first '(' outside of template arguments.
std::size_t parameters_of(std::string_view name) {
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (name[i] == '(' && depth == 0) return i;
  }
  return name.size();
}

}  // namespace

const char* name_of(DeviceWork work) {
  switch (work) {
    case DeviceWork::kernel:
      return "kernel";
    case DeviceWork::copy:
      return "copy";
    case DeviceWork::memset:
      return "memset";
  }
  return "unknown";
}

bool is_communication(const DeviceActivity& activity) {
  return activity.work == DeviceWork::kernel && activity.name.starts_with("nccl");
}

DeviceActivities resolve(DeviceRecords records, SpanClock::time_point begin, SpanClock::time_point end) {
  // The GPU's clock is matched with the host's by interpolation. Times of 0 or of another clock are far off.
  constexpr std::chrono::seconds kTolerance{1};
  DeviceActivities result;
  for (DeviceActivity& activity : records.activities) {
    const bool has_times = begin - kTolerance <= activity.begin && activity.begin <= activity.end &&
                           activity.end <= end + kTolerance;
    if (!has_times) continue;
    const auto span = records.span_of_call.find(activity.call);
    if (span != records.span_of_call.end()) activity.span = span->second;
    result.all.push_back(std::move(activity));
  }
  std::stable_sort(result.all.begin(), result.all.end(),
                   [](const DeviceActivity& a, const DeviceActivity& b) { return a.begin < b.begin; });
  const std::size_t without_times = records.activities.size() - result.all.size();
  if (records.lost + without_times > 0) {
    result.missing = fmt::format("{} records of {} were lost, and {} have no times", records.lost,
                                 records.activities.size() + records.lost, without_times);
  }
  return result;
}

std::string kernel_name(const char* symbol) {
  if (symbol == nullptr) return "kernel";
  if (!std::string_view(symbol).starts_with("_Z")) return symbol;  // a C function
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &status), std::free);
  if (status != 0) return symbol;
  std::string name = demangled.get();
  remove_all(name, "(anonymous namespace)::");
  remove_all(name, "ringtape::on_cuda::");
  name.resize(parameters_of(name));
  if (name.starts_with("void ")) name.erase(0, 5);
  return name;
}

}  // namespace ringtape
