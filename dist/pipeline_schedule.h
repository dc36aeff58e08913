#pragma once

#include <string>
#include <vector>

/// The tasks of each stage of a pipeline (docs/parallel.md), their order and their times: plain data, without
/// ranks or tensors.
///
/// Each stage has `chunks` parts of the model. Of the chunks * stages parts in total, part k is chunk k /
/// stages of stage k % stages.
namespace ringtape {

/// The order of a stage's forwards and backwards.
enum class PipelineScheduleKind {
  /// All forwards, then all backwards (Huang et al., "GPipe", 2019, but the backwards are in the order of the
  /// forwards).
  afab,
  /// One forward, one backward, so that stage s keeps at most stages - s micro-batches (Narayanan et al.,
  /// "PipeDream", 2019; with one update at the end "PipeDream-Flush": Narayanan et al., "Memory-efficient
  /// pipeline-parallel DNN training", 2021).
  one_f_one_b,
  /// The same with several chunks per stage (Narayanan et al., "Efficient large-scale language model training
  /// on GPU clusters using Megatron-LM", 2021).
  interleaved,
};

/// The forward or backward of a micro-batch through a chunk of the stage.
struct StageTask {
  bool is_backward = false;
  int micro_batch = 0;
  int chunk = 0;
  bool operator==(const StageTask&) const = default;
};

/// The size of a pipeline: stages, micro-batches per update, chunks of the model per stage.
struct PipelineShape {
  int stages = 1;
  int micro_batches = 1;
  int chunks = 1;
};

/// The tasks of a stage in order. In every schedule the backwards of a chunk are in the order of
/// micro-batches, so that gradients are always added up in the same order. Throws Error for several chunks
/// with a schedule other than `interleaved`.
std::vector<StageTask> stage_schedule(PipelineScheduleKind kind, const PipelineShape& shape, int stage);
/// The schedules of all stages.
std::vector<std::vector<StageTask>> pipeline_schedule(PipelineScheduleKind kind, const PipelineShape& shape);

/// A task from `begin` to `end`.
struct TimedTask {
  StageTask task;
  double begin, end;
};

/// When each stage runs its tasks, if messages take no time, a forward through a chunk takes `forward`, and a
/// backward takes `backward`. Throws Error that names a waiting stage and its task if the stages deadlock.
std::vector<std::vector<TimedTask>> simulate(const std::vector<std::vector<StageTask>>& schedule,
                                             double forward, double backward);
/// The bubble: the fraction of the stages' time, from 0 to the end of the last task, in which they wait.
double bubble_of(const std::vector<std::vector<TimedTask>>& times);
/// The most forwards of a stage whose backward has not ended: the number of tapes that it keeps at a time.
int max_in_flight(const std::vector<StageTask>& tasks);
/// The same for a stage of a schedule, in micro-batches: one through one of v chunks counts as 1 / v. At
/// least 1.
double micro_batches_in_flight(PipelineScheduleKind kind, const PipelineShape& shape, int stage);

/// A row for each stage, a column for each unit of time; a backward takes twice as long as a forward. "f2a"
/// is the forward of micro-batch 2 through chunk a, "b2a" its backward.
std::string draw_schedule(PipelineScheduleKind kind, const PipelineShape& shape);

}  // namespace ringtape
