#include <boost/context/detail/fcontext.hpp>

#include "kernels/simt/fiber.h"

// Boost.Context's switch is a dozen instructions: it saves the callee-saved registers on the old stack, and
// passes their address (an fcontext_t) to the next context.
namespace ringtape::simt {
namespace fcontext = boost::context::detail;

void Fiber::create_context(const Stack& stack) {
  context_ = fcontext::make_fcontext(stack.top(), stack.size(), [](fcontext::transfer_t from) {
    auto* self = static_cast<Fiber*>(from.data);
    self->previous_->context_ = from.fctx;
    self->run();
  });
}

void Fiber::switch_to(Fiber& from, Fiber& to) {
  from.leave_for(to);
  const fcontext::transfer_t back = fcontext::jump_fcontext(to.context_, &to);
  from.previous_->context_ = back.fctx;
  from.arrive();
}

void Fiber::destroy_context() {}

}  // namespace ringtape::simt
