#include "kernels/simt/thread_order.h"

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "core/error.h"

namespace ringtape::simt {
namespace {

OrderSetting order_from_environment() {
  const char* text = std::getenv("RINGTAPE_THREAD_ORDER");
  if (text == nullptr || std::string_view(text) == "forward") return {};
  if (std::string_view(text) == "reversed") return {ThreadOrder::reversed, 0};
  if (std::string_view(text).starts_with("shuffled:")) {
    return {ThreadOrder::shuffled, std::strtoull(text + std::strlen("shuffled:"), nullptr, 10)};
  }
  fail("RINGTAPE_THREAD_ORDER is '{}': expected forward, reversed or shuffled:SEED", text);
}

}  // namespace

OrderSetting& order_setting() {
  static OrderSetting setting = order_from_environment();
  return setting;
}

void set_thread_order(ThreadOrder order, std::uint64_t seed) {
  order_setting() = {order, seed};
}

ThreadOrderScope::ThreadOrderScope(ThreadOrder order, std::uint64_t seed)
    : previous_order_(order_setting().order), previous_seed_(order_setting().seed) {
  set_thread_order(order, seed);
}

ThreadOrderScope::~ThreadOrderScope() {
  set_thread_order(previous_order_, previous_seed_);
}

}  // namespace ringtape::simt
