#include "train/option_list.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "train/option_types.h"

namespace ringtape {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Need optimizer_with(TrainerOptions& all, double OptimizerSettings::*setting) {
  return {"--optimizer " + list_of(optimizers_with(setting)),
          [&all, setting] { return has_setting(*all.optimizer.kind, setting); }};
}

Need schedule_of(TrainerOptions& all, const std::vector<ScheduleKind>& kinds) {
  std::vector<std::string> names;
  for (ScheduleKind kind : kinds) names.push_back(option_value(kind).write());
  return {"--schedule " + list_of(names),
          [&all, kinds] { return std::find(kinds.begin(), kinds.end(), all.schedule.kind) != kinds.end(); }};
}

std::vector<TrainerOption> machine_options(TrainerOptions& all) {
  const std::string group = "Machine";
  DataOptions& data = all.data;
  return {
      {
          .name = "device",
          .group = group,
          .value = option_value(all.device),
          .help = "auto, cpu, cuda or cuda:N; auto: the first GPU (with several ranks, the local rank's), "
                  "else cpu",
          .effect = Effect::machine,
      },
      {
          .name = "gemm",
          .group = group,
          .value = gemm_value(all.gemm),
          .help = "matrix products by the vendor's library (cuBLAS, oneDNN, OpenBLAS) or by Ringtape's own "
                  "kernel; default: vendor if available, as it is faster",
          .effect = Effect::execution,
      },
      {
          .name = "tf32",
          .group = group,
          .value = option_value(all.precision.tf32),
          .help = "let cuBLAS round the operands of f32 products to TF32 (faster)",
      },
      {
          .name = "graph",
          .group = group,
          .value = option_value(all.graph),
          .help =
              "capture an update as a CUDA graph and replay it: the same result, less time between kernels",
          .effect = Effect::execution,
      },
      {
          .name = "seed",
          .group = group,
          .value = option_value(data.seed),
          .help = "seed of the initial weights, of the order of the data and of dropout",
      },
  };
}

std::vector<TrainerOption> model_options(TrainerOptions& all) {
  const std::string group = "Model";
  return {
      {
          .name = "dtype",
          .group = group,
          .value = dtype_value(all.precision.dtype),
          .help = "compute dtype of the model; its weights and their gradients are always f32. auto: "
                  "bf16 if the device has instructions for it, else f16; f16 scales the loss, and skips "
                  "an update whose gradients overflow",
      },
      {
          .name = "load",
          .group = group,
          .value = file_value(all.model.load),
          .help = "start from the weights in this safetensors file",
          .effect = Effect::output,
      },
      {
          .name = "save",
          .group = group,
          .value = file_value(all.model.save),
          .help = "write the trained weights to this safetensors file",
          .effect = Effect::output,
      },
      {
          .name = "freeze",
          .group = group,
          .value = option_value(all.model.freeze),
          .help = "do not train the parameters with these names; * stands for any text: \"wte.*,h.*.mlp.*\"",
      },
      {
          .name = "train-only",
          .group = group,
          .value = option_value(all.model.train_only),
          .help = "train only the parameters with these names",
          .excludes = {"freeze"},
      },
  };
}

std::vector<TrainerOption> training_options(TrainerOptions& all) {
  const std::string group = kTrainingGroup;
  DataOptions& data = all.data;
  return {
      {
          .name = "epochs",
          .group = group,
          .value = positive(data.epochs),
          .help = "passes over the training data",
          .effect = Effect::execution,
      },
      {
          .name = "max-steps",
          .group = group,
          .value = not_negative(data.max_steps),
          .help = "at most this number of steps; 0: no limit",
          .effect = Effect::execution,
      },
      {
          .name = "batch-size",
          .group = group,
          .value = positive(data.batch_size),
          .help = kBatchSizeHelp,
      },
      {
          .name = "micro-batch",
          .group = group,
          .value = not_negative(all.accumulation.micro_batch),
          .help =
              "samples in a forward pass of a rank; their gradients are accumulated, with the same result as "
              "for the whole batch, but with dropout other masks; 0: a rank's whole batch",
          .effect = Effect::execution,
      },
      {
          .name = "eval-batch-size",
          .group = group,
          .value = positive(data.eval_batch_size),
          .help = "samples in a forward pass of an evaluation",
          .effect = Effect::execution,
      },
  };
}

std::vector<TrainerOption> optimizer_options(TrainerOptions& all) {
  const std::string group = kOptimizerGroup;
  OptimizerOptions& o = all.optimizer;
  return {
      {
          .name = "optimizer",
          .group = group,
          .value = optimizer_value(o.kind),
          .help = "the optimizer: " + list_of(optimizer_names()),
      },
      {
          .name = "lr",
          .group = group,
          .value = f32_value(o.learning_rate),
          .help = "learning rate",
          .default_text = optimizer_defaults(&OptimizerSettings::learning_rate),
      },
      {
          .name = "momentum",
          .group = group,
          .value = finite_value(o.momentum),
          .help = "momentum",
          .needs = optimizer_with(all, &OptimizerSettings::momentum),
          .default_text = optimizer_defaults(&OptimizerSettings::momentum),
      },
      {
          .name = "beta1",
          .group = group,
          .value = below_one_value(o.beta1),
          .help = "decay rate of the first moment",
          .needs = optimizer_with(all, &OptimizerSettings::beta1),
          .default_text = optimizer_defaults(&OptimizerSettings::beta1),
      },
      {
          .name = "beta2",
          .group = group,
          .value = below_one_value(o.beta2),
          .help = "decay rate of the second moment",
          .needs = optimizer_with(all, &OptimizerSettings::beta2),
          .default_text = optimizer_defaults(&OptimizerSettings::beta2),
      },
      {
          .name = "weight-decay",
          .group = group,
          .value = finite_value(o.weight_decay),
          .help = "weight decay",
          .default_text = optimizer_defaults(&OptimizerSettings::weight_decay),
      },
      {
          .name = "decay-biases",
          .group = group,
          .value = option_value(o.decay_biases),
          .help = "decay parameters of one dimension too (biases, norms), as PyTorch's optimizers do",
          .needs = {"--weight-decay",
                    [&o] { return o.weight_decay.value_or(o.kind->defaults.weight_decay) > 0; }},
      },
  };
}

std::vector<TrainerOption> clipping_options(TrainerOptions& all) {
  const std::string group = kClippingGroup;
  OptimizerOptions& o = all.optimizer;
  return {
      {
          .name = "clip-norm",
          .group = group,
          .value = f32_value(o.clip_norm),
          .help = "limit of the global gradient norm; 0: no clipping",
      },
      {
          .name = "clip-norm-type",
          .group = group,
          .value = in_range(option_value(o.clip_norm_type), 1e-6, kInfinity),
          .help = "p of the norm of --clip-norm, above 0; inf: the largest element",
          .needs = {"--clip-norm", [&o] { return o.clip_norm > 0; }},
      },
      {
          .name = "clip-each-micro-batch",
          .group = group,
          .value = option_value(o.clip_each_micro_batch),
          .help =
              "clip the accumulated gradients after every micro-batch instead of once a step, to the limit "
              "divided by the square root of the number of micro-batches; the result depends on the "
              "micro-batches and on the number of ranks",
          .needs = {"--clip-norm", [&o] { return o.clip_norm > 0; }},
          .excludes = {"sync-each-micro-batch", "zero"},
      },
      {
          .name = "clip-value",
          .group = group,
          .value = f32_value(o.clip_value),
          .help = "limit of each gradient element; 0: no clipping",
      },
  };
}

std::vector<TrainerOption> schedule_options(TrainerOptions& all) {
  const std::string group = kScheduleGroup;
  ScheduleOptions& s = all.schedule;
  return {
      {
          .name = "schedule",
          .group = group,
          .value = option_value(s.kind),
          .help =
              "after the warm-up: constant; linear, cosine or polynomial (down to --final-lr-fraction); step "
              "(times --gamma every --step-epochs); or one-cycle, which includes a warm-up",
      },
      {
          .name = "final-lr-fraction",
          .group = group,
          .value = in_range(option_value(s.final_lr_fraction), 0, 1),
          .help = "final rate of linear, cosine and polynomial, as a fraction of --lr",
          .needs = schedule_of(all, {ScheduleKind::linear, ScheduleKind::cosine, ScheduleKind::polynomial}),
      },
      {
          .name = "power",
          .group = group,
          .value = finite_value(s.power),
          .help = "exponent of polynomial",
          .needs = schedule_of(all, {ScheduleKind::polynomial}),
      },
      {
          .name = "step-epochs",
          .group = group,
          .value = positive(s.step_epochs),
          .help = "epochs between two decays of step",
          .needs = schedule_of(all, {ScheduleKind::step}),
      },
      {
          .name = "gamma",
          .group = group,
          .value = finite_value(s.gamma),
          .help = "factor of each decay of step",
          .needs = schedule_of(all, {ScheduleKind::step}),
      },
      {
          .name = "warmup",
          .group = group,
          .value = warmup_value(s.warmup),
          .help =
              "steps of warm-up, or auto: 0.3125 epochs at a batch of 512, in proportion for other batches "
              "(You et al., 2020), at most a quarter of the run",
      },
      {
          .name = "warmup-shape",
          .group = group,
          .value = option_value(s.warmup_shape),
          .help = "linear or quadratic increase, or constant at a third of the learning rate",
          .needs = {"--warmup", [&s] { return s.warmup != 0; }},
      },
      {
          .name = "lr-scaling",
          .group = group,
          .value = option_value(s.lr_scaling),
          .help = "how the learning rate grows with the batch: --lr is then the rate for --base-batch",
      },
      {
          .name = "base-batch",
          .group = group,
          .value = positive(s.base_batch),
          .help = "batch for which --lr was chosen, for --lr-scaling",
          .needs = {"--lr-scaling", [&s] { return s.lr_scaling != BatchScaling::none; }},
      },
  };
}

std::vector<TrainerOption> checkpoint_options(TrainerOptions& all) {
  const std::string group = "Checkpoints";
  CheckpointOptions& c = all.checkpoint;
  return {
      {
          .name = "checkpoint",
          .group = group,
          .value = file_value(c.folder, "DIR"),
          .help = "save checkpoints to this folder, every --checkpoint-every steps and at the end",
          .effect = Effect::output,
      },
      {
          .name = "checkpoint-every",
          .group = group,
          .value = positive(c.every),
          .help = "steps between two checkpoints",
          .effect = Effect::output,
          .needs = {"--checkpoint", [&c] { return !c.folder.empty(); }},
      },
      {
          .name = "keep",
          .group = group,
          .value = in_range(option_value(c.keep), 1, 1 << 20),
          .help = "number of newest checkpoints to keep",
          .effect = Effect::output,
          .needs = {"--checkpoint", [&c] { return !c.folder.empty(); }},
      },
      {
          .name = "resume",
          .group = group,
          .value = option_value(c.resume),
          .help =
              "resume from the newest complete checkpoint, with the result of a run that was never "
              "stopped; start from scratch if there is none. --device, --gemm, --micro-batch, --zero, the "
              "number of ranks and the division of the model over them may change: the result then "
              "differs only by rounding (with dropout and another micro-batch or number of data ranks, also "
              "by its masks)",
          .effect = Effect::output,
          .needs = {"--checkpoint", [&c] { return !c.folder.empty(); }},
      },
      {
          .name = "change-length",
          .group = group,
          .value = option_value(c.change_length),
          .help = "with --resume: allow another number of steps than before; a schedule that depends on the "
                  "length continues as if the run had had the new length from its start",
          .effect = Effect::output,
          .needs = {"--resume", [&c] { return c.resume; }},
      },
  };
}

std::vector<TrainerOption> data_parallel_options(TrainerOptions& all) {
  const std::string group = kRankGroup;
  DistributionOptions& d = all.distribution;
  return {
      {
          .name = "comm-timeout",
          .group = group,
          .value = in_range(option_value(d.comm_timeout), 0.1, 1e6),
          .help = "timeout of an operation between ranks in seconds, in a pipeline including its wait for "
                  "the other stages' forwards and backwards; a timeout ends the run",
          .effect = Effect::execution,
      },
      {
          .name = "bucket-mib",
          .group = group,
          .value = in_range(option_value(d.bucket_mib), 1e-6, 1e6),
          .help = "MiB of gradients in a bucket; the first has at most 1, so that reduction begins early",
          .effect = Effect::execution,
      },
      {
          .name = "no-overlap",
          .group = group,
          .value = option_value(d.no_overlap),
          .help = "reduce gradients after backward instead of during it, and with --zero 1 gather the new "
                  "parameters in the step",
          .effect = Effect::execution,
      },
      {
          .name = "compress",
          .group = group,
          .value = compression_value(d.compress),
          .help =
              "send gradients between the ranks in 16 bits, half the bytes: they are added in f32, but each "
              "sum is rounded to 16 bits; the update stays in f32. No effect with one data rank; not with "
              "ZeRO, which reduces gradients by reduce-scatter",
          .excludes = {"zero"},
      },
      {
          .name = "sync-each-micro-batch",
          .group = group,
          .value = option_value(all.accumulation.sync_each_micro_batch),
          .help = "reduce gradients after every micro-batch instead of after the last: more communication, "
                  "the same result except for rounding",
          .effect = Effect::execution,
          .needs = {"--micro-batch", [&all] { return all.accumulation.micro_batch > 0; }},
      },
      {
          .name = "zero",
          .group = group,
          .value = in_range(option_value(d.zero), 0, 3),
          .help = "stage of ZeRO sharding over the ranks: 1: the optimizer's state; 2: the gradients too, "
                  "which are then reduced after every micro-batch; 3: the parameters too, gathered for each "
                  "forward and backward; 0: none. No effect with one data rank",
          .effect = Effect::execution,
      },
      {
          .name = "no-reshard",
          .group = group,
          .value = option_value(d.no_reshard),
          .help = "with --zero 3: keep the parameters that a forward has gathered until its backward, which "
                  "halves the gathers, but needs memory for all parameters",
          .effect = Effect::execution,
          .needs = {"--zero 3", [&d] { return d.zero == 3; }},
      },
  };
}

std::vector<TrainerOption> model_parallel_options(TrainerOptions& all) {
  const std::string group = kRankGroup;
  DistributionOptions& d = all.distribution;
  return {
      {
          .name = "tensor-parallel",
          .group = group,
          .value = in_range(option_value(d.tensor_parallel), 1, 1 << 20),
          .help =
              "number of ranks that divide each layer of the model (docs/parallel.md); groups of these ranks "
              "divide the batch",
          .effect = Effect::execution,
          .excludes = {"freeze", "train-only"},
      },
      {
          .name = "sequence-parallel",
          .group = group,
          .value = option_value(d.sequence_parallel),
          .help = "the ranks of --tensor-parallel divide each sequence's tokens where they do not divide the "
                  "layers: norms, dropout, residual sums; for models of tokens",
          .effect = Effect::execution,
          .needs = {"--tensor-parallel", [&d] { return d.tensor_parallel > 1; }},
          .excludes = {"clip-each-micro-batch"},
      },
      {
          .name = "context-parallel",
          .group = group,
          .value = in_range(option_value(d.context_parallel), 1, 1 << 20),
          .help = "number of ranks that divide the tokens of each sequence, for models of tokens; "
                  "attention's keys and values go round a ring of them (docs/parallel.md)",
          .effect = Effect::execution,
          .excludes = {"freeze", "train-only", "clip-each-micro-batch"},
      },
      {
          .name = "pipeline-parallel",
          .group = group,
          .value = in_range(option_value(d.pipeline_parallel), 1, 1 << 20),
          .help =
              "number of pipeline stages, ranks that each have some layers of the model and through which "
              "the micro-batches of --micro-batch go (docs/parallel.md); groups of these ranks divide the "
              "batch",
          .effect = Effect::execution,
          .excludes = {"freeze", "train-only", "record-values", "print-tape", "save-tape",
                       "clip-each-micro-batch", "sync-each-micro-batch"},
      },
      {
          .name = "pipeline-schedule",
          .group = group,
          .value =
              named_option_value(d.pipeline_schedule, {{"afab", PipelineScheduleKind::afab},
                                                       {"1f1b", PipelineScheduleKind::one_f_one_b},
                                                       {"interleaved", PipelineScheduleKind::interleaved}}),
          .help = "order of a stage's work: afab, all forwards before all backwards; 1f1b, one forward, one "
                  "backward, which keeps fewer micro-batches in memory; interleaved, 1f1b over the "
                  "--pipeline-chunks of each stage, which waits less",
          .effect = Effect::execution,
          .needs = {"--pipeline-parallel", [&d] { return d.pipeline_parallel > 1; }},
      },
      {
          .name = "pipeline-chunks",
          .group = group,
          .value = in_range(option_value(d.pipeline_chunks), 1, 1 << 20),
          .help = "chunks of the model (virtual stages) in each stage",
          .effect = Effect::execution,
          .needs = {"--pipeline-schedule interleaved",
                    [&d] { return d.pipeline_schedule == PipelineScheduleKind::interleaved; }},
      },
  };
}

std::vector<TrainerOption> rank_test_options(TrainerOptions& all) {
  const std::string group = kRankGroup;
  DistributionOptions& d = all.distribution;
  return {
      {
          .name = "check-replicas",
          .group = group,
          .value = option_value(d.check_replicas),
          .help =
              "compare the parameters that must be equal on several ranks, bit by bit, after every step "
              "(with --zero 3 only over --tensor-parallel, and tied weights over --pipeline-parallel); slow",
          .effect = Effect::execution,
      },
      {
          .name = "slow-link",
          .group = group,
          .value = option_value(d.slow_link),
          .help = "delay messages between ranks on CPUs as on a link with this latency and bandwidth, "
                  "such as 100,250: 100 microseconds and 250 MB/s",
          .effect = Effect::execution,
      },
  };
}

constexpr const char* kOutputGroup = "Output";

std::vector<TrainerOption> measurement_options(TrainerOptions& all) {
  const std::string group = kOutputGroup;
  ObservationOptions& see = all.observation;
  return {
      {
          .name = "quiet",
          .group = group,
          .value = option_value(see.quiet),
          .help = "print only warnings, errors, and the tape of --print-tape",
          .effect = Effect::output,
      },
      {
          .name = "metrics",
          .group = group,
          .value = file_value(see.metrics),
          .help = "write a JSON object for each step, and one for the result, to this file",
          .effect = Effect::output,
      },
      {
          .name = "memory-report",
          .group = group,
          .value = option_value(see.memory_report),
          .help = "print the memory of one update of the first rank, by category, over time and, for models "
                  "that have a formula, by formula",
          .effect = Effect::output,
          .excludes = {"graph"},
      },
      {
          .name = "timeline",
          .group = group,
          .value = format_file_value(see.timeline, {".json"}),
          .help =
              "write the times at which each rank computed, waited and sent data, and its memory, to this "
              "file, as a trace for Perfetto, and print the fraction of communication that was hidden",
          .effect = Effect::output,
      },
      {
          .name = "profile",
          .group = group,
          .value = option_value(see.profile),
          .help = "print the time of a step by operation and by phase",
          .effect = Effect::output,
          .excludes = {"graph"},
      },
      {
          .name = "profile-steps",
          .group = group,
          .value = step_range_value(see.profile_steps),
          .help =
              "steps A to B, such as 10:12, for --profile, --timeline and --report, and on a GPU for Nsight, "
              "if it waits for cudaProfilerStart [20 steps from the run's second on]",
          .effect = Effect::output,
      },
      {
          .name = "sort",
          .group = group,
          .value = option_value(see.sort),
          .help = "sort column of the table of --profile",
          .effect = Effect::output,
          .needs = {"--profile", [&see] { return see.profile; }},
      },
  };
}

std::vector<TrainerOption> record_options(TrainerOptions& all) {
  const std::string group = kOutputGroup;
  ObservationOptions& see = all.observation;
  return {
      {
          .name = "print-tape",
          .group = group,
          .value = option_value(see.print_tape),
          .help = "print the tape of the first step",
          .effect = Effect::output,
      },
      {
          .name = "print-graph",
          .group = group,
          .value = option_value(see.print_graph),
          .help = "print the launches of one update's CUDA graph: kernel, blocks and threads, dynamic shared "
                  "memory, and the launches that each waits for",
          .effect = Effect::output,
          .needs = {"--graph", [&all] { return all.graph; }},
      },
      {
          .name = "record-values",
          .group = group,
          .value = file_value(see.record_values),
          .help = "write a hash, statistics and some values of each operation's output and gradient, and of "
                  "each parameter and its gradient, to this file, for compare_runs; slow",
          .effect = Effect::output,
          .excludes = {"graph"},
      },
      {
          .name = "report",
          .group = group,
          .value = format_file_value(see.report, {".html", ".json"}),
          .help =
              "write a self-contained HTML page to this file: curves, profile, timeline of a step, memory, "
              "tape and machine; or the same as JSON",
          .effect = Effect::output,
          .excludes = {"graph"},
      },
      {
          .name = "save-graph",
          .group = group,
          .value = format_file_value(see.save_graph, {".json"}),
          .help = "write the launches of --print-graph to this file as JSON, for benchmarks/sass graph",
          .effect = Effect::output,
          .needs = {"--graph", [&all] { return all.graph; }},
      },
      {
          .name = "save-tape",
          .group = group,
          .value = format_file_value(see.save_tape, {".svg", ".dot"}),
          .help = "draw the tape of the first step to this file: an SVG picture, or a graph for Graphviz",
          .effect = Effect::output,
      },
  };
}

}  // namespace

std::vector<TrainerOption> options_of(TrainerOptions& all) {
  std::vector<TrainerOption> options;
  for (const auto group : {machine_options, model_options, training_options, optimizer_options,
                           clipping_options, schedule_options, checkpoint_options, data_parallel_options,
                           model_parallel_options, rank_test_options, measurement_options, record_options}) {
    for (TrainerOption& option : group(all)) options.push_back(std::move(option));
  }
  return options;
}

}  // namespace ringtape
