#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "trace/layer.h"

/// The tape. An operation computes its result and, if any input needs a gradient, appends a node that
/// computes the gradients of its inputs from the gradient of its output. The order of recording is already a
/// topological order, so backward() is one loop over the nodes in reverse: no graph search, no recursion.
///
/// Each thread has its own tape. backward() clears it; a TapeScope clears it if no backward() follows. With
/// OnTape several tapes can exist at a time.
namespace ringtape {

class BackwardContext;
class Tape;
struct ParameterShard;

/// Shared state of a ParameterArena and the backwards that write the gradients of its parameters.
struct ArenaGradients {
  const float* loss_scale = nullptr;  ///< see ParameterArena::loss_scale()
  bool are_scaled = false;            ///< since zero_grad() a gradient was written under a loss scale
  std::uint64_t contributions = 0;    ///< that backwards have written, or added to a gradient
};

/// The autograd state of one tensor, shared by all handles to it.
struct AutogradMeta {
  bool requires_grad = false;
  bool is_leaf = true;        ///< no operation on the tape produced it
  bool grad_written = false;  ///< `grad` holds a gradient; when false, its memory (if any) is stale
  bool contributed = false;   ///< the running backward() has written or added to `grad`
  bool grad_is_one = false;   ///< of the root of the running backward(): `grad` is a 1, yet to be written
  Tensor grad;                ///< of a leaf: kept; of an intermediate: exists only while backward() runs
  std::string name;           ///< of a parameter, for messages and drawings

  /// Of a parameter in an arena with a 16-bit copy of the values (nn/arena.h): the copy, and the version of
  /// the values that it was rounded from. See in_dtype().
  Tensor low_precision;
  std::uint64_t low_precision_version = 0;

  /// Of a parameter: expired unless a ParameterArena holds it.
  std::weak_ptr<ArenaGradients> arena;
  bool is_frozen_in_arena = false;  ///< it was frozen when the arena was made, which has no gradient for it

  /// Of a parameter that ranks divide among them: the part that this tensor is (nn/parameter_shard.h).
  std::shared_ptr<const ParameterShard> shard;

  /// Of a parameter whose memory is released between forward and backward (ZeRO stage 3): called when a
  /// backward is about to read its elements and they are not in memory; null for none.
  std::function<void()> fetch;

  /// Called in each backward() that contributes to this leaf, before its first contribution; null for none.
  /// It may give `grad` other memory, and must then clear `grad_written`, because that memory holds no
  /// gradient yet.
  std::function<void()> pre_accumulate_hook;
  /// Called once in each backward() that contributed to this leaf, after its last contribution.
  std::list<std::function<void()>> post_accumulate_hooks;

  const Tape* tape = nullptr;  ///< of an intermediate: the tape it was recorded on, which may no longer exist
  std::size_t producer = 0;    ///< of an intermediate: index on that tape of the node whose output it is
  std::size_t first_use = 0;   ///< of a leaf: index of its first use on the tape that was last recorded on
};

/// An input of a node: its shape and dtype, from which backward() allocates the gradient. It does not keep
/// the elements alive.
struct NodeInput {
  std::shared_ptr<AutogradMeta> meta;  ///< null when no gradient is needed
  Shape shape;
  DType dtype = DType::f32;
  Device device;
  bool is_first_use = false;  ///< of a leaf: no earlier node of the tape has it as an input
};

/// A tensor that a node keeps for its backward, with the version it had when it was saved.
struct SavedTensor {
  Tensor tensor;
  std::uint64_t version = 0;
};

/// One recorded operation.
struct Node {
  const char* operation = "";
  std::vector<NodeInput> inputs;
  std::shared_ptr<AutogradMeta> output;
  Shape output_shape;
  std::vector<SavedTensor> saved;
  std::function<void(BackwardContext&)> backward;
  std::string detail;            ///< more text for the printed tape, or empty
  const Layer* layer = nullptr;  ///< in which it was recorded, or null
};

/// Where a node writes the gradient of one of its inputs.
struct GradTarget {
  Tensor grad;      ///< has the shape and dtype of the input
  bool accumulate;  ///< true: add to what `grad` holds; false: overwrite it
};

/// The argument of a node's backward function.
class BackwardContext {
 public:
  /// Takes the gradient of the node's output out of the node.
  explicit BackwardContext(Node& node);

  /// Gradient of the output. It is not read after this node, so the node may overwrite it.
  Tensor& grad_output();
  /// True until the first call of grad_output() if that gradient is the 1 with which backward() begins. A
  /// loss that checks this saves the launch that writes the 1, and its multiplications by it.
  bool grad_output_is_one() const { return grad_is_one_; }
  /// Saved tensor number `index` of Tape::record; throws Error if it was changed in place.
  const Tensor& saved(std::size_t index) const;
  /// The same, but the node keeps it no longer: its memory is freed when the caller drops it.
  Tensor take_saved(std::size_t index);
  bool needs_grad(std::size_t input) const { return node_.inputs[input].meta != nullptr; }

  /// The gradient of `input`, for a kernel to write or to add to.
  GradTarget grad_target(std::size_t input);
  /// Contributes a finished gradient. If it is the first contribution, an rvalue's memory may become the
  /// gradient, so nothing else may write to it later; an lvalue is copied.
  void add_grad(std::size_t input, Tensor&& grad);
  void add_grad(std::size_t input, const Tensor& grad);

 private:
  Node& node_;
  Tensor grad_output_;
  bool grad_is_one_;
};

/// The operations of a forward in order; their backwards run in the reverse order.
class Tape {
 public:
  /// The tape that operations of this thread record on: its own, or that of the innermost NestedTape or
  /// OnTape.
  static Tape& current();

  /// True outside of NoGrad.
  static bool is_recording();

  /// True when an operation on these inputs must be recorded: recording is on (see NoGrad) and one of the
  /// inputs needs a gradient.
  static bool records(std::initializer_list<const Tensor*> inputs);

  /// Appends a node and makes `output` a tensor with a gradient. `saved` are the tensors that backward reads;
  /// no other tensor is kept alive. Call it where records() is true. Returns the node. Throws Error for an
  /// intermediate that needs a gradient and is neither on this tape nor on an enclosing one: its gradient
  /// would reach no leaf.
  Node& record(const char* operation, const std::vector<Tensor>& inputs, Tensor& output,
               std::vector<Tensor> saved, std::function<void(BackwardContext&)> backward);
  /// True if a node of this tape produced `tensor`.
  bool produced(const Tensor& tensor) const;

  /// Runs the nodes in reverse and clears the tape. `gradient` is the gradient of the root; without it the
  /// root must be a single element, whose gradient is 1. Nodes that the root does not depend on are skipped.
  /// Throws Error when the root is not on the tape, which then stays unchanged. Throws Error, and clears the
  /// tape, when a saved tensor has been changed, when the gradient does not fit, and when it is left out
  /// although a LossScaler scales the gradients of an arena that backward() reaches.
  void backward(const Tensor& root, const Tensor& gradient = {});
  /// The reverse loop, from the output of one of the nodes. Overwrites `gradient`, which has the root's shape
  /// and dtype.
  void run_backward(const std::shared_ptr<AutogradMeta>& root, Tensor gradient);
  /// For hooks: `callback` is called once, when the running backward has gone through all nodes. If backward
  /// ends with an exception, the callback is dropped without a call.
  void at_end_of_backward(std::function<void()> callback) { at_end_.push_back(std::move(callback)); }

  std::size_t size() const { return nodes_.size(); }
  const std::vector<Node>& nodes() const { return nodes_; }
  /// Removes all nodes, or the nodes from number `first` on.
  void clear(std::size_t first = 0);

  /// Bytes kept alive for backward; each storage counts once. Leaves on which set_requires_grad() was called
  /// do not count, as they live anyway; inputs of the model do.
  std::size_t saved_bytes() const;
  /// The same for each node: bytes that it is the first to keep.
  std::vector<std::size_t> saved_bytes_by_node() const;
  /// A table with a line for each node: number, operation, input and output shapes, bytes it is the first to
  /// keep.
  std::string to_string() const;
  /// Writes to_string() to standard output.
  void print() const;
  /// The tape as a Graphviz digraph: operations, shapes, parameters, bytes kept, and where gradients add up
  /// (autograd/tape_graph.h).
  std::string to_dot() const;

 private:
  friend class NestedTape;
  /// True if a node of this tape, or of an enclosing one, produced `tensor`.
  bool can_reach(const Tensor& tensor) const;
  /// Why `tensor` is on none of these tapes, for messages.
  const char* why_not_on_tape(const Tensor& tensor) const;
  bool is_first_use(const std::shared_ptr<AutogradMeta>& leaf);

  std::vector<Node> nodes_;
  std::vector<std::function<void()>> at_end_;  // of the running backward
  const Tape* outer_ = nullptr;                // of a NestedTape: the enclosing tape
  std::vector<Tensor> outside_inputs_;         // see NestedTape
};

/// Makes the operations of this thread record on a separate tape until the scope ends, even inside of NoGrad;
/// then that tape is dropped. A recomputed segment runs on one (autograd/recompute.h).
///
/// Its backward adds to the gradients of the tensors that it did not produce: parameters, and intermediates
/// of enclosing tapes. Only the outermost tape knows when a parameter's gradient is complete, so this one
/// calls no post_accumulate_hooks.
class NestedTape {
 public:
  NestedTape();
  ~NestedTape();
  NestedTape(const NestedTape&) = delete;
  NestedTape& operator=(const NestedTape&) = delete;

  Tape& tape() { return tape_; }
  const Tape& tape() const { return tape_; }
  /// The tensors with a gradient that the recorded operations had as inputs and did not produce, each once,
  /// in the order of their first use.
  const std::vector<Tensor>& outside_inputs() const { return tape_.outside_inputs_; }

 private:
  Tape tape_;
  Tape* previous_;
  bool was_recording_;
};

/// Makes `tape` this thread's current tape until the scope ends: for several forwards whose backwards come
/// later, each on its own tape (the micro-batches of a pipeline). Record a whole forward before the next
/// begins.
class OnTape {
 public:
  explicit OnTape(Tape& tape);
  ~OnTape();
  OnTape(const OnTape&) = delete;
  OnTape& operator=(const OnTape&) = delete;

 private:
  Tape* previous_;
};

/// Switches recording off in this thread until the scope ends.
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool previous_;
};

/// Removes, when the scope ends, every node recorded in it: use it around a forward that may not reach
/// backward().
class TapeScope {
 public:
  TapeScope() : first_(Tape::current().size()) {}
  ~TapeScope() { Tape::current().clear(first_); }
  TapeScope(const TapeScope&) = delete;
  TapeScope& operator=(const TapeScope&) = delete;

 private:
  std::size_t first_;
};

}  // namespace ringtape
