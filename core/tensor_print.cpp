#include <cmath>
#include <string>

#include "core/error.h"
#include "core/tensor.h"

namespace ringtape {
namespace {

constexpr std::int64_t kEdge = 3;          // elements shown at either end of a shortened dimension
constexpr std::int64_t kSummarise = 1000;  // tensors with more elements are shortened, as in PyTorch

struct Printer {
  const std::vector<double>& values;
  const Shape& shape;
  bool is_float;
  bool shorten;

  std::string element(std::int64_t index) const {
    const double value = values[static_cast<std::size_t>(index)];
    if (!is_float || !std::isfinite(value)) return fmt::format("{}", value);
    return fmt::format("{:.4f}", value);
  }

  std::string block(int dim, std::int64_t first, int indent) const {
    if (dim == shape.dims()) return element(first);
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
  const Printer printer{values, tensor.shape(), is_floating(tensor.dtype()), tensor.elements() > kSummarise};
  return fmt::format("tensor({}, shape={}, dtype={}, device={})", printer.block(0, 0, 7),
                     to_string(tensor.shape()), name_of(tensor.dtype()), to_string(tensor.device()));
}

}  // namespace ringtape
