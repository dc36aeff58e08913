#include "train/option_list.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "core/error.h"
#include "core/quote.h"
#include "profile/profile.h"
#include "train/recorded_steps.h"

namespace ringtape {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A finite number from 0.
template <class T>
OptionValue size(T& value) {
  return in_range(option_value(value), 0, std::numeric_limits<double>::max());
}

OptionValue file(std::string& value, const char* type = "FILE") {
  return file_value(value, type);
}

/// A file whose name says in which of two formats it is written.
OptionValue file_of(std::string& value, const char* one, const char* other) {
  return checked(file_value(value, fmt::format("FILE{}|FILE{}", one, other)), [=](const std::string& text) {
    check(text.ends_with(one) || text.ends_with(other), "expected a file that ends on {} or {}, found {}",
          one, other, quote(text));
  });
}

OptionValue optimizer(const OptimizerKind*& kind) {
  std::vector<std::pair<std::string, const OptimizerKind*>> names;
  for (const OptimizerKind& each : optimizers()) names.emplace_back(each.name, &each);
  return named_option_value(kind, names);
}

OptionValue gemm(std::optional<GemmBackend>& backend) {
  return named_option_value<std::optional<GemmBackend>>(
      backend, {{"default", std::nullopt}, {"own", GemmBackend::own}, {"vendor", GemmBackend::vendor}});
}

OptionValue dtype(std::optional<DType>& value) {
  return named_option_value<std::optional<DType>>(
      value, {{"f32", DType::f32}, {"bf16", DType::bf16}, {"f16", DType::f16}, {"auto", std::nullopt}});
}

OptionValue step_range(std::optional<StepRange>& range) {
  return {"A:B",
          [&range](const std::string& text) {
            range = text.empty() ? std::nullopt : std::optional(parse_step_range(text));
          },
          [&range] { return range ? fmt::format("{}:{}", range->first, range->last) : std::string(); }};
}

OptionValue column(std::string& name) {
  std::vector<std::pair<std::string, std::string>> names;
  for (const std::string_view each : profile_columns()) names.emplace_back(each, each);
  return named_option_value(name, names);
}

}  // namespace

OptionValue option_value(ScheduleKind& kind) {
  return named_option_value<ScheduleKind>(kind, {{"constant", ScheduleKind::constant},
                                                 {"linear", ScheduleKind::linear},
                                                 {"cosine", ScheduleKind::cosine},
                                                 {"polynomial", ScheduleKind::polynomial},
                                                 {"step", ScheduleKind::step},
                                                 {"one-cycle", ScheduleKind::one_cycle}});
}

OptionValue option_value(schedule::Warmup& shape) {
  return named_option_value<schedule::Warmup>(shape, {{"linear", schedule::Warmup::linear},
                                                      {"quadratic", schedule::Warmup::quadratic},
                                                      {"constant", schedule::Warmup::constant}});
}

OptionValue option_value(BatchScaling& rule) {
  return named_option_value<BatchScaling>(
      rule,
      {{"none", BatchScaling::none}, {"linear", BatchScaling::linear}, {"sqrt", BatchScaling::square_root}});
}

OptionValue warmup_value(std::optional<std::int64_t>& steps) {
  return {"INT|auto",
          [&steps](const std::string& text) {
            if (text == "auto") {
              steps = std::nullopt;
              return;
            }
            const bool digits = !text.empty() && text.size() < 16 &&
                                text.find_first_not_of("0123456789") == std::string::npos;
            check(digits, "expected a number of steps or auto, found {}", quote(text));
            steps = std::stoll(text);
          },
          [&steps] { return steps ? fmt::format("{}", *steps) : std::string("auto"); }};
}

OptionValue option_value(std::optional<SlowLink>& link) {
  return {"LATENCY_US,MBYTES_PER_S",
          [&link](const std::string& text) {
            link = text.empty() ? std::nullopt : std::optional(parse_slow_link(text));
          },
          [&link] {
            return link ? fmt::format("{},{}", link->latency.count() * 1e6, link->bytes_per_second * 1e-6)
                        : std::string();
          }};
}

std::vector<TrainerOption> options_of(TrainerOptions& all) {
  const std::string machine = "Machine", model = "Model", training = "Training", optimizing = "Optimizer",
                    clipping = "Clipping", schedule = "Schedule of the learning rate",
                    checkpoints = "Checkpoints", ranks = "Several ranks (mpirun, torchrun, srun)",
                    output = "Output";
  DataOptions& data = all.data;
  OptimizerOptions& o = all.optimizer;
  ScheduleOptions& s = all.schedule;
  CheckpointOptions& c = all.checkpoint;
  DistributionOptions& d = all.distribution;
  ObservationOptions& see = all.observation;
  return {
      {"device", machine, option_value(all.device),
       "auto, cpu, cuda or cuda:N; auto: the first GPU, else cpu", Effect::machine},
      {"gemm", machine, gemm(all.gemm),
       "matrix products by the vendor's library (cuBLAS, oneDNN) or by our own kernel; default: vendor where "
       "there is one, as it is faster",
       Effect::rounding},
      {"tf32", machine, option_value(all.precision.tf32),
       "let cuBLAS round the operands of f32 products to TF32 (faster)"},
      {"graph", machine, option_value(all.graph),
       "capture an update as a CUDA graph and replay it: the same result, less time between kernels",
       Effect::rounding},
      {"seed", machine, option_value(data.seed), "seed of the initial weights and of the order of the data"},

      {"dtype", model, dtype(all.precision.dtype),
       "what the model computes in; its weights and their gradients are f32 in any case. auto: bf16 where "
       "the "
       "device has instructions for it, else f16; f16 scales the loss, and skips an update whose gradients "
       "overflow"},
      {"load", model, file(all.model.load), "start from the weights in this safetensors file",
       Effect::output},
      {"save", model, file(all.model.save), "write the trained weights to this safetensors file",
       Effect::output},

      {"epochs", training, positive(data.epochs), "times to go through the training data", Effect::rounding},
      {"max-steps", training, not_negative(data.max_steps), "stop after this many updates; 0: no limit",
       Effect::rounding},
      {"batch-size", training, positive(data.batch_size),
       "samples in an update of the weights (the global batch)"},
      {"micro-batch", training, not_negative(all.accumulation.micro_batch),
       "samples that go through the model at a time; the gradients of a batch are accumulated, with the "
       "result "
       "of the whole batch at once; 0: the whole batch",
       Effect::rounding},
      {"eval-batch-size", training, positive(data.eval_batch_size), "samples at a time in an evaluation",
       Effect::rounding},

      {"optimizer", optimizing, optimizer(o.kind), "the optimizer: " + list_of(optimizer_names())},
      {"lr",
       optimizing,
       size(o.learning_rate),
       "learning rate",
       Effect::result,
       "",
       {},
       optimizer_defaults(&OptimizerSettings::learning_rate)},
      {"momentum",
       optimizing,
       size(o.momentum),
       "momentum, of an optimizer that has this setting",
       Effect::result,
       "",
       {},
       optimizer_defaults(&OptimizerSettings::momentum)},
      {"beta1",
       optimizing,
       in_range(option_value(o.beta1), 0, 1),
       "decay rate of the first moment, below 1",
       Effect::result,
       "",
       {},
       "0.9"},
      {"beta2",
       optimizing,
       in_range(option_value(o.beta2), 0, 1),
       "decay rate of the second moment, below 1",
       Effect::result,
       "",
       {},
       "0.999"},
      {"weight-decay",
       optimizing,
       size(o.weight_decay),
       "weight decay",
       Effect::result,
       "",
       {},
       optimizer_defaults(&OptimizerSettings::weight_decay)},
      {"decay-biases", optimizing, option_value(o.decay_biases),
       "decay the biases too, as PyTorch's optimizers do"},

      {"clip-norm", clipping, size(o.clip_norm), "limit of the global gradient norm; 0: no clipping"},
      {"clip-norm-type", clipping, in_range(option_value(o.clip_norm_type), 1e-6, kInfinity),
       "p of that norm, above 0; inf: the largest element", Effect::result, "clip-norm"},
      {"clip-each-micro-batch",
       clipping,
       option_value(o.clip_each_micro_batch),
       "clip what has been accumulated so far after every micro-batch, to the limit divided by the square "
       "root "
       "of their number; the result depends on how a batch is cut, and on the number of ranks",
       Effect::result,
       "clip-norm",
       {"sync-each-micro-batch", "zero"}},
      {"clip-value", clipping, size(o.clip_value), "limit of each gradient element; 0: no clipping"},

      {"schedule", schedule, option_value(s.kind),
       "after the warm-up: constant; linear, cosine or polynomial (down to --final-lr); step (times --gamma "
       "every --step-epochs); or one-cycle, which has a warm-up of its own"},
      {"final-lr", schedule, in_range(option_value(s.final_lr), 0, 1),
       "where linear, cosine and polynomial end, as a share of --lr"},
      {"power", schedule, size(s.power), "exponent of polynomial"},
      {"step-epochs", schedule, positive(s.step_epochs), "epochs between two drops of step"},
      {"gamma", schedule, size(s.gamma), "factor of each drop of step"},
      {"warmup", schedule, warmup_value(s.warmup),
       "updates of warm-up, or auto: 0.3125 epochs at a batch of 512 and in proportion to the batch (You et "
       "al., 2020), at most a quarter of the run"},
      {"warmup-shape", schedule, option_value(s.warmup_shape),
       "linear or quadratic rise, or constant at a third of the rate", Effect::result, "warmup"},
      {"lr-scaling", schedule, option_value(s.lr_scaling),
       "how the rate grows with the batch: --lr is then that of --base-batch"},
      {"base-batch", schedule, positive(s.base_batch), "batch that --lr suits, for --lr-scaling",
       Effect::result, "lr-scaling"},

      {"checkpoint", checkpoints, file(c.folder, "DIR"),
       "save to this folder, from time to time and at the end, all that is needed to go on", Effect::output},
      {"checkpoint-every", checkpoints, positive(c.every), "updates from one checkpoint to the next",
       Effect::output, "checkpoint"},
      {"keep", checkpoints, in_range(option_value(c.keep), 1, 1 << 20),
       "how many checkpoints to keep: the newest", Effect::output, "checkpoint"},
      {"resume", checkpoints, option_value(c.resume),
       "go on from the newest checkpoint that is whole, to the result of a run that was never stopped; start "
       "afresh where there is none. --device, --gemm, --micro-batch, --zero and the number of ranks may "
       "change, with a result that is the same but for rounding",
       Effect::output, "checkpoint"},
      {"change-length", checkpoints, option_value(c.change_length),
       "with --resume: the run may have another number of updates than before; a schedule that depends on "
       "the "
       "length goes on as if the run had had the new one from its start",
       Effect::output, "resume"},

      {"comm-timeout", ranks, in_range(option_value(d.comm_timeout), 0.1, 1e6),
       "seconds after which an operation that hangs ends the run", Effect::rounding},
      {"bucket-mib", ranks, in_range(option_value(d.bucket_mib), 1e-6, 1e6),
       "MiB of gradients that are reduced together; the first time 1 at most, to begin early",
       Effect::rounding},
      {"no-overlap", ranks, option_value(d.no_overlap),
       "reduce gradients after backward instead of during it", Effect::rounding},
      {"sync-each-micro-batch", ranks, option_value(all.accumulation.sync_each_micro_batch),
       "reduce gradients after every micro-batch instead of after the last: more communication, the same "
       "result but for rounding",
       Effect::rounding},
      {"zero", ranks, in_range(option_value(d.zero), 0, 2),
       "what is sharded over the ranks (ZeRO): 1: the optimizer's state; 2: the gradients too, which are "
       "then "
       "reduced after every micro-batch; 0: nothing. No effect with one rank",
       Effect::rounding},
      {"slow-link", ranks, option_value(d.slow_link),
       "hold back what ranks on CPUs send each other as a link with this latency and bandwidth would, such "
       "as "
       "100,250: 100 microseconds and 250 MB/s",
       Effect::rounding},

      {"quiet", output, option_value(see.quiet), "print warnings and errors alone", Effect::output},
      {"metrics", output, file(see.metrics),
       "write one JSON object for each step, and a last one, to this file", Effect::output},
      {"memory-report",
       output,
       option_value(see.memory_report),
       "print where the memory of one update went, by category, in time and by formula",
       Effect::output,
       "",
       {"graph"}},
      {"timeline", output, file(see.timeline),
       "write when each rank computed, waited and sent data, and what its memory held, to this file, as a "
       "trace "
       "that Perfetto shows, and print how much of the communication was hidden",
       Effect::output},
      {"profile",
       output,
       option_value(see.profile),
       "print where the time of a step went, by operation and by phase",
       Effect::output,
       "",
       {"graph"}},
      {"profile-steps", output, step_range(see.profile_steps),
       "steps A to B, such as 10:12: those that --profile, --timeline and --report are of, and on a GPU "
       "those "
       "that Nsight looks at when it waits for cudaProfilerStart [20 steps from the run's second on]",
       Effect::output},
      {"sort", output, column(see.sort), "column that the table of --profile is sorted by", Effect::output,
       "profile"},
      {"print-tape", output, option_value(see.print_tape), "print what the tape recorded in the first step",
       Effect::output},
      {"report",
       output,
       file_of(see.report, ".html", ".json"),
       "write a page that a browser shows, without a network, to this file: curves, profile, timeline of a "
       "step, memory, tape and machine; or the same as JSON",
       Effect::output,
       "",
       {"graph"}},
      {"save-tape", output, file_of(see.save_tape, ".svg", ".dot"),
       "draw the tape of the first step to this file: an SVG picture, or a graph for Graphviz",
       Effect::output},
  };
}

namespace {

/// Whether the option has another value than at first.
bool is_set(const std::vector<TrainerOption>& options, const std::vector<TrainerOption>& defaults,
            const std::string& name) {
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (options[i].name == name) return options[i].value.write() != defaults[i].value.write();
  }
  fail("no option is called {}", quote(name));
}

}  // namespace

void check_options(const TrainerOptions& given) {
  check(given.optimizer.kind != nullptr, "optimizer: none is named, expected one of {}",
        list_of(optimizer_names()));
  TrainerOptions copy = given, initial;
  const std::vector<TrainerOption> options = options_of(copy), defaults = options_of(initial);
  for (const TrainerOption& option : options) {
    const std::string text = option.value.write();
    if (text.empty()) continue;
    try {
      option.value.read(text);
    } catch (const Error& error) {
      fail("--{}: {}", option.name, error.what());
    }
  }
  for (const TrainerOption& option : options) {
    if (!is_set(options, defaults, option.name)) continue;
    if (!option.needs.empty() && !is_set(options, defaults, option.needs)) {
      fail("--{} needs --{}", option.name, option.needs);
    }
    for (const std::string& other : option.excludes) {
      if (is_set(options, defaults, other)) fail("--{} cannot be used with --{}", option.name, other);
    }
  }
}

std::vector<std::pair<std::string, std::string>> values_of(const TrainerOptions& options,
                                                           const std::vector<Effect>& effects) {
  TrainerOptions copy = options;
  std::vector<std::pair<std::string, std::string>> values;
  for (const TrainerOption& option : options_of(copy)) {
    if (std::find(effects.begin(), effects.end(), option.effect) == effects.end()) continue;
    values.emplace_back(option.name, option.value.write());
  }
  return values;
}

}  // namespace ringtape
