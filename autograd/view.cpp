#include <fmt/ranges.h>

#include "autograd/arguments.h"
#include "autograd/ops.h"
#include "autograd/tape.h"

namespace ringtape {
namespace {

/// Fills in the size given as -1.
Shape resolve(const Tensor& x, std::vector<std::int64_t> sizes) {
  std::int64_t known = 1;
  std::int64_t* inferred = nullptr;
  for (std::int64_t& size : sizes) {
    if (size != -1) {
      known *= size;
      continue;
    }
    check(inferred == nullptr, "view: more than one size is -1 in [{}]", fmt::join(sizes, ", "));
    inferred = &size;
  }
  if (inferred != nullptr && known > 0) *inferred = x.elements() / known;
  const Shape shape(sizes.data(), sizes.data() + sizes.size());
  check(shape.elements() == x.elements(), "view: {} has {} elements, shape {} has {}", describe(x),
        x.elements(), to_string(shape), shape.elements());
  return shape;
}

}  // namespace

Tensor view(const Tensor& x, std::vector<std::int64_t> sizes) {
  Tensor y = x.alias(resolve(x, std::move(sizes)));
  if (Tape::records({&x})) {
    Tape::current().record("view", {x}, y, {}, [](BackwardContext& context) {
      context.add_grad(0, std::move(context.grad_output()));
    });
  }
  return y;
}

}  // namespace ringtape
