#include <fmt/ranges.h>

#include <algorithm>

#include "autograd/arguments.h"
#include "autograd/operation_scope.h"
#include "autograd/ops.h"
#include "autograd/tape.h"

namespace ringtape {
namespace {

/// Fills in the size given as -1.
Shape resolve(const Tensor& x, std::vector<std::int64_t> sizes) {
  const auto inferred = std::find(sizes.begin(), sizes.end(), -1);
  if (inferred != sizes.end()) {
    const std::string asked = fmt::format("[{}]", fmt::join(sizes, ", "));
    *inferred = 1;
    check(std::count(sizes.begin(), sizes.end(), -1) == 0, "view: more than one size is -1 in {}", asked);
    const std::int64_t known = Shape(sizes.data(), sizes.data() + sizes.size()).elements();
    check(known > 0, "view: the size -1 in {} could be any, because the others leave no element", asked);
    *inferred = x.elements() / known;
  }
  const Shape shape(sizes.data(), sizes.data() + sizes.size());
  check(shape.elements() == x.elements(), "view: {} has {} elements, shape {} has {}", describe(x),
        x.elements(), to_string(shape), shape.elements());
  return shape;
}

}  // namespace

Tensor view(const Tensor& x, std::vector<std::int64_t> sizes) {
  check(x.defined(), "view: expected a tensor, found {}", describe(x));
  const OperationScope span("view", {&x});
  Tensor y = x.alias(resolve(x, std::move(sizes)));
  if (Tape::records({&x})) {
    Tape::current().record("view", {x}, y, {}, [](BackwardContext& context) {
      context.add_grad(0, std::move(context.grad_output()));
    });
  }
  return y;
}

}  // namespace ringtape
