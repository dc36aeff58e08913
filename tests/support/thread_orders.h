#pragma once

#include <cstdint>
#include <utility>

#include "kernels/simt/executor.h"
#include "tests/support/catch.h"

namespace ringtape::test {

/// True inside for_each_thread_order, where an order for the whole program has no effect.
inline bool trying_thread_orders = false;
struct TryingThreadOrders {
  TryingThreadOrders() { trying_thread_orders = true; }
  ~TryingThreadOrders() { trying_thread_orders = false; }
};

/// Runs `body` under each order in which the CPU may run the threads of a block.
template <class Body>
void for_each_thread_order(const Body& body) {
  using simt::ThreadOrder;
  const std::pair<ThreadOrder, std::uint64_t> orders[] = {{ThreadOrder::forward, 0},
                                                          {ThreadOrder::reversed, 0},
                                                          {ThreadOrder::shuffled, 1},
                                                          {ThreadOrder::shuffled, 2}};
  const TryingThreadOrders trying;
  for (const auto& [order, seed] : orders) {
    INFO("cpu, thread order " << static_cast<int>(order) << ", seed " << seed);
    const simt::ThreadOrderScope scope(order, seed);
    body();
  }
}

}  // namespace ringtape::test
