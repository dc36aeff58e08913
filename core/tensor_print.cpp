#include <algorithm>
#include <cmath>
#include <string>

#include "core/error.h"
#include "core/numbers.h"
#include "core/tensor.h"

namespace ringtape {
namespace {

constexpr std::int64_t kEdge = 3;          // elements shown at each end of a shortened dimension
constexpr std::int64_t kSummarise = 1000;  // tensors with more elements are shortened, as in PyTorch

/// The format of all elements of one tensor, which are right-aligned.
struct Format {
  bool is_float;
  bool scientific = false;  ///< with four decimals some element would lose its digits or be too long
  std::size_t width = 0;

  Format(const std::vector<double>& values, DType dtype) : is_float(is_floating(dtype)) {
    double largest = 0, smallest = 0;
    for (const double value : values) {
      if (!std::isfinite(value)) {
        width = 4;
        continue;
      }
      largest = std::max(largest, value);
      smallest = std::min(smallest, value);
      const double size = std::abs(value);
      if (is_float && size != 0 && (size < 1e-4 || size >= 1e8)) scientific = true;
    }
    // Without exponents one of these has the longest text, or it is "-inf".
    width = std::max({width, text(largest).size(), text(smallest).size()});
    if (!scientific) return;
    for (const double value : values) width = std::max(width, text(value).size());
  }

  std::string text(double value) const {
    if (!std::isfinite(value)) return fmt::format("{}", without_nan_sign(value));
    return !is_float    ? fmt::format("{:.0f}", value)
           : scientific ? fmt::format("{:.4e}", value)
                        : fmt::format("{:.4f}", value);
  }
};

struct Printer {
  const std::vector<double>& values;
  const Shape& shape;
  Format format;
  bool shorten;

  std::string block(int dim, std::int64_t first, int indent) const {
    if (dim == shape.dims()) {
      return fmt::format("{:>{}}", format.text(values[static_cast<std::size_t>(first)]), format.width);
    }
    std::int64_t stride = 1;
    for (int inner = dim + 1; inner < shape.dims(); ++inner) stride *= shape[inner];
    const bool rows = dim + 1 < shape.dims();
    const std::string separator =
        rows ? ",\n" + std::string(static_cast<std::size_t>(indent) + 1, ' ') : ", ";
    std::string text = "[";
    for (std::int64_t i = 0; i < shape[dim]; ++i) {
      if (i > 0) text += separator;
      if (shorten && shape[dim] > 2 * kEdge && i == kEdge) {
        text += "..." + separator;
        i = shape[dim] - kEdge;
      }
      text += block(dim + 1, first + i * stride, indent + 1);
    }
    return text + "]";
  }
};

}  // namespace

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "tensor(undefined)";
  const std::vector<double> values = tensor.to_doubles();
  const Printer printer{values, tensor.shape(), Format(values, tensor.dtype()),
                        tensor.elements() > kSummarise};
  return fmt::format("tensor({}, shape={}, dtype={}, device={})", printer.block(0, 0, 7),
                     to_string(tensor.shape()), name_of(tensor.dtype()), to_string(tensor.device()));
}

}  // namespace ringtape
