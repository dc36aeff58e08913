#include "autograd/operation_scope.h"

#include <fmt/ranges.h>

namespace ringtape {
namespace {

/// "64x784"; "1" for a scalar.
std::string by_x(const Shape& shape) {
  return shape.dims() == 0 ? "1" : fmt::format("{}", fmt::join(shape.begin(), shape.end(), "x"));
}

void append(std::string& shapes, const Shape& shape) {
  shapes += (shapes.empty() ? "" : ", ") + by_x(shape);
}

}  // namespace

std::string OperationScope::shapes_of(std::initializer_list<const Tensor*> inputs) {
  std::string shapes;
  for (const Tensor* input : inputs) {
    if (input->defined()) append(shapes, input->shape());
  }
  return shapes;
}

std::string OperationScope::shapes_of(const Node& node) {
  std::string shapes;
  for (const NodeInput& input : node.inputs) append(shapes, input.shape);
  return shapes;
}

std::string OperationScope::backward_name(const Node& node) {
  return fmt::format("{} backward", node.operation);
}

}  // namespace ringtape
