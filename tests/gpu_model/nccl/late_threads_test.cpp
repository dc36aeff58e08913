#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <string>

#include "tests/gpu_model/nccl/ranks.h"

/// Threads whose wait is over, but which the system has not run since: they are late, not deadlocked.
namespace gpu_model::test {
namespace {

using std::chrono::milliseconds;
using Floats = Array<float>;

/// Longer than the detection of a deadlock or of a rank that has ended takes.
constexpr milliseconds kLate{500};

/// A thread that stays in its signal handler for kLate, as if the system did not schedule it.
class Late {
 public:
  /// To be called by the thread, which then waits.
  void will_wait() {
    thread_ = pthread_self();
    waits_ = true;
  }
  /// Returns when the thread has waited for a while and is in the handler.
  void begin() {
    while (!waits_) std::this_thread::yield();
    std::this_thread::sleep_for(milliseconds(100));
    struct sigaction action {};
    action.sa_handler = [](int) {
      const int error = errno;
      is_late = true;
      const timespec time{0, std::chrono::nanoseconds(kLate).count()};
      nanosleep(&time, nullptr);
      errno = error;
    };
    is_late = false;
    sigaction(SIGUSR1, &action, nullptr);
    pthread_kill(thread_, SIGUSR1);
    while (!is_late) std::this_thread::yield();
  }

 private:
  static inline std::atomic<bool> is_late{false};
  std::atomic<bool> waits_{false};
  pthread_t thread_{};
};

void add(const Rank& r, const Floats& x) {
  r.ok(ncclAllReduce(x.get(), x.get(), 4, ncclFloat32, ncclSum, r.comm, r.stream), "ncclAllReduce");
}

/// Waits for the rank's operations; aborts them if a wrong report has ended the communicator.
void synchronize_unless_failed(const Rank& r) {
  std::thread watch([&] {
    std::this_thread::sleep_for(2 * kLate);
    ncclResult_t error = ncclSuccess;
    ncclCommGetAsyncError(r.comm, &error);
    r.ok(error, "ncclCommGetAsyncError");
    if (error != ncclSuccess) ncclCommAbort(r.comm);
  });
  r.synchronize();
  watch.join();
}

TEST_CASE("a rank whose thread returns late from cudaStreamSynchronize is not deadlocked", "[nccl]") {
  const Reports reports;
  Late late;
  run_ranks(2, [&](const Rank& r) {
    const Floats x(r, std::vector<float>(4, 1));
    if (r.rank == 1) late.begin();
    add(r, x);
    if (r.rank == 0) late.will_wait();
    r.synchronize();
    add(r, x);
    synchronize_unless_failed(r);
    r.expect(x.values() == std::vector<float>(4, 4), "sums");
  });
  CHECK(reports.all() == std::vector<std::string>{});
}

TEST_CASE("a rank whose thread returns late from ncclCommSplit is not deadlocked", "[nccl]") {
  const Reports reports;
  Late late;
  run_ranks(2, [&](const Rank& r) {
    const Floats x(r, std::vector<float>(4, 1));
    ncclComm_t other = nullptr;
    if (r.rank == 0) late.will_wait();
    if (r.rank == 1) late.begin();
    r.ok(ncclCommSplit(r.comm, r.rank == 0 ? 0 : NCCL_SPLIT_NOCOLOR, 0, &other, nullptr), "ncclCommSplit");
    r.ok(ncclCommDestroy(other), "ncclCommDestroy");
    add(r, x);
    synchronize_unless_failed(r);
    r.expect(x.values() == std::vector<float>(4, 2), "sums");
  });
  CHECK(reports.all() == std::vector<std::string>{});
}

TEST_CASE("a rank may end before another rank's thread has returned from their split", "[nccl]") {
  Late late;
  run_ranks(2, [&](const Rank& r) {
    ncclComm_t other = nullptr;
    if (r.rank == 0) late.will_wait();
    if (r.rank == 1) late.begin();
    r.ok(ncclCommSplit(r.comm, r.rank == 0 ? 0 : NCCL_SPLIT_NOCOLOR, 0, &other, nullptr), "ncclCommSplit");
    r.ok(ncclCommDestroy(other), "ncclCommDestroy");
  });
}

}  // namespace
}  // namespace gpu_model::test
