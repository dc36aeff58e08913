#pragma once

#include <string>
#include <vector>

/// The tasks of each stage of a pipeline (docs/parallel.md), their order and their times: plain data, without
/// ranks or tensors.
///
/// A stage has `chunks` parts of the model: of chunks * stages parts in all, part k is chunk k / stages of
/// stage k % stages.
namespace ringtape {

enum class PipelineScheduleKind {
  /// All forwards, then all backwards (Huang et al., "GPipe", 2019, with backwards in the order of forwards).
  afab,
  /// One forward, one backward, so that stage s keeps at most stages - s micro-batches (Narayanan et al.,
  /// "PipeDream", 2019; with one update at the end, "PipeDream-Flush": Narayanan et al., "Efficient
  /// large-scale language model training on GPU clusters using Megatron-LM", 2021).
  one_f_one_b,
  /// The same with several chunks a stage (the second of these papers).
  interleaved,
};

/// Forward or backward of a micro-batch through a chunk of the stage.
struct StageTask {
  bool is_backward = false;
  int micro_batch = 0;
  int chunk = 0;
  bool operator==(const StageTask&) const = default;
};

/// The size of a pipeline: stages, micro-batches of an update, chunks of the model on each stage.
struct PipelineShape {
  int stages = 1;
  int micro_batches = 1;
  int chunks = 1;
};

/// The tasks of a stage in their order. Backwards of a chunk have the order of micro-batches in every
/// schedule, so that gradients are added up in one order. Throws Error for chunks without the schedule
/// `interleaved`.
std::vector<StageTask> stage_schedule(PipelineScheduleKind kind, const PipelineShape& shape, int stage);
/// The schedules of all stages.
std::vector<std::vector<StageTask>> pipeline_schedule(PipelineScheduleKind kind, const PipelineShape& shape);

/// A task from `begin` to `end`.
struct TimedTask {
  StageTask task;
  double begin, end;
};

/// When each stage runs its tasks, if messages take no time, a forward of a chunk takes `forward` and a
/// backward `backward`. Throws Error that names a stage's task if no stage can go on.
std::vector<std::vector<TimedTask>> simulate(const std::vector<std::vector<StageTask>>& schedule,
                                             double forward, double backward);
/// The share of the stages' time, from the first task's begin to the last one's end, in which they wait.
double bubble_of(const std::vector<std::vector<TimedTask>>& times);
/// The most forwards of the stage whose backward has not ended: tapes that it keeps at a time.
int most_in_flight(const std::vector<StageTask>& tasks);
/// The same of a schedule's stage in micro-batches, each through a chunk as a part of one, but at least 1.
double micro_batches_in_flight(PipelineScheduleKind kind, const PipelineShape& shape, int stage);

/// A row for each stage, a column for each unit of time; a backward takes two forwards' time. "f2a" is the
/// forward of micro-batch 2 through chunk a, "b2a" its backward.
std::string draw_schedule(PipelineScheduleKind kind, const PipelineShape& shape);

}  // namespace ringtape
