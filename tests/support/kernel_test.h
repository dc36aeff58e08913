#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <type_traits>
#include <vector>

#include "core/half.h"
#include "core/memory.h"
#include "core/philox.h"
#include "core/stream.h"
#include "tests/support/catch.h"
#include "tests/support/thread_orders.h"

// Helpers for kernel tests: devices and thread orders to run on, arrays on a device, conversions to and from
// double, random values, comparison.
namespace ringtape::test {

/// Calls body(device, stream) on the CPU under each order of a block's threads, and on the first GPU where
/// there is one and T exists there.
template <class T = float, class Body>
void on_every_device(const Body& body) {
  for_each_thread_order([&] { body(Device{}, Stream::current({})); });
  if (cuda_device_count() == 0 || std::is_same_v<T, double>) return;
  INFO("cuda:0");
  const Device gpu{DeviceType::cuda, 0};
  body(gpu, Stream::current(gpu));
}

template <class T>
double to_double(T value) {
  if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>) {
    return on_cpu::to_float(value);
  } else {
    return static_cast<double>(value);
  }
}

template <class T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return on_cpu::to_bfloat16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, float16>) {
    return on_cpu::to_float16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

/// Half a unit in the last place of T, relative: the error of one rounding.
template <class T>
constexpr double rounding() {
  if constexpr (std::is_same_v<T, bfloat16>) return 0x1p-8;
  if constexpr (std::is_same_v<T, float16>) return 0x1p-11;
  if constexpr (std::is_same_v<T, float>) return 0x1p-24;
  return 0x1p-53;
}

template <class T>
std::vector<T> convert(const std::vector<double>& values) {
  std::vector<T> result;
  for (double value : values) result.push_back(from_double<T>(value));
  return result;
}

template <class T>
std::vector<double> to_doubles(const std::vector<T>& values) {
  std::vector<double> result;
  for (T value : values) result.push_back(to_double(value));
  return result;
}

/// n values uniform in [low, high) that T holds exactly.
template <class T>
std::vector<T> random_values(std::int64_t n, std::uint64_t seed, double low = -2, double high = 2) {
  std::vector<T> result;
  for (std::int64_t i = 0; i < n; ++i) {
    const float u = on_cpu::uniform_float(on_cpu::philox4x32_10(seed, static_cast<std::uint64_t>(i), 0).x);
    result.push_back(from_double<T>(low + (high - low) * u));
  }
  return result;
}

/// Largest error as a multiple of the allowed error: relative * |expected| + absolute. 0 where all are equal
/// (NaN to NaN, and infinities); infinite where the lengths or the places of NaN and infinity differ.
inline double worst_error(const std::vector<double>& actual, const std::vector<double>& expected,
                          double relative, double absolute = 0) {
  if (actual.size() != expected.size()) return INFINITY;
  double worst = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] == expected[i] || (std::isnan(actual[i]) && std::isnan(expected[i]))) continue;
    const double error = std::abs(actual[i] - expected[i]) / (relative * std::abs(expected[i]) + absolute);
    if (!(error <= worst)) worst = std::isnan(error) ? INFINITY : error;
  }
  return worst;
}

/// n elements on a device.
template <class T>
class DeviceArray {
 public:
  DeviceArray(Device device, const std::vector<T>& values)
      : device_(device), n_(values.size()), memory_(allocate(device, n_ * sizeof(T))) {
    copy_bytes(data(), device_, values.data(), Device{}, n_ * sizeof(T));
  }
  DeviceArray(Device device, std::initializer_list<T> values) : DeviceArray(device, std::vector<T>(values)) {}
  DeviceArray(Device device, std::int64_t n, T value = T{})
      : DeviceArray(device, std::vector<T>(static_cast<std::size_t>(n), value)) {}

  T* data() const { return static_cast<T*>(memory_.get()); }
  std::vector<T> host() const {
    std::vector<T> values(n_);
    copy_bytes(values.data(), Device{}, data(), device_, n_ * sizeof(T));
    return values;
  }
  std::vector<double> doubles() const { return to_doubles(host()); }

 private:
  Device device_;
  std::size_t n_;
  std::shared_ptr<void> memory_;
};

}  // namespace ringtape::test
