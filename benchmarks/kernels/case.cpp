#include "benchmarks/kernels/case.h"

#include <numeric>

#include "kernels/random.h"

namespace ringtape::kernel_cases {

std::int64_t Size::elements() const {
  return lengths.empty() ? rows * columns : std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

void* Setup::uniform(const std::string& name, std::int64_t n, DType dtype) {
  void* to = add(name, static_cast<std::size_t>(n) * size_of(dtype), true);
  ringtape::uniform(Stream::current(device), dtype, to, n, 0.25f, 1.25f, memory_.size(), 0);
  return to;
}

void* Setup::add(const std::string& name, std::size_t bytes, bool written) {
  memory_.push_back({name, allocate(device, bytes), bytes, written});
  return memory_.back().data.get();
}

double Case::bytes_at(const Size& size, bool on_gpu) const {
  return bytes_of_size ? bytes_of_size(size, on_gpu) : bytes_by_elements(size);
}

double Case::bytes_by_elements(const Size& size) const {
  const double scale = static_cast<double>(size_of(size.dtype)) / sizeof(float);
  return bytes * scale * static_cast<double>(size.elements()) + bytes_of_row * static_cast<double>(size.rows);
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> result;
    for (const auto& part : {elementwise_cases(), reduction_cases(), loss_cases(), optimizer_cases(),
                             gradient_cases(), gemm_cases(), attention_cases(), transformer_cases()}) {
      result.insert(result.end(), part.begin(), part.end());
    }
    return result;
  }();
  return all;
}

}  // namespace ringtape::kernel_cases
