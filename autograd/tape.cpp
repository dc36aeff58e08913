#include "autograd/tape.h"

#include <algorithm>
#include <utility>

#include "autograd/operation_scope.h"
#include "autograd/tape_observer.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/stream.h"
#include "kernels/elementwise.h"
#include "kernels/pointwise.h"

namespace ringtape {
namespace {

thread_local bool recording = true;
thread_local bool starts_from_one = false;  // the running backward() was given no gradient
thread_local Tape* innermost = nullptr;     // null: the thread's own
thread_local TapeObserver* observer = nullptr;

bool is_input(const Node& node, const std::shared_ptr<AutogradMeta>& meta) {
  return std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&](const NodeInput& input) { return input.meta == meta; });
}

/// Calls the hooks of the leaves that have a contribution and that no earlier node uses.
void run_hooks(const Node& node) {
  for (auto input = node.inputs.begin(); input != node.inputs.end(); ++input) {
    const std::shared_ptr<AutogradMeta>& meta = input->meta;
    if (meta == nullptr || !input->is_first_use || !meta->contributed) continue;
    meta->contributed = false;  // so that the hooks of a leaf listed twice run once
    for (const auto& hook : meta->post_accumulate_hooks) hook();
  }
}

/// Notes, until the scope ends, whether the running backward() starts from a gradient of 1.
class StartScope {
 public:
  explicit StartScope(bool from_one) : previous_(std::exchange(starts_from_one, from_one)) {}
  ~StartScope() { starts_from_one = previous_; }
  StartScope(const StartScope&) = delete;
  StartScope& operator=(const StartScope&) = delete;

 private:
  bool previous_;
};

/// Tells the arena of a parameter, if it has one, that a backward is about to write the parameter's gradient.
void note_contribution(const AutogradMeta& parameter) {
  const std::shared_ptr<ArenaGradients> gradients = parameter.arena.lock();
  if (gradients == nullptr) return;
  const bool is_scaled = gradients->loss_scale != nullptr;
  check(!is_scaled || !starts_from_one,
        "backward(): a LossScaler scales the gradient of {}: expected its backward(loss)", parameter.name);
  gradients->are_scaled = gradients->are_scaled || is_scaled;
  ++gradients->contributions;
}

struct ClearAtEnd {
  Tape& tape;
  ~ClearAtEnd() { tape.clear(); }
};

}  // namespace

bool Tensor::requires_grad() const {
  return autograd != nullptr && autograd->requires_grad;
}

Tensor& Tensor::set_requires_grad(bool value) {
  check(defined(), "requires_grad of an undefined tensor");
  check(!value || dtype() == DType::f32 || dtype() == DType::f64,
        "requires_grad: a leaf must be f32 or f64 to have a gradient: it is {}", describe(*this));
  if (autograd == nullptr) autograd = std::make_shared<AutogradMeta>();
  check(autograd->is_leaf, "requires_grad can be set for leaves only: an operation produced this {}",
        describe(*this));
  check(!value || !autograd->is_frozen_in_arena || autograd->arena.expired(),
        "requires_grad: {} was frozen when its parameter arena was made, which would not train it: expected "
        "requires_grad(true) before that",
        autograd->name);
  autograd->requires_grad = value;
  return *this;
}

Tensor Tensor::grad() const {
  return autograd != nullptr && autograd->grad_written ? autograd->grad : Tensor();
}

void Tensor::backward() const {
  check(defined(), "backward() of an undefined tensor");
  Tape::current().backward(*this);
}

BackwardContext::BackwardContext(Node& node)
    : node_(node),
      grad_output_(std::exchange(node.output->grad, Tensor())),
      grad_is_one_(std::exchange(node.output->grad_is_one, false)) {}

Tensor& BackwardContext::grad_output() {
  if (std::exchange(grad_is_one_, false)) {
    fill(Stream::current(grad_output_.device()), grad_output_.dtype(), grad_output_.raw(), std::int64_t{1},
         1.0);
  }
  return grad_output_;
}

const Tensor& BackwardContext::saved(std::size_t index) const {
  const auto& [tensor, version] = node_.saved[index];
  if (tensor.storage()->version != version) {
    const std::string name = tensor.autograd == nullptr ? "" : tensor.autograd->name;
    fail("backward of {}: {} ({}) was changed in place after the forward (version {}, expected {})",
         node_.operation, name.empty() ? "a saved tensor" : name, describe(tensor), tensor.storage()->version,
         version);
  }
  const bool is_gone = tensor.storage()->data == nullptr && tensor.autograd != nullptr;
  if (is_gone && tensor.autograd->fetch) tensor.autograd->fetch();
  return tensor;
}

Tensor BackwardContext::take_saved(std::size_t index) {
  Tensor tensor = saved(index);
  node_.saved[index].tensor = Tensor();
  return tensor;
}

GradTarget BackwardContext::grad_target(std::size_t input) {
  const NodeInput& to = node_.inputs[input];
  if (to.meta->is_leaf) note_contribution(*to.meta);
  if (to.meta->pre_accumulate_hook && !to.meta->contributed) to.meta->pre_accumulate_hook();
  if (!to.meta->grad.defined()) {
    const MemoryScope scope(to.meta->is_leaf ? MemoryCategory::gradients
                                             : MemoryCategory::activation_gradients);
    to.meta->grad = empty(to.shape, to.dtype, to.device);
  }
  if (to.meta->is_leaf) {
    // A node may have saved the gradient of a leaf, even this one.
    to.meta->grad.bump_version();
    for (std::size_t i = 0; i < node_.saved.size(); ++i) {
      if (node_.saved[i].tensor.storage() == to.meta->grad.storage()) saved(i);
    }
  }
  const bool accumulate = to.meta->grad_written;
  to.meta->grad_written = true;
  to.meta->contributed = true;
  return {to.meta->grad, accumulate};
}

void BackwardContext::add_grad(std::size_t input, Tensor&& grad) {
  const NodeInput& to = node_.inputs[input];
  if (to.meta->grad.defined() || to.meta->pre_accumulate_hook) {
    add_grad(input, static_cast<const Tensor&>(grad));
    return;
  }
  to.meta->grad = grad.alias(to.shape);
  to.meta->grad_written = true;
  to.meta->contributed = true;
}

void BackwardContext::add_grad(std::size_t input, const Tensor& grad) {
  GradTarget target = grad_target(input);
  if (target.accumulate) {
    add_work({.flops = 2 * grad.elements(), .bytes = 3 * bytes_of({&grad})});
    axpy(Stream::current(grad.device()), grad.dtype(), 1.0, grad.raw(), target.grad.raw(), grad.elements());
  } else {
    add_work({.bytes = 2 * bytes_of({&grad})});
    target.grad.copy_from(grad.alias(target.grad.shape()));
  }
}

Tape& Tape::current() {
  thread_local Tape tape;
  return innermost == nullptr ? tape : *innermost;
}

bool Tape::is_recording() {
  return recording;
}

bool Tape::records(std::initializer_list<const Tensor*> inputs) {
  return recording && std::any_of(inputs.begin(), inputs.end(),
                                  [](const Tensor* input) { return input->requires_grad(); });
}

bool Tape::produced(const Tensor& tensor) const {
  if (tensor.autograd == nullptr || tensor.autograd->is_leaf) return false;
  const std::size_t producer = tensor.autograd->producer;
  return producer < nodes_.size() && nodes_[producer].output == tensor.autograd;
}

bool Tape::can_reach(const Tensor& tensor) const {
  for (const Tape* tape = this; tape != nullptr; tape = tape->outer_) {
    if (tape->produced(tensor)) return true;
  }
  return false;
}

const char* Tape::why_not_on_tape(const Tensor& tensor) const {
  for (const Tape* tape = this; tape != nullptr; tape = tape->outer_) {
    if (tape == tensor.autograd->tape)
      return "a backward() has run since it was computed, or the tape was cleared";
  }
  return "another thread, or a recomputed segment, recorded it on a tape of its own";
}

/// Whether the next node is the first that uses the leaf, and so the last in backward.
bool Tape::is_first_use(const std::shared_ptr<AutogradMeta>& leaf) {
  // An index left from another tape may be that of a node that does not have this leaf as an input.
  const bool used_before = leaf->first_use < nodes_.size() && is_input(nodes_[leaf->first_use], leaf);
  if (!used_before) leaf->first_use = nodes_.size();
  return !used_before;
}

Node& Tape::record(const char* operation, const std::vector<Tensor>& inputs, Tensor& output,
                   std::vector<Tensor> saved, std::function<void(BackwardContext&)> backward) {
  Node node;
  node.operation = operation;
  node.output_shape = output.shape();
  node.backward = std::move(backward);
  node.layer = current_layer();
  for (const Tensor& input : inputs) {
    const auto meta = input.requires_grad() ? input.autograd : nullptr;
    node.inputs.push_back({meta, input.shape(), input.dtype(), input.device()});
    if (meta == nullptr) continue;
    if (!meta->is_leaf && !can_reach(input)) {
      fail(
          "{}: the input {} needs a gradient, but is not on the tape: {}; run its forward again, add up the "
          "losses before one backward(), or detach() it",
          operation, describe(input), why_not_on_tape(input));
    }
    if (outer_ != nullptr) {
      const bool listed = std::any_of(outside_inputs_.begin(), outside_inputs_.end(),
                                      [&](const Tensor& outside) { return outside.autograd == meta; });
      if (!listed && !produced(input)) outside_inputs_.push_back(input);
    } else if (meta->is_leaf) {
      node.inputs.back().is_first_use = is_first_use(meta);
    }
  }
  for (Tensor& tensor : saved) {
    const std::uint64_t version = tensor.defined() ? tensor.storage()->version : 0;
    node.saved.push_back({std::move(tensor), version});
  }
  output.autograd = std::make_shared<AutogradMeta>();
  output.autograd->requires_grad = true;
  output.autograd->is_leaf = false;
  output.autograd->tape = this;
  output.autograd->producer = nodes_.size();
  node.output = output.autograd;
  nodes_.push_back(std::move(node));
  if (observer != nullptr && outer_ == nullptr) {
    observer->on_record(nodes_.back(), nodes_.size() - 1, output);
  } else if (observer != nullptr) {
    observer->on_record_in_segment(nodes_.back());
  }
  return nodes_.back();
}

void Tape::backward(const Tensor& root, const Tensor& gradient) {
  check(root.requires_grad(), "backward() from {}: it does not depend on any tensor with requires_grad",
        describe(root));
  check(!root.autograd->is_leaf, "backward() from {}: it is a leaf, which no operation has produced",
        describe(root));
  check(produced(root), "backward() from {}: it is not on the tape: {}", describe(root),
        why_not_on_tape(root));
  const ClearAtEnd clear_at_end{*this};
  const MemoryScope category(MemoryCategory::activation_gradients);
  Tensor root_grad = empty(root.shape(), root.dtype(), root.device());
  if (gradient.defined()) {
    check(gradient.shape() == root.shape() && gradient.dtype() == root.dtype(),
          "backward() from {}: the gradient given is {}, expected the same shape and dtype", describe(root),
          describe(gradient));
    root_grad.copy_from(gradient);
  } else {
    check(root.elements() == 1, "backward() without a gradient needs a single element: the tensor is {}",
          describe(root));
    root.autograd->grad_is_one = true;
  }
  const StartScope start(!gradient.defined());
  run_backward(root.autograd, std::move(root_grad));
}

void Tape::run_backward(const std::shared_ptr<AutogradMeta>& root, Tensor gradient) {
  const NoGrad no_grad;  // operations of backward are not recorded
  const MemoryScope category(MemoryCategory::activation_gradients);
  const ClearAtEnd clear_at_end{*this};
  root->grad = std::move(gradient);
  root->grad_written = true;
  while (!nodes_.empty()) {
    Node& node = nodes_.back();
    if (node.output->grad_written) {
      node.output->grad_written = false;
      const LayerScope layer(node.layer);
      const OperationScope span(node);
      BackwardContext context(node);
      if (observer != nullptr && outer_ == nullptr) {
        observer->on_backward(node, nodes_.size() - 1, context.grad_output());
      }
      node.backward(context);
      node.saved.clear();  // frees it as early as possible
      node.backward = nullptr;
    }
    if (outer_ == nullptr) run_hooks(node);
    nodes_.pop_back();
  }
  for (const auto& callback : std::exchange(at_end_, {})) callback();
}

void Tape::clear(std::size_t first) {
  if (first == 0) at_end_.clear();
  while (nodes_.size() > first) {
    // An exception may have stopped a backward() half-way.
    AutogradMeta& output = *nodes_.back().output;
    output.grad = Tensor();
    output.grad_written = output.grad_is_one = false;
    for (const NodeInput& input : nodes_.back().inputs) {
      if (input.meta != nullptr && outer_ == nullptr) input.meta->contributed = false;
    }
    nodes_.pop_back();
  }
}

NestedTape::NestedTape() : previous_(innermost), was_recording_(std::exchange(recording, true)) {
  tape_.outer_ = &Tape::current();
  innermost = &tape_;
}
NestedTape::~NestedTape() {
  tape_.clear();
  innermost = previous_;
  recording = was_recording_;
}

TapeObserver* tape_observer() {
  return observer;
}

TapeObserverScope::TapeObserverScope(TapeObserver* of_scope) : previous_(std::exchange(observer, of_scope)) {}
TapeObserverScope::~TapeObserverScope() {
  observer = previous_;
}

OnTape::OnTape(Tape& tape) : previous_(std::exchange(innermost, &tape)) {}
OnTape::~OnTape() {
  innermost = previous_;
}

NoGrad::NoGrad() : previous_(recording) {
  recording = false;
}
NoGrad::~NoGrad() {
  recording = previous_;
}

}  // namespace ringtape
