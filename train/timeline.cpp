#include "train/timeline.h"

#include <fmt/format.h>

#include "core/numbers.h"
#include "dist/gather_text.h"
#include "io/file.h"
#include "profile/chrome_trace.h"
#include "profile/device_time.h"
#include "profile/overlap.h"

namespace ringtape {
namespace {

std::string row_of(const RecordedSteps& steps, int rank) {
  const Overlap overlap =
      steps.device().is_cuda()
          ? measure_device_overlap(activities_of_steps(steps.spans(), steps.activities().all))
          : measure_overlap(inside_of_steps(steps.spans()));
  const auto per_update = [&](SpanClock::duration time) {
    return std::chrono::duration<double, std::milli>(time).count() / static_cast<double>(steps.count());
  };
  return fmt::format("{:>4} {:>10.3f} {:>10.3f} {:>10.3f} {:>14.3f} {:>10.3f} {:>8.1f}%\n", rank,
                     per_update(steps.wall()), per_update(overlap.compute), per_update(overlap.waiting),
                     per_update(overlap.communication), per_update(overlap.hidden),
                     overlap.hidden_share() * 100);
}

}  // namespace

void write_timeline(const RecordedSteps& steps, const std::string& file, Communicator& comm,
                    Console console) {
  const std::string own = chrome_events({.number = comm.rank(),
                                         .name = fmt::format("rank {}", comm.rank()),
                                         .zero = steps.begin(),
                                         .spans = steps.spans(),
                                         .activities = steps.activities().all,
                                         .memory = &steps.memory()});
  const std::vector<std::string> events = gather_text(comm, own);
  const std::vector<std::string> rows = gather_text(comm, row_of(steps, comm.rank()));
  if (comm.rank() != 0) return;
  save_text(file, chrome_trace(events));
  console.print("\ntimeline of {} written to {} (https://ui.perfetto.dev shows it); ms of an update:\n",
                counted(steps.count(), "update"), file);
  console.print("{}", steps.what_is_missing());
  console.print("{:>4} {:>10} {:>10} {:>10} {:>14} {:>10} {:>9}\n", "rank", "update", "compute", "waiting",
                "communication", "hidden", "share");
  for (const std::string& row : rows) console.print("{}", row);
}

}  // namespace ringtape
