#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/memory.h"
#include "core/stream.h"
#include "kernels/analysis/analysis.h"

/// The library's own kernels, each with data for the analysis. For programs that link
/// ringtape_analysed_kernels, which holds them compiled for the analysis (docs/analysis.md).
namespace ringtape::analysed {

/// The memory and the call of one launch.
class Setup {
 public:
  struct Memory {
    std::string name;
    std::shared_ptr<void> data;
    std::size_t bytes;
    bool written;  ///< before the launch
  };

  /// Memory with these values.
  template <class T>
  T* input(const std::string& name, const std::vector<T>& values) {
    void* to = add(name, values.size() * sizeof(T), true);
    std::memcpy(to, values.data(), values.size() * sizeof(T));
    return static_cast<T*>(to);
  }
  /// n floats, uniform in [0.25, 1.25).
  float* floats(const std::string& name, std::int64_t n);
  /// n uninitialised elements.
  template <class T = float>
  T* output(const std::string& name, std::int64_t n) {
    return static_cast<T*>(add(name, static_cast<std::size_t>(n) * sizeof(T), false));
  }
  const std::vector<Memory>& memory() const { return memory_; }

  /// Calls a launcher of ringtape::in_analysis.
  std::function<void(const Stream& stream)> launch;

 private:
  void* add(const std::string& name, std::size_t bytes, bool written);
  std::vector<Memory> memory_;
};

/// A kernel, or the kernels of one operation.
struct Case {
  std::string name;
  std::string does;       ///< in a few words
  std::int64_t size;      ///< the usual one, in `unit`s
  std::int64_t multiple;  ///< sizes are multiples of this
  double bytes_per_size;  ///< least bytes for each element, by the header's formula; 0: none
  std::function<void(Setup& setup, std::int64_t size)> prepare;
  std::int64_t most = std::int64_t{1} << 24;  ///< the largest size
  std::string unit = "elements";              ///< of the size
};

const std::vector<Case>& cases();
/// The case of that name, or null.
const Case* find_case(const std::string& name);

/// Runs a case under the analysis: a report for each launch. Throws Error for a size that the case does not
/// support.
std::vector<analysis::KernelReport> analyse(const Case& kernel, std::int64_t size);

/// The parts of cases().
std::vector<Case> elementwise_cases();
std::vector<Case> reduction_cases();
std::vector<Case> loss_cases();
std::vector<Case> optimizer_cases();
std::vector<Case> gradient_cases();
std::vector<Case> gemm_cases();

}  // namespace ringtape::analysed
