#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace ringtape {

/// Sizes of a tensor's dimensions, outermost first; 0 to 4 dimensions, stored inline. Without dimensions it
/// is a scalar, which has one element. A size may be 0.
class Shape {
 public:
  static constexpr int kMaxDims = 4;

  Shape() = default;
  /// Throws Error for more than 4 dimensions, a negative size, or more than 2^63 - 1 elements.
  Shape(std::initializer_list<std::int64_t> sizes);
  Shape(const std::int64_t* first, const std::int64_t* last);

  int dims() const { return dims_; }
  std::int64_t elements() const;
  /// Size of dimension `dim`; a negative `dim` counts from the last, as in PyTorch. Throws Error if it is out
  /// of range.
  std::int64_t operator[](int dim) const;
  /// `dim` as a number from 0 to dims() - 1; throws Error that names `operation` when out of range.
  int normalize_dim(int dim, const char* operation) const;

  const std::int64_t* begin() const { return sizes_.data(); }
  const std::int64_t* end() const { return sizes_.data() + dims_; }
  bool operator==(const Shape& other) const;

  /// A copy with dimension `dim` set to `size`, with it removed, or with a dimension of size `size` inserted
  /// before it. inserted() takes a `dim` from 0 to dims(); for the others it may also count from the last.
  /// They throw Error for a `dim` out of range, and inserted() for a fifth dimension.
  Shape with(int dim, std::int64_t size) const;
  Shape without(int dim) const;
  Shape inserted(int dim, std::int64_t size) const;

 private:
  void validate() const;
  std::array<std::int64_t, kMaxDims> sizes_{};
  int dims_ = 0;
};

/// "[64, 10]", and "[]" for a scalar.
std::string to_string(const Shape& shape);

}  // namespace ringtape
