#include "dist/mpi_thread.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "dist/rank_environment.h"
#include "dist/short_slices.h"
#include "trace/spans.h"

namespace ringtape {
namespace {

/// The MPI thread's pause after a test that found no completed request. If another thread waits for a result,
/// the MPI thread at first only yields, as most operations are quick. If none waits, the other threads
/// compute: a thread that yields its core to them gets it back after milliseconds, while a thread that wakes
/// from sleep gets it at once. Another busy process is no different: after a yield that took long, the MPI
/// thread only sleeps for ten times as long.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;

  void reset() { tests_ = 0; }
  std::chrono::microseconds next(bool somebody_waits) {
    constexpr int kYields = 200;
    ++tests_;
    const bool may_yield = somebody_waits && Clock::now() >= next_yield_;
    const int sleeps = tests_ - (may_yield ? kYields : 0);
    return std::chrono::microseconds(sleeps <= 0 ? 0 : std::min(20 + sleeps / 10, 500));
  }
  void yield() {
    constexpr std::chrono::microseconds kLong{1000};
    const Clock::time_point begin = Clock::now();
    sched_yield();
    const Clock::time_point end = Clock::now();
    if (end - begin > kLong) next_yield_ = end + 10 * (end - begin);
  }

 private:
  int tests_ = 0;
  Clock::time_point next_yield_{};
};

Call call_of(CommOperation operation) {
  Call call;
  call.operation = operation;
  return call;
}

/// MPI's text for an error code.
std::string error_text(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return std::string(text, static_cast<std::size_t>(length));
}

}  // namespace

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  fail("MPI: {} failed: {}", std::string(call).substr(0, std::string(call).find('(')), error_text(code));
}

/// The state of an operation, for its Work.
struct MpiThread::State : Work::State {
  explicit State(std::shared_ptr<std::atomic<int>> counter) : all_waiters(std::move(counter)) {}
  void wait() override {
    const SpanScope span(Track::waiting, "wait");
    std::unique_lock lock(mutex);
    if (!done) {
      ++waiters;
      ++*all_waiters;
      changed.wait(lock, [this] { return done; });
    }
    if (error) std::rethrow_exception(error);
  }
  void set_done(std::exception_ptr reason = nullptr) {
    {
      const std::lock_guard lock(mutex);
      done = true;
      error = std::move(reason);
      *all_waiters -= std::exchange(waiters, 0);  // here: a thread that is woken may get a core much later
    }
    changed.notify_all();
  }

  std::shared_ptr<std::atomic<int>> all_waiters;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  int waiters = 0;  // not yet woken
  std::exception_ptr error;
};

std::shared_ptr<MpiThread> MpiThread::get(Seconds timeout) {
  static std::mutex mutex;
  static std::weak_ptr<MpiThread> current;
  static bool has_started = false;
  const std::lock_guard lock(mutex);
  std::shared_ptr<MpiThread> thread = current.lock();
  if (thread) return thread;
  check(!has_started, "MPI has been ended in this process, and it cannot be started a second time");
  has_started = true;
  thread = std::shared_ptr<MpiThread>(new MpiThread(timeout));
  current = thread;
  const RankEnvironment env = detect_rank_environment(process_environment());
  thread
      ->submit({.rank_name = fmt::format("rank {} of {}", env.rank, env.world_size),
                .call = call_of(CommOperation::connect),
                .timeout = timeout,
                .start = [](std::vector<MPI_Request>&) {},
                .completed = {},
                .finish = {},
                .hint = [] { return "not all ranks have come to MPI_Init"; }})
      .wait();
  return thread;
}

MpiThread::MpiThread(Seconds timeout) : timeout_(timeout), thread_([this] { loop(); }) {}

MpiThread::~MpiThread() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    abandoned_ = std::uncaught_exceptions() > 0;
  }
  changed_.notify_all();
  thread_.join();
}

Work MpiThread::submit(MpiJob job) {
  auto state = std::make_shared<State>(waiting_);
  Watchdog::Watch watch = watchdog_.begin(job.rank_name, job.call, job.timeout, job.hint);
  {
    const std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(error_);
    if (!queue_.empty()) watch.hold();
    queue_.push_back({.job = std::move(job), .state = state, .watch = std::move(watch), .requests = {}});
  }
  changed_.notify_one();
  return Work(state);
}

void MpiThread::run(std::string rank_name, const Call& call, Seconds timeout,
                    std::function<void()> function) {
  submit({.rank_name = std::move(rank_name),
          .call = call,
          .timeout = timeout,
          .start = [&function](std::vector<MPI_Request>&) { function(); },
          .completed = {},
          .finish = {},
          .hint = {}})
      .wait();
}

void MpiThread::start_mpi() {
  int provided = MPI_THREAD_SINGLE;
  RINGTAPE_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided));
  RINGTAPE_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  check(provided >= MPI_THREAD_FUNNELED,
        "MPI: this library supports no threads (MPI_THREAD_SINGLE), expected MPI_THREAD_FUNNELED");
}

void MpiThread::loop() {
  ask_for_short_slices();
  try {
    start_mpi();
    Patience patience;
    for (;;) {
      if (take_next() || test_running()) {
        patience.reset();
        continue;
      }
      std::unique_lock lock(mutex_);
      if (abandoned_ || (ended_ && queue_.empty() && running_.empty())) break;
      // It may have been submitted since take_next() looked.
      if (!queue_.empty() && may_start(queue_.front().job)) continue;
      if (running_.empty()) {
        changed_.wait(lock, [this] { return ended_ || !queue_.empty(); });
      } else if (const auto test = next_test(patience.next(*waiting_ > 0)); test > Clock::now()) {
        changed_.wait_until(lock, test);
      } else {
        lock.unlock();
        patience.yield();
      }
    }
  } catch (...) {
    fail_all(std::current_exception());
    return;
  }
  if (!abandoned_) end_mpi();
}

/// The ranks synchronize before MPI_Finalize: MPI_Finalize synchronizes through the launcher, and Open MPI's
/// mpirun can crash or hang when a rank ends with an error while another waits there.
void MpiThread::end_mpi() {
  const auto watch = watchdog_.begin("this process", call_of(CommOperation::disconnect), timeout_);
  MPI_Request request = MPI_REQUEST_NULL;
  int all_are_here = 0;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  Patience patience;
  while (MPI_Test(&request, &all_are_here, MPI_STATUS_IGNORE) == MPI_SUCCESS && all_are_here == 0) {
    std::this_thread::sleep_for(patience.next(true));
  }
  MPI_Finalize();
}

bool MpiThread::may_start(const MpiJob& job) const {
  const auto is_exchange = [](const MpiJob& of) { return of.call.operation == CommOperation::exchange; };
  return std::all_of(running_.begin(), running_.end(), [&](const Running& other) {
    if (is_exchange(job) && is_exchange(other.job)) return true;
    const bool is_of_another = job.communicator != nullptr && other.job.communicator != nullptr &&
                               job.communicator != other.job.communicator;
    return is_of_another && (is_exchange(job) || is_exchange(other.job));
  });
}

/// Starts the next job of the queue if its turn has come.
bool MpiThread::take_next() {
  {
    const std::lock_guard lock(mutex_);
    if (queue_.empty() || abandoned_ || !may_start(queue_.front().job)) return false;
    running_.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  Running& running = running_.back();
  running.watch.restart();
  running.job.start(running.requests);
  begin_to_move(running);
  return true;
}

void MpiThread::record_span(const Running& running) {
  if (!is_recording_spans()) return;
  const Call& call = running.job.call;
  add_span({.track = Track::communication,
            .name = fmt::format("{} #{}", name_of(call.operation), call.sequence),
            .begin = running.began,
            .end = Clock::now(),
            .arguments = {{"bytes", call.elements * static_cast<std::int64_t>(size_of(call.dtype))},
                          {"sequence", static_cast<std::int64_t>(call.sequence)}},
            .group = running.job.group});
}

void MpiThread::begin_to_move(Running& running) {
  running.began = Clock::now();
  const bool has_to_meet = running.job.meets_first && !running.has_met;
  if (has_to_meet || running.job.latency + running.job.transfer == Seconds(0)) return;
  running.arrives_at = link_.send(running.began, running.job.latency, running.job.transfer);
}

/// The time of the next test: after `pause`. If a slow link delays all operations in flight, the thread
/// sleeps instead of yielding, and once MPI has completed all of them, until the first arrives.
MpiThread::Clock::time_point MpiThread::next_test(Clock::duration pause) const {
  constexpr std::chrono::microseconds kMinPause{20};
  const Clock::time_point now = Clock::now();
  Clock::time_point first_arrival = Clock::time_point::max();
  bool are_here = true;
  for (const Running& running : running_) {
    if (running.arrives_at <= now) return now + pause;
    first_arrival = std::min(first_arrival, running.arrives_at);
    are_here = are_here && running.is_here;
  }
  return are_here ? first_arrival
                  : std::min(first_arrival, now + std::max<Clock::duration>(pause, kMinPause));
}

/// Lets MPI transfer data. True if a request has completed.
bool MpiThread::test_running() {
  bool any_completed = false;
  for (auto entry = running_.begin(); entry != running_.end();) {
    Running& running = *entry;
    const int requests = static_cast<int>(running.requests.size());
    std::vector<int> indices(running.requests.size());
    std::vector<MPI_Status> statuses(running.requests.size());
    int completed = 0;
    const int code =
        MPI_Testsome(requests, running.requests.data(), &completed, indices.data(), statuses.data());
    for (int i = 0; code == MPI_ERR_IN_STATUS && i < completed; ++i) {
      const int error = statuses[i].MPI_ERROR;
      if (error != MPI_SUCCESS) {
        fail("{}: {} failed: {}", running.job.rank_name, describe(running.job.call), error_text(error));
      }
    }
    check_mpi(code, "MPI_Testsome");
    running.is_here = completed == MPI_UNDEFINED;  // when no request is left
    for (int i = 0; !running.is_here && i < completed; ++i) {
      if (running.job.completed) {
        running.job.completed(static_cast<std::size_t>(indices[i]), statuses[i], running.requests);
      }
      if (running.job.meets_first && indices[i] == 0) {
        running.has_met = true;
        begin_to_move(running);
      }
      any_completed = true;
    }
    if (!running.is_here || Clock::now() < running.arrives_at) {
      ++entry;
      continue;
    }
    if (running.job.finish) running.job.finish();
    record_span(running);
    const std::shared_ptr<State> state = std::move(running.state);
    entry = running_.erase(entry);  // first, so that its tensors are released before wait() returns
    state->set_done();
    any_completed = true;
  }
  return any_completed;
}

void MpiThread::fail_all(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  error_ = error;
  for (Running& running : queue_) running_.push_back(std::move(running));
  queue_.clear();
  // The jobs stay where they are: MPI may still write to their tensors.
  for (Running& running : running_) {
    running.watch.end();
    running.state->set_done(error);
  }
}

}  // namespace ringtape
