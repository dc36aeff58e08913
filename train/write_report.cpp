#include "train/write_report.h"

#include <utility>

#include "core/numbers.h"
#include "dist/gather_text.h"
#include "io/file.h"
#include "profile/machine.h"
#include "profile/text.h"
#include "train/report/document.h"
#include "train/report/page.h"

namespace ringtape::report {
namespace {

/// The spans with times relative to `first`.
std::vector<LaneSpan> shifted(std::vector<LaneSpan> spans, double first) {
  for (LaneSpan& span : spans) {
    span.begin -= first;
    span.end -= first;
  }
  return spans;
}

/// The same step of all ranks, with times from the common start of their recordings.
StepTimeline gather_timeline(const RecordedSteps& recorded, std::int64_t number, const Span& step,
                             Communicator& comm) {
  const std::vector<LaneSpan> own =
      lanes_of(recorded.spans(), recorded.activities().all, step, recorded.begin());
  const double first = seconds(step.begin - recorded.begin());
  StepTimeline timeline{
      .step = number, .seconds = seconds(step.end - step.begin), .ranks = {shifted(own, first)}};
  if (comm.size() == 1) return timeline;
  const std::vector<std::string> texts = gather_text(comm, to_text(own));
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    timeline.ranks.push_back(shifted(lanes_from_text(texts[rank]), first));
  }
  return timeline;
}

/// The live memory during the step.
StepMemory memory_of_step(const FinishedRun& run, std::int64_t number, const Span& step) {
  const MemoryRecording& recording = run.recorded.memory();
  const double begin = seconds(step.begin - recording.begin()), end = seconds(step.end - recording.begin());
  StepMemory memory{.step = number,
                    .seconds = end - begin,
                    .levels = {{}},
                    .formula = run.memory_formula,
                    .data_set = run.data_set.total()};
  for (const MemoryLevel& level : memory_levels(recording)) {
    const BytesByCategory live = level.live - run.data_set;
    if (level.seconds <= begin) {
      memory.levels.front().live = live;
    } else if (level.seconds <= end) {
      memory.levels.push_back({level.seconds - begin, live});
    }
  }
  return memory;
}

}  // namespace

void write_report(FinishedRun run, const std::string& file, Communicator& comm, Console console) {
  RunReport& report = run.report;
  if (run.recorded.exist()) {
    // The middle step, the same on all ranks.
    const StepRange range = run.recorded.range();
    const std::int64_t number = (range.first + range.last) / 2;
    const Span* const step = find_step(run.recorded.spans(), number);
    if (step != nullptr) {
      report.timeline = gather_timeline(run.recorded, number, *step, comm);
      report.phases = phases_of_operations(run.recorded.spans(), *step);
      report.memory = memory_of_step(run, number, *step);
    }
    report.missing = run.recorded.what_is_missing();
    report.first_profiled = range.first;
    report.last_profiled = range.last;
  }
  if (comm.rank() == 0) save_report(std::move(report), file, comm.device(), console);
}

void save_report(RunReport report, const std::string& file, Device device, Console console) {
  report.machine = describe_machine(device);
  const Json document = document_of(report);
  const bool is_page = !file.ends_with(".json");
  const std::string text =
      is_page ? html_page(document) : document.dump(1, Json::InvalidUtf8::replace) + "\n";
  save_text(file, text);
  console.print("\nreport written to {} ({})\n", file, bytes_text(static_cast<double>(text.size())));
}

}  // namespace ringtape::report
