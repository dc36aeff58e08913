#include "apps/timeline.h"

#include <utility>

#include "core/chrome_trace.h"
#include "core/error.h"
#include "core/file.h"
#include "dist/gather_text.h"
#include "dist/overlap.h"

namespace ringtape::apps {

Timeline::Timeline(std::string file, std::int64_t updates, Communicator& ranks)
    : file_(std::move(file)), wanted_(updates), ranks_(ranks) {
  if (file_.empty()) return;
  check(ranks.device().is_cpu(),
        "--timeline: the host's clock does not see when {} works, expected ranks on CPUs",
        to_string(ranks.device()));
  if (ranks.rank() == 0) AtomicFile{file_};  // where it cannot be written, say so before training
}

void Timeline::begin_update() {
  if (file_.empty() || (recording_ && !is_running_)) return;
  if (updates_ == 1) {
    ranks_.barrier();  // so that the ranks begin to count at the same moment
    recording_.emplace();
    is_running_ = true;
    begin_ = SpanClock::now();
  }
  if (updates_ == 1 + wanted_) return stop();
  ++updates_;
}

void Timeline::stop() {
  if (!std::exchange(is_running_, false)) return;
  recording_->stop();
  end_ = SpanClock::now();
}

std::string Timeline::row() const {
  const Overlap overlap = measure_overlap(recording_->spans());
  const auto per_update = [&](SpanClock::duration time) {
    return std::chrono::duration<double, std::milli>(time).count() / static_cast<double>(updates_ - 1);
  };
  return fmt::format("{:>4} {:>10.3f} {:>10.3f} {:>10.3f} {:>14.3f} {:>10.3f} {:>8.1f}%\n", ranks_.rank(),
                     per_update(end_ - begin_), per_update(overlap.compute), per_update(overlap.waiting),
                     per_update(overlap.communication), per_update(overlap.hidden),
                     overlap.hidden_share() * 100);
}

void Timeline::write() {
  if (file_.empty()) return;
  stop();
  check(recording_.has_value(), "--timeline: nothing was recorded, as the run had no second update");
  const std::vector<std::string> events = gather_text(
      ranks_,
      chrome_events(recording_->spans(), begin_, ranks_.rank(), fmt::format("rank {}", ranks_.rank())));
  const std::vector<std::string> rows = gather_text(ranks_, row());
  if (ranks_.rank() != 0) return;
  const std::string trace = chrome_trace(events);
  AtomicFile file(file_);
  file.write(trace.data(), trace.size());
  file.commit();
  fmt::print("\ntimeline of {} updates written to {} (https://ui.perfetto.dev shows it); ms of an update:\n",
             updates_ - 1, file_);
  fmt::print("{:>4} {:>10} {:>10} {:>10} {:>14} {:>10} {:>9}\n", "rank", "update", "compute", "waiting",
             "communication", "hidden", "share");
  for (const std::string& row : rows) fmt::print("{}", row);
}

}  // namespace ringtape::apps
