#include "autograd/recompute.h"

#include <algorithm>
#include <utility>

#include "autograd/operation_scope.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "autograd/tape_observer.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/random.h"

namespace ringtape {
namespace {

/// Repeats the random numbers from `start` on until the scope ends.
class RepeatRandom {
 public:
  explicit RepeatRandom(const Generator& start) : now_(std::exchange(default_generator(), start)) {}
  ~RepeatRandom() { default_generator() = now_; }
  RepeatRandom(const RepeatRandom&) = delete;
  RepeatRandom& operator=(const RepeatRandom&) = delete;

 private:
  Generator now_;
};

Tensor result_of(const Segment& segment, const std::vector<Tensor>& inputs) {
  Tensor y = segment(inputs);
  check(y.defined(), "recompute: the segment returned an undefined tensor");
  return y;
}

/// The segment's result, as the output of a node of `nested` wherever it has a gradient.
Tensor run(const Segment& segment, const std::vector<Tensor>& inputs, const NestedTape& nested) {
  const MemoryScope category(MemoryCategory::activations);
  Tensor y = result_of(segment, inputs);
  const bool passed_on = y.requires_grad() && !nested.tape().produced(y);  // the segment returned an input
  return passed_on ? view(y, {y.shape().begin(), y.shape().end()}) : y;
}

bool same_gradients(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Tensor& x, const Tensor& y) { return x.autograd == y.autograd; });
}

/// One recomputed segment between its two runs.
struct Recomputation {
  Segment segment;
  std::vector<Tensor> inputs;
  std::vector<Tensor> used;    ///< the tensors with a gradient that the first run had, in the order of use
  Generator random;            ///< before the first run
  std::uint64_t counters = 0;  ///< that the first run took
  Shape shape;                 ///< of the result, with its dtype
  DType dtype;

  void backward(BackwardContext& context) const {
    for (std::size_t i = 0; i < used.size() + inputs.size(); ++i) context.saved(i);  // throws if changed
    NestedTape nested;
    Tensor y = run_again(nested);
    // Only the position on the tape is needed from here on: the memory of `y` may be freed.
    const std::shared_ptr<AutogradMeta> root = y.autograd;
    y = Tensor();
    nested.tape().run_backward(root, std::move(context.grad_output()));
  }

  Tensor run_again(const NestedTape& nested) const {
    const RepeatRandom repeat(random);
    const TapeObserverScope unobserved(nullptr);
    Tensor y = run(segment, inputs, nested);
    const std::uint64_t taken = default_generator().offset - random.offset;
    check(taken == counters,
          "recompute: the segment took {} counters of random numbers in its first run and {} in its second: "
          "was train() or eval() called between them?",
          counters, taken);
    check(y.shape() == shape && y.dtype() == dtype,
          "recompute: the segment returned {}{} in its first run and {} in its second", name_of(dtype),
          to_string(shape), describe(y));
    check(y.requires_grad() && same_gradients(nested.outside_inputs(), used),
          "recompute: the segment used {} tensors with gradients in its first run and {} in its second, or "
          "not the same ones",
          used.size(), nested.outside_inputs().size());
    return y;
  }
};

}  // namespace

Tensor recompute(const Segment& segment, const std::vector<Tensor>& inputs) {
  check(segment != nullptr, "recompute: the segment is empty: expected a function");
  check(std::all_of(inputs.begin(), inputs.end(), [](const Tensor& x) { return x.defined(); }),
        "recompute: an input is undefined");
  if (!Tape::is_recording()) return result_of(segment, inputs);

  const OperationScope span("recompute", {});
  Recomputation again{.segment = segment,
                      .inputs = inputs,
                      .used = {},
                      .random = default_generator(),
                      .shape = {},
                      .dtype = {}};
  Tensor result;
  std::string detail;
  {
    // The first run records too, so that every operation takes the same code path in both runs, and to find
    // the tensors that the segment uses. Its intermediates live until it ends; the second run and its
    // gradients need more.
    NestedTape nested;
    const Tensor y = run(segment, inputs, nested);
    result = y.detach();
    if (!y.requires_grad()) return result;
    if (TapeObserver* observer = tape_observer()) observer->on_segment_result(y);
    again.used = nested.outside_inputs();
    detail = fmt::format("runs {} nodes again in backward, which keep {} bytes then", nested.tape().size(),
                         nested.tape().saved_bytes());
  }
  again.counters = default_generator().offset - again.random.offset;
  again.shape = result.shape();
  again.dtype = result.dtype();
  std::vector<Tensor> saved = again.used;
  saved.insert(saved.end(), inputs.begin(), inputs.end());
  const std::vector<Tensor> used = again.used;
  Node& node = Tape::current().record(
      "recompute", used, result, saved,
      [again = std::move(again)](BackwardContext& context) { again.backward(context); });
  node.detail = std::move(detail);
  return result;
}

Tensor recompute(const std::function<Tensor(const Tensor&)>& segment, const Tensor& input) {
  Segment of_one;
  if (segment) of_one = [segment](const std::vector<Tensor>& inputs) { return segment(inputs[0]); };
  return recompute(of_one, std::vector<Tensor>{input});
}

std::size_t recompute_segments(
    Tensor& x, std::size_t parts, std::size_t size,
    const std::function<Tensor(Tensor x, std::size_t first, std::size_t end)>& run) {
  std::size_t first = 0;
  for (; size > 0 && first + size < parts; first += size) {
    x = recompute([=](const Tensor& input) { return run(input, first, first + size); }, x);
  }
  return first;
}

}  // namespace ringtape
