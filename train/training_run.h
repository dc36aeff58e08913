#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/memory.h"
#include "data/loader.h"
#include "dist/mesh.h"
#include "dist/pipeline.h"
#include "optim/loss_scaler.h"
#include "train/checkpointing.h"
#include "train/learning_rate.h"
#include "train/recorded_steps.h"
#include "train/report/run_report.h"
#include "train/run_log.h"
#include "train/trainer.h"
#include "train/training_state.h"
#include "train/update.h"
#include "train/value_record.h"

namespace ringtape {

/// One training run: its parts (train/run_parts.cpp), the checks, most of them before the parts are made
/// (train/run_checks.cpp), its description at the beginning (train/run_description.cpp), the loop over epochs
/// and steps (train/training_run.cpp), the settings in its checkpoints (train/run_settings.cpp), and the
/// output at the end (train/run_outputs.cpp). All ranks run the same code; only rank 0 prints and writes
/// files.
class Trainer::Run {
 public:
  Run(Task task, TrainerOptions options, Mesh mesh);

  TrainingResult train();
  EvaluationResult evaluate();
  std::string schedule_text() const;
  std::string mesh_text() const { return draw_mesh(mesh_.sizes()); }
  std::string pipeline_text() const;
  static std::string pipeline_text_of_one_rank(Task task, const TrainerOptions& options);
  std::shared_ptr<Module> whole_model();
  void barrier(double seconds = 0) const;
  /// Throws Error after train(), when `call` would have no effect.
  void check_not_trained(const char* call) const;
  double seconds_of_files() const;

  Module& model() const { return *model_; }
  ParameterArena& arena() { return *arena_; }
  Optimizer& optimizer() const { return *optimizer_; }
  Communicator& comm() const { return *comm_; }

  struct TextHook {
    std::int64_t every;
    std::string title;
    std::function<std::string()> make;
  };
  std::vector<Hook> before_step, after_step;
  std::vector<TextHook> texts;

 private:
  /// The parts that only training needs, not an evaluation.
  struct Training {
    TrainingPosition at;
    Update update;
    RecordedSteps recorded;
    RunLog log;  ///< made after all checks: it truncates the metrics after the resumed step
    ValueRecord values;
    std::int64_t reported_step;                  ///< the step of the memory report, counted from 0
    std::optional<MemoryRecording> memory = {};  ///< of that step
    std::string traffic = {};                    ///< between the ranks, of that step
  };

  // ---- run_parts.cpp ----
  void connect_stages();
  void shard_values();

  // ---- run_checks.cpp ----
  void check_order() const;
  void check_before_model() const;
  static void check_batch(const TrainerOptions& options, int data_ranks, bool divides_model);
  void check_sharded_parameters() const;
  void check_last_update() const;
  void check_equal_forwards(std::int64_t samples, const char* what, std::int64_t at_once,
                            const char* flag) const;
  void check_memory() const;
  void check_has_replicas() const;

  // ---- run_description.cpp ----
  void describe_model() const;
  void describe_device() const;
  std::string describe_training() const;
  std::int64_t model_elements() const;

  // ---- run_settings.cpp ----
  std::string warmup_text(std::int64_t steps) const;
  TrainingSettings checkpoint_settings() const;

  // ---- training_run.cpp ----
  EvaluationResult run_steps(Training& training, TrainingState& state, Checkpointing& checkpoints);
  void run_step(Training& training);
  void make_texts(Training& training);
  Throughput throughput() const;
  std::optional<Batch> next_batch();
  EvaluationResult evaluate_weights();
  EvaluationResult evaluate_or_save(std::int64_t step);
  std::int64_t batch_of_rank() const { return options_.data.batch_size / data_ranks(); }
  std::int64_t max_micro_batch() const;
  /// The number of ranks that divide the batch, and this rank's number among them.
  int data_ranks() const { return mesh_.along(MeshDimension::data)->size(); }
  int data_rank() const { return mesh_.along(MeshDimension::data)->rank(); }
  /// The same for the ranks that have the same part of the model, over which gradients are averaged.
  int mean_ranks() const { return mesh_.data_and_context()->size(); }
  int mean_rank() const { return mesh_.data_and_context()->rank(); }
  /// Whether ranks divide the model or its sequences.
  bool divides_model() const { return layers_ != nullptr; }
  bool divides_layers() const { return mesh_.sizes().divide_layers(); }
  /// Null without a pipeline.
  const Stages* stages() const { return divides_model() ? layers_->stages() : nullptr; }
  bool counts_correct() const { return task_.counts_correct; }
  bool is_first() const { return comm_->rank() == 0; }

  // ---- run_outputs.cpp ----
  void write_outputs(Training& training, const EvaluationResult& result);
  report::RunReport report_of(const RunLog& log) const;
  std::vector<Fact> results_of(const RunLog& log, const EvaluationResult& result) const;
  void write_report_of_failure(const Training& training, const std::string& error) const;
  GptPart part_of_rank() const;
  BytesByCategory estimate_memory(DType compute, const GptPart& part) const;
  BytesByCategory estimate_memory() const;

  Task task_;
  TrainerOptions options_;
  Mesh mesh_;
  std::shared_ptr<Communicator> comm_;    // of all ranks
  std::shared_ptr<LayerFactory> layers_;  // null unless ranks divide the model or its sequences
  std::unique_ptr<Pipeline> pipeline_;    // null without stages
  Device device_;
  Console console_;
  BytesByCategory memory_before_;  // live before the run, such as a dataset on the device
  std::shared_ptr<Module> model_;
  std::optional<ParameterArena> arena_;
  std::unique_ptr<Optimizer> optimizer_;
  double learning_rate_ = 0;              // the base rate of the schedule
  std::optional<LossScaler> scaler_;      // for f16
  std::shared_ptr<const Sampler> order_;  // of the samples of all ranks
  std::shared_ptr<DistributedSampler> sampler_;
  std::optional<DataLoader> loader_;
  RunLength length_;
  Schedule schedule_;
  bool has_trained_ = false;
};

}  // namespace ringtape
