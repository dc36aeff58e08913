#pragma once

#include <initializer_list>
#include <optional>
#include <string>

#include "autograd/tape.h"
#include "core/tensor.h"
#include "trace/spans.h"

/// How operations report to a profiler (trace/spans.h).
namespace ringtape {

/// The span of an operation, with the shapes of its inputs: the forward of `operation`, or the backward of a
/// node, named "linear backward". Undefined inputs are left out.
class OperationScope {
 public:
  OperationScope(const char* operation, std::initializer_list<const Tensor*> inputs) {
    if (spans_are_wanted()) span_.emplace(SpanKind::operation, operation, shapes_of(inputs));
  }
  explicit OperationScope(const Node& node) {
    if (spans_are_wanted()) span_.emplace(SpanKind::operation, backward_name(node), shapes_of(node));
  }

 private:
  static std::string shapes_of(std::initializer_list<const Tensor*> inputs);
  static std::string shapes_of(const Node& node);
  static std::string backward_name(const Node& node);

  std::optional<SpanScope> span_;
};

/// Total bytes of the tensors.
inline std::int64_t bytes_of(std::initializer_list<const Tensor*> tensors) {
  std::size_t bytes = 0;
  for (const Tensor* tensor : tensors) bytes += tensor->defined() ? tensor->bytes() : 0;
  return static_cast<std::int64_t>(bytes);
}

/// Bytes moved to write a gradient, and to read it first where it is added to.
inline std::int64_t bytes_of(const GradTarget& target) {
  return bytes_of({&target.grad}) * (target.accumulate ? 2 : 1);
}

}  // namespace ringtape
