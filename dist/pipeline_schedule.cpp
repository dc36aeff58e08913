#include "dist/pipeline_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <tuple>

#include "core/ceil_div.h"
#include "core/error.h"
#include "core/numbers.h"

namespace ringtape {
namespace {

/// The number of groups of micro-batches: a group goes through a chunk before it goes through the next one.
/// With p stages a group has p micro-batches; if p does not divide the m micro-batches, there are m / p
/// groups (rounded down) of p or a few more, the larger ones first; with m < p one group of m. (A group of
/// fewer than p would wait, and a larger group after a smaller one could wait for ever.)
int number_of_groups(const PipelineShape& shape) {
  return std::max(1, shape.micro_batches / shape.stages);
}

int largest_group(const PipelineShape& shape) {
  return ceil_div(shape.micro_batches, number_of_groups(shape));
}

/// The sizes of the groups.
std::vector<int> groups_of(const PipelineShape& shape) {
  const int count = number_of_groups(shape);
  std::vector<int> groups(static_cast<std::size_t>(count), shape.micro_batches / count);
  for (int i = 0; i < shape.micro_batches % count; ++i) ++groups[i];
  return groups;
}

/// All tasks of one direction: each group through one chunk, then through the next.
std::vector<StageTask> in_groups(const PipelineShape& shape, bool is_backward) {
  std::vector<StageTask> tasks;
  int first = 0;
  for (const int group : groups_of(shape)) {
    for (int c = 0; c < shape.chunks; ++c) {
      for (int m = first; m < first + group; ++m) {
        tasks.push_back({is_backward, m, is_backward ? shape.chunks - 1 - c : c});
      }
    }
    first += group;
  }
  return tasks;
}

/// The warm-up: forwards before the steady state, in which each forward is followed by a backward. (So one
/// more forward comes before the first backward, except with afab.)
int warmup_of(PipelineScheduleKind kind, const PipelineShape& shape, int stage) {
  const int after = shape.stages - 1 - stage;  // stages
  switch (kind) {
    case PipelineScheduleKind::afab:
      break;
    case PipelineScheduleKind::one_f_one_b:
      return after;
    case PipelineScheduleKind::interleaved:
      return 2 * after + (shape.chunks - 1) * largest_group(shape);
  }
  return shape.micro_batches * shape.chunks;
}

}  // namespace

std::vector<StageTask> stage_schedule(PipelineScheduleKind kind, const PipelineShape& shape, int stage) {
  check(shape.chunks == 1 || kind == PipelineScheduleKind::interleaved,
        "pipeline: {} a stage, expected one, or the schedule interleaved", counted(shape.chunks, "chunk"));
  const std::vector<StageTask> forwards = in_groups(shape, false), backwards = in_groups(shape, true);
  const std::size_t all = forwards.size();
  const std::size_t warmup = std::min(all, static_cast<std::size_t>(warmup_of(kind, shape, stage)));
  std::vector<StageTask> tasks(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(warmup));
  for (std::size_t i = 0; i < all; ++i) {
    if (warmup + i < all) tasks.push_back(forwards[warmup + i]);
    tasks.push_back(backwards[i]);
  }
  return tasks;
}

std::vector<std::vector<StageTask>> pipeline_schedule(PipelineScheduleKind kind, const PipelineShape& shape) {
  std::vector<std::vector<StageTask>> schedule;
  for (int s = 0; s < shape.stages; ++s) schedule.push_back(stage_schedule(kind, shape, s));
  return schedule;
}

std::vector<std::vector<TimedTask>> simulate(const std::vector<std::vector<StageTask>>& schedule,
                                             double forward, double backward) {
  const int stages = static_cast<int>(schedule.size());
  int last_part = 0;
  for (const StageTask& task : schedule.back())
    last_part = std::max(last_part, task.chunk * stages + stages - 1);
  std::map<std::tuple<bool, int, int>, double> ended;  // by direction, micro-batch and part of the model
  std::vector<std::vector<TimedTask>> times(schedule.size());
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (int s = 0; s < stages; ++s) {
      std::vector<TimedTask>& done = times[s];
      while (done.size() < schedule[s].size()) {
        const StageTask& task = schedule[s][done.size()];
        const int part = task.chunk * stages + s;
        double begin = done.empty() ? 0 : done.back().end;
        // A forward needs the forward of the part before; a backward the backward of the part after, or in
        // the last part its forward.
        const bool is_first = !task.is_backward && part == 0;
        const bool needs_backward = task.is_backward && part < last_part;
        const int needed = task.is_backward ? part + (needs_backward ? 1 : 0) : part - 1;
        if (!is_first) {
          const auto found = ended.find({needs_backward, task.micro_batch, needed});
          if (found == ended.end()) break;
          begin = std::max(begin, found->second);
        }
        const double end = begin + (task.is_backward ? backward : forward);
        ended[{task.is_backward, task.micro_batch, part}] = end;
        done.push_back({task, begin, end});
        goes_on = true;
      }
    }
  }
  for (int s = 0; s < stages; ++s) {
    if (times[s].size() == schedule[s].size()) continue;
    const StageTask& task = schedule[s][times[s].size()];
    fail("pipeline: stage {} waits for ever before the {} of micro-batch {} through chunk {}", s,
         task.is_backward ? "backward" : "forward", task.micro_batch, task.chunk);
  }
  return times;
}

double bubble_of(const std::vector<std::vector<TimedTask>>& times) {
  double end = 0, busy = 0;
  for (const std::vector<TimedTask>& of_stage : times) {
    for (const TimedTask& task : of_stage) {
      end = std::max(end, task.end);
      busy += task.end - task.begin;
    }
  }
  return 1 - busy / (end * static_cast<double>(times.size()));
}

int max_in_flight(const std::vector<StageTask>& tasks) {
  int now = 0, most = 0;
  for (const StageTask& task : tasks) most = std::max(most, now += task.is_backward ? -1 : 1);
  return most;
}

double micro_batches_in_flight(PipelineScheduleKind kind, const PipelineShape& shape, int stage) {
  const std::int64_t forwards = std::int64_t{shape.micro_batches} * shape.chunks;
  const auto most = std::min<std::int64_t>(forwards, warmup_of(kind, shape, stage) + 1);
  return std::max(1.0, static_cast<double>(most) / shape.chunks);
}

namespace {

/// a to z, then aa, ab and so on.
std::string chunk_name(int chunk) {
  const std::string last(1, static_cast<char>('a' + chunk % 26));
  return chunk < 26 ? last : chunk_name(chunk / 26 - 1) + last;
}

}  // namespace

std::string draw_schedule(PipelineScheduleKind kind, const PipelineShape& shape) {
  const auto schedule = pipeline_schedule(kind, shape);
  const auto times = simulate(schedule, 1, 2);
  const auto text_of = [&](const StageTask& task) {
    return fmt::format("{}{}{}", task.is_backward ? 'b' : 'f', task.micro_batch,
                       shape.chunks > 1 ? chunk_name(task.chunk) : "");
  };
  const std::size_t cell = text_of({true, shape.micro_batches - 1, shape.chunks - 1}).size() + 1;
  std::string text =
      fmt::format("{}, {}, {} a stage: bubble {:.1f}% of the time, {:.1f}% by (p-1)/(vm+p-1)\n\n",
                  counted(shape.stages, "stage"), counted(shape.micro_batches, "micro-batch"),
                  counted(shape.chunks, "chunk"), 100 * bubble_of(times),
                  100.0 * (shape.stages - 1) / (shape.chunks * shape.micro_batches + shape.stages - 1));
  for (int s = 0; s < shape.stages; ++s) {
    std::string row;
    for (const TimedTask& task : times[s]) {
      row.resize(static_cast<std::size_t>(std::lround(task.begin)) * cell, ' ');
      row += text_of(task.task);
      if (task.task.is_backward) row.resize(static_cast<std::size_t>(std::lround(task.end)) * cell - 1, '-');
      row += ' ';
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += fmt::format("stage {:<3} {}\n", s, row);
  }
  text += "\nmicro-batches kept at a time by each stage:";
  for (int s = 0; s < shape.stages; ++s) text += fmt::format(" {}", max_in_flight(schedule[s]));
  return text + (shape.chunks > 1 ? " (of a chunk each)\n" : "\n");
}

}  // namespace ringtape
