#pragma once

#include <mpi.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dist/communicator.h"
#include "dist/slow_link.h"
#include "dist/watchdog.h"

namespace ringtape {

/// Throws Error with the name of the call and MPI's text for the code, unless the code is MPI_SUCCESS.
void check_mpi(int code, const char* call);

/// Calls an MPI function and checks its result.
#define RINGTAPE_MPI(call) ::ringtape::check_mpi((call), #call)

/// A request for the MPI thread.
struct MpiJob {
  std::string rank_name;  ///< "rank 1 of 4", for messages
  Call call;
  const void* communicator = nullptr;  ///< identifies the operation's communicator; null: the whole process
  Seconds timeout;
  const char* group = "";  ///< Communicator::group()
  /// Request 0 receives the Call of another rank, and the transfer of data begins then; otherwise it begins
  /// at once.
  bool meets_first = false;
  /// The minimum time that the data takes on a slow link.
  Seconds latency{0};
  Seconds transfer{0};
  /// Starts non-blocking MPI operations and appends their requests.
  std::function<void(std::vector<MPI_Request>& requests)> start;
  /// Called when request `index` is complete; may start more requests. May be empty.
  std::function<void(std::size_t index, const MPI_Status& status, std::vector<MPI_Request>& requests)>
      completed;
  /// Called when all requests are complete. May be empty.
  std::function<void()> finish;
  Watchdog::Hint hint;  ///< for the watchdog's message
};

/// The only thread of this process that calls MPI, from MPI_Init to MPI_Finalize (it needs only
/// MPI_THREAD_FUNNELED). It takes jobs from a queue, so communication progresses while other threads compute:
/// MPI transfers data only inside MPI calls, and a non-blocking operation that is not tested makes no
/// progress.
///
/// Jobs are started in the order of submit(). Consecutive exchanges are in flight together. A collective is
/// in flight together with exchanges of other communicators, because a pipeline stage's result may be
/// received only after the tensor-parallel sums that follow on both sides; it is not with another collective.
/// While it waits for other ranks, the thread sleeps between its tests, so that it does not take a core from
/// the computation. On a slow link it sleeps until the data has arrived.
class MpiThread {
 public:
  /// The thread, started at the first call. Throws Error where MPI cannot be started, or has already been
  /// finalized.
  static std::shared_ptr<MpiThread> get(Seconds timeout);
  /// Waits for all ranks and finalizes MPI, but not while an exception unwinds the stack or after a failure:
  /// the launcher then ends the other ranks.
  ~MpiThread();

  Work submit(MpiJob job);
  /// Runs a function on the thread and waits for it.
  void run(std::string rank_name, const Call& call, Seconds timeout, std::function<void()> function);

 private:
  using Clock = LinkSchedule::Clock;
  struct State;
  struct Running {
    MpiJob job;
    std::shared_ptr<State> state;
    Watchdog::Watch watch;
    std::vector<MPI_Request> requests;
    Clock::time_point began{};       // start of the data transfer
    Clock::time_point arrives_at{};  // on a slow link
    bool has_met = false;            // see MpiJob::meets_first
    bool is_here = false;            // MPI has transferred all data
  };

  explicit MpiThread(Seconds timeout);
  void start_mpi();
  void end_mpi();
  void loop();
  bool may_start(const MpiJob& job) const;
  bool take_next();
  bool test_running();
  void begin_to_move(Running& running);
  static void record_span(const Running& running);
  Clock::time_point next_test(Clock::duration pause) const;
  void fail_all(std::exception_ptr error);

  Seconds timeout_;
  Watchdog watchdog_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Running> queue_;   // submitted, not started
  std::list<Running> running_;  // used only by the thread
  LinkSchedule link_;
  const std::shared_ptr<std::atomic<int>> waiting_ = std::make_shared<std::atomic<int>>(0);  // in wait()
  std::exception_ptr error_;  // after an error no job is run
  bool ended_ = false;
  bool abandoned_ = false;
  std::thread thread_;
};

}  // namespace ringtape
