#pragma once

#include <cstddef>

#include "autograd/tape.h"

namespace ringtape {

/// Observes the values that pass over the outermost tape of a thread. A recomputed segment
/// (autograd/recompute.h) is one node of it; the operations of its first run, on a nested tape, are reported
/// separately, and those of its second run are not reported.
class TapeObserver {
 public:
  virtual ~TapeObserver() = default;
  /// Node number `index` has been recorded with this output.
  virtual void on_record(const Node& node, std::size_t index, const Tensor& output) = 0;
  /// The gradient of the node's output is complete, and the node's backward runs next.
  virtual void on_backward(const Node& node, std::size_t index, const Tensor& gradient) = 0;
  /// A node of a segment has been recorded.
  virtual void on_record_in_segment(const Node& /*node*/) {}
  /// A segment has returned this result; its own node is recorded next.
  virtual void on_segment_result(const Tensor& /*result*/) {}
};

/// The observer of this thread, or null.
TapeObserver* tape_observer();

/// Makes `observer` this thread's observer until the scope ends; null for none.
class TapeObserverScope {
 public:
  explicit TapeObserverScope(TapeObserver* observer);
  ~TapeObserverScope();
  TapeObserverScope(const TapeObserverScope&) = delete;
  TapeObserverScope& operator=(const TapeObserverScope&) = delete;

 private:
  TapeObserver* previous_;
};

}  // namespace ringtape
