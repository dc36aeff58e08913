#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "core/shape.h"

namespace ringtape {

struct AutogradMeta;  // the tape's data about a tensor: autograd/tape.h

/// Memory of one or more tensors. `data` is null while the memory is released (ZeRO stage 3). `version`
/// counts in-place changes, by which backward detects that a saved value has been overwritten.
struct Storage {
  std::shared_ptr<void> data;
  std::size_t bytes = 0;
  Device device;
  std::uint64_t version = 0;
  /// While an all-gather writes other ranks' values to this memory, `data` is null and this is set: it waits
  /// for the all-gather and restores `data`. Otherwise null.
  std::function<void()> arrive;
};

/// A handle to a dense, row-major array. Copying a Tensor copies the handle: both refer to the same elements.
/// A default-constructed Tensor is undefined: it has no elements, memory, dtype or device. Operations are
/// free functions in autograd/ops.h.
class Tensor {
 public:
  Tensor() = default;
  /// The elements of `storage` from number `offset` on, counted in elements of `dtype`. Throws Error if they
  /// are not all inside of the storage.
  Tensor(std::shared_ptr<Storage> storage, Shape shape, DType dtype, std::int64_t offset = 0);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  std::int64_t size(int dim) const { return shape_[dim]; }
  int dims() const { return shape_.dims(); }
  std::int64_t elements() const { return defined() ? shape_.elements() : 0; }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype_); }
  DType dtype() const { return dtype_; }
  Device device() const;

  /// Address of the first element, on the tensor's device. `data<T>()` checks that T is the tensor's dtype.
  /// Throws Error for an undefined tensor, and for a parameter that ZeRO stage 3 has released.
  void* raw() const;
  template <class T>
  T* data() const {
    expect_dtype(dtype_of<T>);
    return static_cast<T*>(raw());
  }

  /// The elements from number `offset_elements` on, with a shape that may have fewer elements than this
  /// tensor. Shares the storage and is not recorded on the tape: for tensors with gradients use view() of
  /// autograd/ops.h. Throws Error for an undefined tensor, and for elements outside of this one.
  Tensor alias(Shape shape, std::int64_t offset_elements = 0) const;
  /// The same elements, detached from the tape: no gradient flows through the result.
  Tensor detach() const;

  /// Copies the elements to a host vector; T must be the dtype. Waits for the device.
  template <class T>
  std::vector<T> to_vector() const {
    expect_dtype(dtype_of<T>);
    std::vector<T> values(static_cast<std::size_t>(elements()));
    copy_to_host(values.data());
    return values;
  }
  /// The elements as double, from any dtype, for tests and printing. Waits for the device.
  std::vector<double> to_doubles() const;
  /// The only element of a one-element tensor, as double; a NaN without a sign. Waits for the device.
  double item() const;

  /// Overwrites the elements with those of `source` (same shape and dtype, any device; the memory of the two
  /// must not overlap). Not recorded on the tape: gradients still flow to the tensors that the old elements
  /// were computed from.
  void copy_from(const Tensor& source);

  const std::shared_ptr<Storage>& storage() const { return storage_; }
  std::int64_t offset() const { return offset_; }
  /// Call it after every in-place change of the elements.
  void bump_version() const { ++storage_->version; }

  // ---- autograd (defined in autograd/tape.cpp) ----
  /// True when a gradient will be computed for this tensor.
  bool requires_grad() const;
  /// Makes a tensor that no recorded operation produced a leaf with (or without) a gradient; returns the
  /// tensor itself. Throws Error for the result of a recorded operation, for a gradient of a dtype other than
  /// f32 and f64, and for a gradient of a parameter that its ParameterArena holds as frozen.
  Tensor& set_requires_grad(bool value);
  /// The gradient accumulated so far; undefined when there is none.
  Tensor grad() const;
  /// Runs the current tape in reverse from this tensor of one element, adds to the gradients of the leaves,
  /// and clears the tape. Throws Error as Tape::backward() does.
  void backward() const;

  std::shared_ptr<AutogradMeta> autograd;

 private:
  void expect_dtype(DType dtype) const;
  void copy_to_host(void* to) const;

  std::shared_ptr<Storage> storage_;
  Shape shape_;
  std::int64_t offset_ = 0;  // in elements
  DType dtype_ = DType::f32;
};

/// A tensor whose elements are not initialised.
Tensor empty(Shape shape, DType dtype = DType::f32, Device device = {});
/// A tensor with these elements, row-major. Throws Error that begins with `operation` if the shape has
/// another number of elements.
template <class T>
Tensor from_span(std::span<const T> values, Shape shape, Device device = {},
                 const char* operation = "from_span");
template <class T>
Tensor from_vector(const std::vector<T>& values, Shape shape, Device device = {}) {
  return from_span(std::span<const T>(values), shape, device, "from_vector");
}
/// A copy on `device`; the tensor itself if it is already there. Not recorded on the tape.
Tensor copy_to(const Tensor& tensor, Device device);

/// The elements in a format like PyTorch's: rows in brackets, four decimals (scientific if a nonzero element
/// is below 1e-4 or at least 1e8), then shape, dtype and device. Of a tensor with more than 1000 elements
/// long dimensions are shortened. Elements are converted to f64, which is exact for i64 up to 2^53.
std::string to_string(const Tensor& tensor);
/// "f32[64, 10] on cpu", for error texts.
std::string describe(const Tensor& tensor);

}  // namespace ringtape
