#pragma once

#include <cstddef>

#include "autograd/tape.h"

namespace ringtape {

/// Sees the values that pass over the outermost tape of a thread. Operations inside a recomputed segment are
/// on a nested tape and are not observed; the segment itself is.
class TapeObserver {
 public:
  virtual ~TapeObserver() = default;
  /// Node number `index` has been recorded with this output.
  virtual void on_record(const Node& node, std::size_t index, const Tensor& output) = 0;
  /// The gradient of the node's output is complete, and the node's backward runs next.
  virtual void on_backward(const Node& node, std::size_t index, const Tensor& gradient) = 0;
};

/// Makes `observer` the one of this thread until the scope ends; null for none.
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
