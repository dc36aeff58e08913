#pragma once

#include <cstddef>

#include "kernels/simt/sanitizer.h"

/// Fibers: stacks that one OS thread switches between. The switch itself is in fiber_boost.cpp or in
/// fiber_ucontext.cpp; the build compiles one of them.
namespace ringtape::simt {

/// Memory for a stack, with a page below it that faults when a thread overflows it.
class Stack {
 public:
  /// `number` shifts the top slightly, so that the tops of many stacks do not map to the same cache sets.
  explicit Stack(std::size_t number);
  ~Stack();
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  char* bottom() const { return bottom_; }
  char* top() const { return top_; }
  std::size_t size() const { return static_cast<std::size_t>(top_ - bottom_); }

 private:
  char* mapping_;
  char* bottom_;
  char* top_;
};

/// An execution context: the OS thread's own stack (as constructed) or a Stack (after start()).
class Fiber {
 public:
  Fiber() = default;
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Makes the first switch to this fiber call entry(argument) on `stack`. `entry` must not return.
  void start(const Stack& stack, void (*entry)(void*), void* argument);
  /// Switches from `from`, the calling fiber, to `to`. Returns when another fiber switches back.
  static void switch_to(Fiber& from, Fiber& to);

 private:
  // Defined in fiber_boost.cpp and fiber_ucontext.cpp, like switch_to(). A new context starts in run().
  void create_context(const Stack& stack);
  void destroy_context();

  [[noreturn]] void run();

  void leave_for(Fiber& to) {
    if (tsan_fiber_ == nullptr) tsan_fiber_ = current_tsan_fiber();
    to.previous_ = this;
    start_switch(&fake_stack_, to.stack_bottom_, to.stack_size_, to.tsan_fiber_);
  }
  void arrive() { finish_switch(fake_stack_, &previous_->stack_bottom_, &previous_->stack_size_); }

  void* context_ = nullptr;
  Fiber* previous_ = nullptr;  // the fiber that switched to this one last
  void (*entry_)(void*) = nullptr;
  void* argument_ = nullptr;

  // For the sanitizers.
  const void* stack_bottom_ = nullptr;
  std::size_t stack_size_ = 0;
  void* fake_stack_ = nullptr;
  void* tsan_fiber_ = nullptr;
};

}  // namespace ringtape::simt
