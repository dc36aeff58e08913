#pragma once

#include <cstddef>

namespace ringtape::simt {

/// The dynamic shared memory of one worker.
class DynamicShared {
 public:
  DynamicShared() = default;
  ~DynamicShared();
  DynamicShared(const DynamicShared&) = delete;
  DynamicShared& operator=(const DynamicShared&) = delete;

  /// Makes room for `bytes`. In check builds the memory has exactly this size, so that AddressSanitizer
  /// detects an overflow.
  void resize(std::size_t bytes);
  void* data() const { return data_; }
  /// Fills the memory with 0xff: NaN in every floating type.
  void poison();

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// The memory of the __shared__ variables of all kernels, in check builds and for kernels compiled for the
/// analysis.
struct StaticShared {
  unsigned char* begin;
  unsigned char* end;
};
StaticShared static_shared();

/// Fills the __shared__ variables of all kernels with 0xff. Check builds only.
void poison_static_shared();

}  // namespace ringtape::simt
