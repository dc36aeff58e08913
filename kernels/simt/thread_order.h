#pragma once

#include <cstdint>

namespace ringtape::simt {

/// The order in which the threads of a block take their turns. A kernel with a missing barrier gives
/// different results under some order. Threads that a barrier releases queue behind the others; with
/// `reversed` they go first, so that a warp runs ahead of the others up to the next barrier of the block.
enum class ThreadOrder { forward, reversed, shuffled };

/// Sets the order for launches from now on; `seed` is for `shuffled`. Until the first call it comes from the
/// environment variable RINGTAPE_THREAD_ORDER (forward, reversed, or shuffled:SEED), by default forward.
void set_thread_order(ThreadOrder order, std::uint64_t seed = 0);

/// set_thread_order() until the end of the scope, which restores the previous order.
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
/// The order for the next launches.
OrderSetting& order_setting();

}  // namespace ringtape::simt
