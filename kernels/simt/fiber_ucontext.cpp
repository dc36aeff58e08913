#include <ucontext.h>

#include <cstdint>

#include "kernels/simt/fiber.h"

// The C library's switch also saves the signal mask, which costs a system call each time.
namespace ringtape::simt {

void Fiber::create_context(const Stack& stack) {
  auto* context = new ucontext_t;
  getcontext(context);
  context->uc_stack.ss_sp = stack.bottom();
  context->uc_stack.ss_size = stack.size();
  context->uc_link = nullptr;
  // makecontext passes ints, so the pointer travels in two halves.
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  const auto entry =
      +[](unsigned low, unsigned high) { reinterpret_cast<Fiber*>(std::uintptr_t{high} << 32 | low)->run(); };
  makecontext(context, reinterpret_cast<void (*)()>(entry), 2, static_cast<unsigned>(self),
              static_cast<unsigned>(self >> 32));
  context_ = context;
}

void Fiber::switch_to(Fiber& from, Fiber& to) {
  if (from.context_ == nullptr) from.context_ = new ucontext_t;  // the OS thread's own stack
  from.leave_for(to);
  swapcontext(static_cast<ucontext_t*>(from.context_), static_cast<ucontext_t*>(to.context_));
  from.arrive();
}

void Fiber::destroy_context() {
  delete static_cast<ucontext_t*>(context_);
}

}  // namespace ringtape::simt
