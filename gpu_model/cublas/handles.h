#pragma once

#include <cublas_v2.h>

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace gpu_model {

/// Opens the device's context for a new handle. The error: there is no device, it has failed, or a capture
/// forbids the allocations of the library.
cublasStatus_t open_context(int device);

/// Opaque objects of cuBLAS by handle, so that a null or destroyed handle is detected before it is used.
template <class Object>
class Handles {
 public:
  template <class... Values>
  Object* make(Values&&... values) {
    auto made = std::make_unique<Object>(Object{std::forward<Values>(values)...});
    const std::lock_guard lock(mutex_);
    Object* const handle = made.get();
    live_.emplace(handle, std::move(made));
    return handle;
  }
  bool contains(const Object* handle) const {
    const std::lock_guard lock(mutex_);
    return live_.contains(handle);
  }
  /// False if there is no such object.
  bool destroy(const Object* handle) {
    const std::lock_guard lock(mutex_);
    return live_.erase(handle) == 1;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<const Object*, std::unique_ptr<Object>> live_;
};

}  // namespace gpu_model
