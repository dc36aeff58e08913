#include "core/shape.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace ringtape {

Shape::Shape(std::initializer_list<std::int64_t> sizes) : Shape(sizes.begin(), sizes.end()) {}

Shape::Shape(const std::int64_t* first, const std::int64_t* last) {
  check(last - first <= kMaxDims, "shape [{}] has {} dimensions: expected at most {}",
        fmt::join(first, last, ", "), last - first, kMaxDims);
  std::copy(first, last, sizes_.begin());
  dims_ = static_cast<int>(last - first);
  validate();
}

void Shape::validate() const {
  std::int64_t product = 1;
  for (std::int64_t size : *this) {
    check(size >= 0, "shape {} has the negative size {}", to_string(*this), size);
    if (size > 0 && product > std::numeric_limits<std::int64_t>::max() / size) {
      fail("shape {} has more elements than fit in 63 bits", to_string(*this));
    }
    if (size > 0) product *= size;
  }
}

std::int64_t Shape::elements() const {
  std::int64_t product = 1;
  for (std::int64_t size : *this) product *= size;
  return product;
}

int Shape::normalize_dim(int dim, const char* operation) const {
  check(dim >= -dims_ && dim < dims_, "{}: dimension {} is out of range for shape {}", operation, dim,
        to_string(*this));
  return dim < 0 ? dim + dims_ : dim;
}

std::int64_t Shape::operator[](int dim) const {
  return sizes_[normalize_dim(dim, "size")];
}

bool Shape::operator==(const Shape& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

Shape Shape::with(int dim, std::int64_t size) const {
  Shape result = *this;
  result.sizes_[normalize_dim(dim, "with")] = size;
  result.validate();
  return result;
}

Shape Shape::without(int dim) const {
  Shape result = *this;
  dim = normalize_dim(dim, "without");
  std::copy(result.sizes_.begin() + dim + 1, result.sizes_.begin() + dims_, result.sizes_.begin() + dim);
  --result.dims_;
  return result;
}

Shape Shape::inserted(int dim, std::int64_t size) const {
  check(dims_ < kMaxDims, "shape {} already has {} dimensions: no room for one more", to_string(*this),
        dims_);
  check(dim >= 0 && dim <= dims_, "inserted: dimension {} is out of range for shape {}", dim,
        to_string(*this));
  Shape result = *this;
  for (int i = dims_; i > dim; --i) result.sizes_[i] = sizes_[i - 1];
  result.sizes_[dim] = size;
  ++result.dims_;
  result.validate();
  return result;
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace ringtape
