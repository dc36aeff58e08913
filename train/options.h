#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/dtype.h"
#include "dist/slow_link.h"
#include "kernels/gemm.h"
#include "optim/registry.h"
#include "optim/schedule.h"

/// What a Trainer can be told. The initial values are the defaults. train/option_list.h has a name, a help
/// text and the accepted range of each.
namespace ringtape {

struct ModelOptions {
  std::string load;  ///< safetensors file with the weights to start from; empty: the model's own
  std::string save;  ///< safetensors file for the trained weights; empty: none
};

struct DataOptions {
  std::int64_t epochs = 3;
  std::int64_t max_steps = 0;           ///< 0: no limit
  std::int64_t batch_size = 64;         ///< samples in an update of the weights: the global batch
  std::int64_t eval_batch_size = 1000;  ///< samples at a time in an evaluation
  std::uint64_t seed = 0;               ///< of the initial weights and of the order of the samples
};

struct OptimizerOptions {
  const OptimizerKind* kind = &optimizer_named("adam");
  // None of these: the optimizer's own default.
  std::optional<double> learning_rate;
  std::optional<double> weight_decay;
  std::optional<double> momentum;
  std::optional<double> beta1;
  std::optional<double> beta2;
  bool decay_biases = false;  ///< decay parameters of fewer than two dimensions too

  double clip_norm = 0;                ///< limit of the global gradient norm; 0: no clipping
  double clip_norm_type = 2;           ///< p of that norm
  double clip_value = 0;               ///< limit of each gradient element; 0: no clipping
  bool clip_each_micro_batch = false;  ///< see train/option_list.cpp
};

enum class ScheduleKind { constant, linear, cosine, polynomial, step, one_cycle };

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::linear;
  double final_lr = 0;           ///< where linear, cosine and polynomial end, as a share of the learning rate
  double power = 2;              ///< of polynomial
  std::int64_t step_epochs = 1;  ///< epochs between two drops of step
  double gamma = 0.5;            ///< factor of each drop
  std::optional<std::int64_t> warmup = 0;  ///< steps; none: a length that suits the batch
  schedule::Warmup warmup_shape = schedule::Warmup::linear;
  BatchScaling lr_scaling = BatchScaling::none;  ///< how the learning rate grows with the batch
  std::int64_t base_batch = 64;                  ///< the batch that the learning rate suits, for lr_scaling
};

struct PrecisionOptions {
  /// The dtype that the model computes in; none: bf16 where the device has instructions for it, else f16.
  /// Weights and their gradients are f32 in any case.
  std::optional<DType> dtype = DType::f32;
  bool tf32 = false;  ///< let cuBLAS round the operands of f32 products to TF32
};

struct AccumulationOptions {
  std::int64_t micro_batch = 0;  ///< samples that go through the model at a time; 0: a rank's whole batch
  bool sync_each_micro_batch = false;  ///< reduce gradients after every micro-batch, not after the last alone
};

struct CheckpointOptions {
  std::string folder;          ///< empty: no checkpoints
  std::int64_t every = 500;    ///< steps from one to the next
  int keep = 3;                ///< the newest ones
  bool resume = false;         ///< go on from the newest one; start afresh where there is none
  bool change_length = false;  ///< resume a run with another number of steps
};

struct DistributionOptions {
  double comm_timeout = 60;           ///< seconds after which a collective that hangs ends the run
  double bucket_mib = 25;             ///< MiB of gradients that are reduced together
  bool no_overlap = false;            ///< reduce gradients after backward instead of during it
  int zero = 0;                       ///< stage of ZeRO: 0, 1 or 2
  std::optional<SlowLink> slow_link;  ///< a link that holds back what CPU ranks send each other
};

/// Steps of a run, counted from 1; the last one belongs to it.
struct StepRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
  bool operator==(const StepRange&) const = default;
};

struct ObservationOptions {
  bool quiet = false;          ///< print nothing but warnings
  std::string metrics;         ///< file for a JSON object a step
  bool memory_report = false;  ///< print where the memory of one update went
  std::string timeline;        ///< file for a trace of all ranks
  bool profile = false;        ///< print where the time of a step went
  std::optional<StepRange>
      profile_steps;          ///< steps of profile, timeline and report; none: 20 from the second on
  std::string sort = "self";  ///< column that the table of profile is sorted by
  bool print_tape = false;    ///< print what the tape recorded in the first step
  std::string save_tape;      ///< .svg or .dot file for a drawing of the tape
  std::string record_values;  ///< file for a JSON object for each tensor of each step (train/value_row.h)
  std::string report;         ///< .html file for a page about the run
};

struct TrainerOptions {
  std::string device = "auto";  ///< as Device::parse() takes it; with several ranks "cuda" is each one's own
  std::optional<GemmBackend> gemm;  ///< none: the vendor's library where there is one
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
