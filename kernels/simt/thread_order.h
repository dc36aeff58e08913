#pragma once

#include <cstdint>

namespace ringtape::simt {

/// The order in which the threads of a block take their turns. A kernel that lacks a barrier gives other
/// results under some order.
enum class ThreadOrder { forward, reversed, shuffled };

/// Sets the order for launches from now on; `seed` is for `shuffled`. Until the first call it is what the
/// environment variable RINGTAPE_THREAD_ORDER says (forward, reversed, or shuffled:SEED), or else forward.
void set_thread_order(ThreadOrder order, std::uint64_t seed = 0);

/// set_thread_order until the end of the scope, then what was set before.
class ThreadOrderScope {
 public:
  explicit ThreadOrderScope(ThreadOrder order, std::uint64_t seed = 0);
  ~ThreadOrderScope();
  ThreadOrderScope(const ThreadOrderScope&) = delete;
  ThreadOrderScope& operator=(const ThreadOrderScope&) = delete;

 private:
  ThreadOrder previous_order_;
  std::uint64_t previous_seed_;
};

/// The order and its seed.
struct OrderSetting {
  ThreadOrder order = ThreadOrder::forward;
  std::uint64_t seed = 0;
};
/// What launches from now on use.
OrderSetting& order_setting();

}  // namespace ringtape::simt
