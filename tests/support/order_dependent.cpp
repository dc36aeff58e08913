// With RINGTAPE_WRITE_ORDER_DEPENDENT=FILE in the environment, writes the names of the test cases that
// another order of threads for the whole program could change, for --input-file: those that launch a kernel
// of several threads. Launches inside for_each_thread_order do not count: it goes through the orders in one
// run.
#define CATCH_CONFIG_EXTERNAL_INTERFACES  // listeners, in version 2
#include <cstdlib>
#include <fstream>
#include <string>

#include "core/error.h"
#include "kernels/simt/observer.h"
#include "kernels/simt/worker.h"
#include "tests/support/catch.h"
#include "tests/support/thread_orders.h"

#if __has_include(<catch2/catch_all.hpp>)
using ListenerBase = Catch::EventListenerBase;
#else
using ListenerBase = Catch::TestEventListenerBase;
#endif

namespace ringtape::test {
namespace {

class Launches : public simt::Observer {
 public:
  bool seen = false;

  void launch_begins(const simt::Launch& launch) override {
    seen = seen || (!trying_thread_orders && launch.block.x * launch.block.y * launch.block.z > 1);
  }
};

class OrderDependent : public ListenerBase {
 public:
  using ListenerBase::ListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    if (path_ == nullptr) return;
    name_ = info.name;
    launches_.seen = false;
    simt::set_observer(&launches_);
  }

  void testCaseEnded(const Catch::TestCaseStats&) override {
    if (path_ == nullptr) return;
    simt::set_observer(nullptr);
    if (!launches_.seen) return;
    if (!file_.is_open()) file_.open(path_);
    for (const char letter : name_) file_ << (letter == ',' ? "\\" : "") << letter;
    file_ << std::endl;  // at once: a later case may end the program
    check(file_.good(), "{} cannot be written", path_);
  }

 private:
  const char* path_ = std::getenv("RINGTAPE_WRITE_ORDER_DEPENDENT");
  std::string name_;
  std::ofstream file_;
  Launches launches_;
};

CATCH_REGISTER_LISTENER(OrderDependent)

}  // namespace
}  // namespace ringtape::test
