#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "dist/pipeline_schedule.h"
#include "dist/slow_link.h"
#include "kernels/gemm.h"
#include "optim/registry.h"
#include "optim/schedule.h"
#include "profile/profile.h"

/// The options of a Trainer. The initial values are the defaults. train/option_list.h has the name, help text
/// and accepted range of each option. Errors name an option as the training programs do, by its flag:
/// `checkpoint.resume` is --resume, `schedule.final_lr_fraction` --final-lr-fraction.
namespace ringtape {

/// The files of the weights, and which parameters are trained.
struct ModelOptions {
  std::string load;  ///< safetensors file with the weights to start from; empty: the model's own
  std::string save;  ///< safetensors file for the trained weights; empty: none
  std::vector<std::string> freeze;      ///< names or patterns of parameters not to train (nn/freeze.h)
  std::vector<std::string> train_only;  ///< the only parameters to train, likewise; empty: all
};

/// The length of training, the batch sizes and the seed.
struct DataOptions {
  std::int64_t epochs = 3;
  std::int64_t max_steps = 0;           ///< 0: no limit
  std::int64_t batch_size = 64;         ///< samples in an update of the weights: the global batch
  std::int64_t eval_batch_size = 1000;  ///< samples in a forward pass of an evaluation
  std::uint64_t seed = 0;               ///< of the initial weights, the order of the samples and dropout
};

/// The optimizer, its hyperparameters, and clipping.
struct OptimizerOptions {
  const OptimizerKind* kind = &optimizer_named("adam");
  // Without a value: OptimizerKind::defaults, which may differ from the defaults of the optimizer's class.
  std::optional<double> learning_rate;
  std::optional<double> weight_decay;
  std::optional<double> momentum;
  std::optional<double> beta1;
  std::optional<double> beta2;
  bool decay_biases = false;  ///< also decay parameters of fewer than two dimensions

  double clip_norm = 0;       ///< limit of the global gradient norm; 0: no clipping
  double clip_norm_type = 2;  ///< p of the p-norm for clip_norm
  double clip_value = 0;      ///< limit of each gradient element; 0: no clipping
  /// Clip after every micro-batch, to clip_norm / sqrt(micro-batches), instead of once a step: see
  /// clip_grad_norm_now().
  bool clip_each_micro_batch = false;
};

/// The functions of optim/schedule.h.
enum class ScheduleKind { constant, linear, cosine, polynomial, step, one_cycle };

/// The learning rate as a function of the step (optim/schedule.h).
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::linear;
  double final_lr_fraction = 0;  ///< final rate of linear, cosine and polynomial over the learning rate
  double power = 2;              ///< of polynomial
  std::int64_t step_epochs = 1;  ///< epochs between two decays of step
  double gamma = 0.5;            ///< factor of each decay
  std::optional<std::int64_t> warmup = 0;  ///< steps; none: suggested_warmup_steps()
  /// Shorten a warm-up that is not shorter than the run to a quarter of the run, and to 0 with one_cycle,
  /// which includes a warm-up.
  bool shorten_warmup = false;
  schedule::Warmup warmup_shape = schedule::Warmup::linear;
  BatchScaling lr_scaling = BatchScaling::none;  ///< how the learning rate grows with the batch
  std::int64_t base_batch = 64;  ///< for lr_scaling: the batch for which the learning rate was chosen
};

/// The dtypes of the model's arithmetic.
struct PrecisionOptions {
  /// The dtype that the model computes in; none: bf16 if the device has instructions for it, else f16.
  /// Weights and their gradients are always f32.
  std::optional<DType> dtype = DType::f32;
  bool tf32 = false;  ///< let cuBLAS round the operands of f32 products to TF32
};

/// How an update is divided into micro-batches.
struct AccumulationOptions {
  std::int64_t micro_batch = 0;        ///< samples in a forward pass; 0: a rank's whole batch
  bool sync_each_micro_batch = false;  ///< reduce gradients after every micro-batch, not only the last
};

/// Where checkpoints are written, and whether a run resumes from one.
struct CheckpointOptions {
  std::string folder;          ///< empty: no checkpoints
  std::int64_t every = 500;    ///< steps between two checkpoints
  int keep = 3;                ///< number of newest checkpoints to keep
  bool resume = false;         ///< resume from the newest; start from scratch if there is none
  bool change_length = false;  ///< allow a resumed run to have another number of steps
};

/// How the ranks divide batches, training state, model and sequences.
struct DistributionOptions {
  double comm_timeout = 60;        ///< timeout of a collective in seconds; a timeout ends the run
  double bucket_mib = 25;          ///< MiB of gradients in a bucket
  bool no_overlap = false;         ///< reduce gradients after backward instead of during it
  std::optional<DType> compress;   ///< dtype in which gradients are reduced between ranks; none: f32
  int zero = 0;                    ///< stage of ZeRO: 0 to 3
  bool no_reshard = false;         ///< in stage 3: keep gathered units from forward to backward
  int tensor_parallel = 1;         ///< ranks that divide the model's layers (docs/parallel.md)
  bool sequence_parallel = false;  ///< tensor ranks also divide the tokens between the divided layers
  int context_parallel = 1;        ///< ranks that divide the tokens of each sequence
  int pipeline_parallel = 1;       ///< number of stages of the model
  PipelineScheduleKind pipeline_schedule = PipelineScheduleKind::one_f_one_b;
  int pipeline_chunks = 1;            ///< chunks (virtual stages) in each stage, for the interleaved schedule
  bool check_replicas = false;        ///< compare the ranks' copies of parameters after every step
  std::optional<SlowLink> slow_link;  ///< delays messages between CPU ranks
};

/// The steps `first` to `last` of a run, both included, counted from 1.
struct StepRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
  bool operator==(const StepRange&) const = default;
};

/// The output of a run about itself, on the terminal and in files.
struct ObservationOptions {
  bool quiet = false;          ///< print only warnings and the tape of print_tape
  std::string metrics;         ///< file for a JSON object for each step
  bool memory_report = false;  ///< print the memory of one update by category
  std::string timeline;        ///< file for a Perfetto trace of all ranks
  bool profile = false;        ///< print the time of a step by operation
  std::optional<StepRange>
      profile_steps;  ///< steps of profile, timeline and report; none: 20 from the second on
  ProfileColumn sort = ProfileColumn::self;  ///< sort column of the table of profile
  bool print_tape = false;                   ///< print the tape of the first step
  bool print_graph = false;                  ///< print the nodes of the CUDA graph of a step
  std::string save_tape;                     ///< .svg or .dot file for a drawing of the tape
  std::string save_graph;                    ///< .json file for the nodes of the CUDA graph of a step
  std::string record_values;  ///< file for a JSON object for each tensor of each step (train/value_row.h)
  std::string report;         ///< .html file for a page about the run, or .json file for its data
};

/// All options of a Trainer.
struct TrainerOptions {
  std::optional<Device> device;     ///< none: the local rank's GPU, or the CPU if there are no GPUs
  std::optional<GemmBackend> gemm;  ///< none: unchanged, by default the vendor's library if available
  bool graph = false;               ///< capture an update as a CUDA graph and replay it
  ModelOptions model;
  DataOptions data;
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  PrecisionOptions precision;
  AccumulationOptions accumulation;
  CheckpointOptions checkpoint;
  DistributionOptions distribution;
  ObservationOptions observation;
};

}  // namespace ringtape
