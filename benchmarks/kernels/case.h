#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/memory.h"
#include "core/stream.h"

/// The table of the library's kernels, each with its memory and the bytes and FLOPs that it needs at least:
/// for bench_kernels, `lens` and the tests of the analysis.
namespace ringtape::kernel_cases {

/// The amount of work.
struct Size {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  DType dtype = DType::f32;
  std::vector<std::int64_t> lengths = {};  ///< lengths of an arena's parameters, instead of rows and columns

  std::int64_t elements() const;
};

/// A prepared call of a kernel: its memory on the device, and the function that launches it.
class Setup {
 public:
  struct Memory {
    std::string name;
    std::shared_ptr<void> data;
    std::size_t bytes;
    bool written;  ///< whether it has values before the launch
  };

  explicit Setup(Device on) : device(on) {}

  /// Memory with these values.
  template <class T>
  T* input(const std::string& name, const std::vector<T>& values) {
    void* to = add(name, values.size() * sizeof(T), true);
    copy_bytes(to, device, values.data(), Device{}, values.size() * sizeof(T));
    return static_cast<T*>(to);
  }
  /// n values of a floating dtype, uniform in [0.25, 1.25).
  void* uniform(const std::string& name, std::int64_t n, DType dtype);
  float* floats(const std::string& name, std::int64_t n) {
    return static_cast<float*>(uniform(name, n, DType::f32));
  }
  /// n uninitialised elements.
  template <class T = float>
  T* output(const std::string& name, std::int64_t n) {
    return static_cast<T*>(add(name, static_cast<std::size_t>(n) * sizeof(T), false));
  }
  const std::vector<Memory>& memory() const { return memory_; }

  const Device device;
  /// Launches the work. Holds all other state that it needs.
  std::function<void(const Stream& stream)> launch;
  /// The same work as a plain loop on the CPU; empty if there is none.
  std::function<void()> loop;

 private:
  void* add(const std::string& name, std::size_t bytes, bool written);
  std::vector<Memory> memory_;
};

/// The sizes at which bench_kernels measures a kernel.
enum class Measured {
  no,
  elements,       ///< a long array
  converted,      ///< a long array, converted between two dtypes
  parts_of_rows,  ///< 512 columns of many rows
  matrix,         ///< many rows of 1024
  biases,         ///< few and many rows of 1024
  logits,         ///< few to many classes
  parameters,     ///< an arena with one parameter, with many, and with those of GPT-2
};

/// A kernel, or the few kernels of one operation: a row of the table.
struct Case {
  std::string name;  ///< its name in `lens`
  std::string does;  ///< short description; empty: only for bench_kernels
  double bytes = 0;  ///< read and written for each element, by the header's formula, at `usual`
  double flops = 0;  ///< for each element: additions, products, comparisons, conversions, functions
  std::function<void(Setup& setup, const Size& size)> prepare;
  Measured measured = Measured::no;
  std::string row = {};                       ///< its name in the results of bench_kernels, if different
  double bytes_of_row = 0;                    ///< bytes of operands with one or a few values per row
  std::int64_t usual = 65536;                 ///< default size of `lens`, in `unit`s
  std::int64_t columns = 1;                   ///< sizes in `lens` are multiples of this number
  std::int64_t most = std::int64_t{1} << 24;  ///< the largest size in `lens`
  std::string unit = "elements";
  /// The total bytes, if the bytes per element depend on the size or the device; else empty.
  std::function<double(const Size& size, bool on_gpu)> bytes_of_size = {};

  /// Bytes that must be read and written; 0 without a formula.
  double bytes_at(const Size& size, bool on_gpu) const;
  /// The same with the bytes per element that it has at `usual`.
  double bytes_by_elements(const Size& size) const;
  double flops_at(const Size& size) const { return flops * static_cast<double>(size.elements()); }
};

const std::vector<Case>& cases();

/// The parts of cases(), one for each file.
std::vector<Case> elementwise_cases();
std::vector<Case> reduction_cases();
std::vector<Case> loss_cases();
std::vector<Case> optimizer_cases();
std::vector<Case> gradient_cases();
std::vector<Case> gemm_cases();
std::vector<Case> attention_cases();
std::vector<Case> transformer_cases();

}  // namespace ringtape::kernel_cases
