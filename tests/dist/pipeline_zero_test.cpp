// A model in the stages of a pipeline, each on several data ranks with ZeRO: compared with one rank.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/ceil_div.h"
#include "core/memory.h"
#include "data/loader.h"
#include "dist/gradient_buckets.h"
#include "dist/mesh.h"
#include "dist/optimizer_state.h"
#include "dist/pipeline.h"
#include "dist/self_communicator.h"
#include "dist/stage_parts.h"
#include "dist/verify_replicas.h"
#include "nn/gpt.h"
#include "optim/lars.h"
#include "optim/loss_scaler.h"
#include "optim/registry.h"
#include "tests/dist/lamb.h"
#include "tests/dist/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/check_build.h"
#include "tests/support/error_of.h"
#include "tests/support/memory.h"
#include "text/token_dataset.h"
#include "trace/spans.h"
#include "train/evaluation.h"
#include "train/make.h"
#include "train/update.h"

namespace ringtape::test {
namespace {

using Weights = std::map<std::string, std::vector<double>>;

constexpr std::int64_t kTokens = 8, kVocabulary = 40, kWidth = 32;

/// How a GPT of six blocks is trained.
struct How {
  int zero = 0;
  PipelineScheduleKind schedule = PipelineScheduleKind::one_f_one_b;
  int chunks = 1;
  bool tied = true;
  std::int64_t recompute = 0;
  std::int64_t samples = 12;  ///< of an update
  std::int64_t micro_batch = 1;
  double clip_norm = 0;
  DType dtype = DType::f32;
  std::string optimizer = "sgd";
  bool reshard = true;
  bool overlap = true;
};

std::string text_of(const How& how, int data) {
  return fmt::format(
      "{} data ranks, ZeRO {}, schedule {}, {} chunks, tied {}, recompute {}, {} samples in {}s, {}, {}",
      data, how.zero, static_cast<int>(how.schedule), how.chunks, how.tied, how.recompute, how.samples,
      how.micro_batch, name_of(how.dtype), how.optimizer);
}

/// Sequences of different lengths, so that ranks have different numbers of targets.
std::shared_ptr<const Dataset> text(std::int64_t samples) {
  std::vector<std::vector<std::int32_t>> sequences;
  for (std::int64_t i = 0; i < samples; ++i) {
    sequences.emplace_back();
    for (std::int64_t t = 0; t < 4 + i % 6; ++t)
      sequences.back().push_back(static_cast<std::int32_t>((i * i + 3 * t * t) % kVocabulary));
  }
  return std::make_shared<SequenceDataset>(sequences, kVocabulary, kTokens);
}

std::unique_ptr<Optimizer> make(const std::string& name, ParameterArena& arena) {
  // With an eps of 0.1 LARS shows a norm that is counted twice.
  if (name == "lars") return std::make_unique<Lars>(arena, LarsOptions{.eps = 0.1});
  if (name == "lamb") return lamb_with_large_eps(arena, {.learning_rate = 0.01});
  const OptimizerKind& kind = optimizer_named(name);
  return kind.make(arena, kind.defaults, {});
}

/// One rank of `stages` x data ranks.
class Grid {
 public:
  Grid(const std::shared_ptr<Communicator>& world, int stages, const How& with)
      : how(with),
        mesh(world, {.data = world->size() / stages, .pipeline = stages}),
        task(language_model_task("", text(how.samples), text(12))),
        layers(std::make_shared<LayerFactory>()) {
    const std::shared_ptr<Communicator>& line = mesh.along(MeshDimension::pipeline);
    if (stages > 1) {
      layers->set_stages(std::make_shared<Stages>(
          PipelinePlace{.stage = line->rank(), .stages = stages, .chunks = how.chunks}));
    }
    manual_seed(5);
    TransformerOptions shape;
    shape.vocabulary = kVocabulary;
    shape.context = kTokens;
    shape.layers = 6;
    shape.heads = 2;
    shape.width = kWidth;
    shape.tied = how.tied;
    model = std::make_shared<GPT>(shape, layers);
    model->set_recompute(how.recompute);
    arena.emplace(*model, world->device(), how.dtype,
                  ArenaSharding{.zero_stage = comm()->size() > 1 ? how.zero : 0,
                                .rank = comm()->rank(),
                                .world_size = comm()->size(),
                                .bucket_sizes = {.first_bytes = 20'000, .bytes = 60'000},
                                .reshard_after_forward = how.reshard,
                                .stages = layers->stages()});
    if (stages > 1) {
      pipeline = std::make_unique<Pipeline>(*model, *layers->stages(), line,
                                            PipelineOptions{.schedule = how.schedule});
      arena->set_stages(pipeline->of_arena());
    }
    optimizer = make(how.optimizer, *arena);
    if (how.dtype == DType::f16) scaler.emplace(*arena);
    options.accumulation.micro_batch = how.micro_batch;
    options.optimizer.clip_norm = how.clip_norm;
    options.distribution.bucket_mib = 0.05;
    options.distribution.no_overlap = !how.overlap;
    update.emplace(task, options, *model, *arena, *optimizer, scaler ? &*scaler : nullptr, true, mesh,
                   pipeline.get());
    if (comm()->rank() >= how.samples) return;
    const auto all = std::make_shared<SequentialSampler>(how.samples);
    loader.emplace(
        task.train, std::make_shared<DistributedSampler>(all, comm()->rank(), comm()->size()),
        DataLoaderOptions{.batch_size = ceil_div(how.samples, comm()->size()), .device = world->device()});
  }

  /// The ranks with the same stage.
  const std::shared_ptr<Communicator>& comm() const { return mesh.data_and_context(); }

  UpdateResult step() {
    if (!loader) return (*update)({}, how.samples);
    loader->start_epoch(steps++);
    return (*update)(loader->next(), how.samples);
  }
  EvaluationResult evaluate() {
    return ringtape::evaluate(task, *model, how.dtype, how.micro_batch, mesh, pipeline.get());
  }
  /// The weights of the whole model, on rank 0; elsewhere empty.
  Weights weights() {
    std::vector<NamedTensor> all = gather_weights(*model, *arena, *comm());
    if (pipeline != nullptr && comm()->rank() == 0)
      all = gather_stages(*layers->stages(), all, pipeline->comm());
    Weights values;
    if (mesh.world()->rank() != 0) return values;
    for (const auto& [name, tensor] : all) values[name] = tensor.to_doubles();
    return values;
  }

  How how;
  Mesh mesh;
  Task task;
  std::shared_ptr<LayerFactory> layers;
  std::shared_ptr<GPT> model;
  std::optional<ParameterArena> arena;
  std::unique_ptr<Pipeline> pipeline;
  std::unique_ptr<Optimizer> optimizer;
  std::optional<LossScaler> scaler;
  TrainerOptions options;
  std::optional<Update> update;
  std::optional<DataLoader> loader;  // none on a rank without samples
  std::int64_t steps = 0;
};

struct Trained {
  std::vector<double> losses, norms;
  double test_loss = 0;
  Weights weights;
};

Trained train(const std::shared_ptr<Communicator>& world, int stages, const How& how,
              int steps = repetitions(10)) {
  Grid grid(world, stages, how);
  Trained result;
  for (int step = 0; step < steps; ++step) {
    const UpdateResult found = grid.step();
    result.losses.push_back(found.loss.item());
    result.norms.push_back(found.grad_norm.item());
  }
  result.test_loss = grid.evaluate().loss;
  result.weights = grid.weights();
  return result;
}

Trained train_alone(const How& how, int steps = repetitions(10)) {
  How alone = how;
  alone.zero = 0;
  return train(std::make_shared<SelfCommunicator>(this_run()->device()), 1, alone, steps);
}

void check_same(const Trained& found, const Trained& expected, double tolerance = 1e-5) {
  check_close(found.losses, expected.losses, tolerance);
  check_close(found.norms, expected.norms, 10 * tolerance);
  CHECK(found.test_loss == Approx(expected.test_loss).epsilon(tolerance));
  if (this_run()->rank() != 0) return;
  REQUIRE(found.weights.size() == expected.weights.size());
  for (const auto& [name, values] : expected.weights) {
    INFO(name);
    check_close(found.weights.at(name), values, 0, tolerance * largest_of(values));
  }
}

/// Numbers of stages of this run's ranks that leave at least `data` data ranks.
std::vector<int> stages_with(int data) {
  std::vector<int> all;
  const int ranks = this_run()->size();
  for (int stages = 2; stages * data <= ranks; ++stages) {
    if (ranks % stages == 0) all.push_back(stages);
  }
  return all;
}

/// Checks that both stages that have a parameter have the same bits.
void check_copies(Grid& grid) {
  if (grid.arena->has_all_values()) grid.arena->gather_values();
  for (const Pipeline::TiedPair& copy : grid.pipeline->copies()) {
    Tensor own = copy.parameter->detach();
    if (!grid.arena->has_all_values()) {
      const std::vector<ArenaEntry>& entries = grid.arena->entries();
      std::size_t unit = 0;
      while (entries[grid.arena->buckets()[unit].first_entry].tensor != copy.parameter) ++unit;
      const ShardSlice& slice = grid.arena->slices()[unit];
      own = grid.arena->values().alias({slice.elements}, slice.in_shard);
    }
    const Tensor least = add(own, zeros(own.shape(), own.dtype(), own.device()));
    const Tensor most = add(own, zeros(own.shape(), own.dtype(), own.device()));
    copy.pair->all_reduce(least, ReduceOp::min).wait();
    copy.pair->all_reduce(most, ReduceOp::max).wait();
    CHECK(least.to_doubles() == most.to_doubles());
  }
}

/// Checks that --check-replicas accepts equal values, and on both stages finds a tied weight that differs.
void check_replicas(Grid& grid) {
  const auto error = [&] {
    return error_of(
        [&] { verify_replicas(*grid.model, grid.mesh, "after step 1", grid.pipeline.get(), &*grid.arena); });
  };
  CHECK(error() == "");
  for (const Pipeline::TiedPair& copy : grid.pipeline->copies()) {
    Tensor own = own_values(*copy.parameter, &*grid.arena);
    std::vector<double> values = own.to_doubles();
    values.back() += copy.is_owner ? 1 : 0;
    own.copy_from(tensor_of(values, own.shape(), DType::f32, own.device()));
  }
  const std::string found = error();
  if (!grid.pipeline->copies().empty()) {
    CHECK(found.starts_with(
        "--check-replicas: after step 1 the ranks' parameters differ: parameter of two stages 0 is "
        "wte.weight with the CRC-32 "));
  } else {
    CHECK(found == "");
  }
}

}  // namespace

TEST_CASE("pipeline with data ranks: a GPT is trained as by one rank in every stage of ZeRO",
          "[dist][stages][zero][grid]") {
  using enum PipelineScheduleKind;
  for (const int stages : stages_with(2)) {
    for (int zero = 0; zero <= 3; ++zero) {
      std::vector<How> ways = {{.micro_batch = 2, .clip_norm = 0.5},
                               {.schedule = interleaved, .chunks = 2, .recompute = 1, .reshard = false},
                               {.schedule = afab, .tied = false, .clip_norm = 0.5},
                               {.recompute = 2, .micro_batch = 2, .clip_norm = 0.5, .optimizer = "lamb"},
                               {.micro_batch = 3, .optimizer = "lars"}};
      if (kSlowKernels) ways = {ways[zero == 1 ? 3 : zero == 2 ? 4 : 1]};
      if (zero < 2) {
        ways.push_back({.schedule = interleaved, .chunks = 2, .micro_batch = 2, .overlap = false});
      }
      for (How& way : ways) {
        way.zero = zero;
        if (stages * way.chunks > 8) continue;
        INFO(text_of(way, this_run()->size() / stages));
        const Trained one = train_alone(way);
        if (way.clip_norm > 0) CHECK(one.norms[0] > 2 * way.clip_norm);
        check_same(train(this_run(), stages, way), one);
      }
    }
  }
}

TEST_CASE("pipeline with data ranks: ranks have different numbers of samples and micro-batches",
          "[dist][stages][zero][grid]") {
  for (const int stages : stages_with(2)) {
    const std::int64_t data = this_run()->size() / stages;
    // The first ranks have one more micro-batch, or a larger one; the last ranks have no sample.
    for (const auto& [samples, micro_batch] :
         {std::pair(3 * data + 1, std::int64_t{1}), {3 * data + 1, 2}, {1, 1}}) {
      for (int zero = 0; zero <= 3; ++zero) {
        if (kSlowKernels && (zero + samples + micro_batch) % (in_few_ways() ? 4 : 2) != 0) continue;
        const How how{.zero = zero, .samples = samples, .micro_batch = micro_batch};
        const auto forwards = [&](std::int64_t own) { return ceil_div(own, micro_batch); };
        // ZeRO 3 needs equal numbers of forwards.
        if (zero == 3 && forwards(samples / data) != forwards(ceil_div(samples, data))) continue;
        INFO(text_of(how, static_cast<int>(data)));
        check_same(train(this_run(), stages, how, 3), train_alone(how, 3));
      }
    }
  }
}

TEST_CASE("pipeline with data ranks: different numbers of micro-batches go through interleaved chunks",
          "[dist][stages][zero][grid]") {
  for (const int stages : stages_with(2)) {
    if (stages * 2 > 8) continue;
    const std::int64_t data = this_run()->size() / stages;
    for (const int zero : {0, 1}) {
      for (const std::int64_t samples : {3 * data + 1, std::int64_t{1}}) {
        const How how{
            .zero = zero, .schedule = PipelineScheduleKind::interleaved, .chunks = 2, .samples = samples};
        INFO(text_of(how, static_cast<int>(data)));
        check_same(train(this_run(), stages, how, 3), train_alone(how, 3));
      }
    }
  }
}

TEST_CASE("pipeline with data ranks: schedules have equal bits, and so have ZeRO 2 and 3",
          "[dist][stages][zero][grid]") {
  using enum PipelineScheduleKind;
  for (const int stages : stages_with(2)) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      if (kSlowKernels && dtype == DType::f16) continue;
      std::vector<Trained> by_stage;
      for (int zero = 0; zero <= 3; ++zero) {
        const How how{.zero = zero, .dtype = dtype, .optimizer = "adamw"};
        INFO(text_of(how, this_run()->size() / stages));
        How other = how;
        other.schedule = afab;
        by_stage.push_back(train(this_run(), stages, how));
        const Trained found = train(this_run(), stages, other);
        CHECK(found.losses == by_stage.back().losses);
        CHECK(found.norms == by_stage.back().norms);
        CHECK(found.weights == by_stage.back().weights);
        if (zero < 3) continue;
        other.schedule = one_f_one_b;
        other.reshard = false;
        CHECK(train(this_run(), stages, other).weights == found.weights);
      }
      if (this_run()->size() / stages > 2) continue;  // the order of three additions is the communicator's
      for (const int zero : {1, 3}) {  // 1 reduces as 0 does, after all micro-batches; 3 as 2, after each
        CHECK(by_stage[zero].losses == by_stage[zero - 1].losses);
        CHECK(by_stage[zero].weights == by_stage[zero - 1].weights);
      }
    }
  }
}

TEST_CASE("pipeline with data ranks: tied weights keep equal bits on both stages",
          "[dist][stages][zero][grid]") {
  for (const int stages : stages_with(2)) {
    for (int zero = 0; zero <= 3; ++zero) {
      for (const std::string optimizer : {"adamw", "lamb", "lars"}) {
        if (in_few_ways() && optimizer != (zero % 2 == 0 ? "lamb" : "adamw")) continue;
        const How how{.zero = zero, .clip_norm = 0.5, .optimizer = optimizer};
        INFO(text_of(how, this_run()->size() / stages));
        Grid grid(this_run(), stages, how);
        const bool has_copy = grid.pipeline->is_last() || grid.pipeline->comm().rank() == 0;
        CHECK(grid.pipeline->copies().size() == (has_copy ? 1 : 0));
        for (int step = 0; step < repetitions(10); ++step) grid.step();
        check_copies(grid);
        check_replicas(grid);
      }
    }
  }
}

TEST_CASE(
    "pipeline with data ranks: under ZeRO 3 a stage never has more parameters than its shard and what a "
    "chunk needs",
    "[dist][stages][zero][grid]") {
  const Device device = this_run()->device();
  const auto live = [&] { return memory_stats(device).live_by_category[MemoryCategory::parameters]; };
  for (const int stages : stages_with(2)) {
    if (stages > 3) continue;  // a stage of one block has no neighbour to gather
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const How how{.zero = 3, .dtype = dtype, .optimizer = "adamw"};
      const int data = this_run()->size() / stages;
      INFO(text_of(how, data));
      const std::size_t before = live();
      Grid grid(this_run(), stages, how);
      const int stage = grid.pipeline->comm().rank();
      const std::vector<std::size_t>& begins = grid.layers->stages()->begins();
      const auto at = static_cast<std::size_t>(stage);
      const bool is_first = stage == 0, is_last = stage + 1 == stages;
      const auto blocks = static_cast<double>(begins[at + 1] - begins[at]) - (is_first || is_last ? 1 : 0);
      REQUIRE(blocks >= 2);
      // By hand, of width w: a block has 12 w^2 + 13 w elements, the table and the positions 40 w + 8 w, the
      // last norm 2 w.
      const double block = 12 * kWidth * kWidth + 13 * kWidth;
      const double rest = is_first ? 48 * kWidth : is_last ? 42 * kWidth : 0;
      const double copy = dtype == DType::f32 ? 0 : 2;
      const double shard = (blocks * block + rest) / data * (4 + copy);
      const double units = (2 * block + rest) * (copy > 0 ? copy : 4);
      const std::size_t most = peak_of(MemoryCategory::parameters, device, [&] {
        grid.step();
        grid.evaluate();
      });
      const auto found = static_cast<double>(most - before);
      CHECK(found < 1.05 * (shard + units));
      CHECK(found > 0.95 * (shard + units));
      CHECK(static_cast<double>(live() - before) < 1.05 * shard);
    }
  }
}

TEST_CASE("pipeline with data ranks: buckets are reduced in the last micro-batch's backwards",
          "[dist][stages][zero][grid]") {
  for (const int stages : stages_with(2)) {
    for (const int chunks : {1, 2}) {
      for (const int zero : {0, 1}) {
        How how{.zero = zero, .chunks = chunks};
        if (chunks > 1) how.schedule = PipelineScheduleKind::interleaved;
        if (stages * chunks > 8) continue;
        INFO(text_of(how, this_run()->size() / stages));
        Grid grid(this_run(), stages, how);
        grid.step();
        SpanRecording recording;
        grid.step();
        recording.stop();
        std::vector<const Span*> launches, backwards;
        for (const Span& span : recording.spans()) {
          if (span.name == "launch bucket") launches.push_back(&span);
          if (span.name == "backward" && span.kind == SpanKind::phase) backwards.push_back(&span);
        }
        const auto buckets = make_gradient_buckets(*grid.arena, bucket_sizes(grid.options.distribution));
        REQUIRE(launches.size() == buckets.size());
        CHECK(backwards.size() ==
              static_cast<std::size_t>(how.samples * stages / this_run()->size() * chunks));
        // A chunk's buckets are launched in one backward, the last chunk's first.
        std::vector<std::pair<const Span*, int>> rounds;
        for (const Span* const launch : launches) {
          const auto around = std::find_if(backwards.begin(), backwards.end(), [&](const Span* backward) {
            return backward->begin <= launch->begin && launch->end <= backward->end;
          });
          REQUIRE(around != backwards.end());
          const auto bucket = static_cast<std::size_t>(launch->arguments[0].value);
          const std::pair round(*around, grid.arena->entries()[buckets[bucket].first_entry].chunk);
          if (rounds.empty() || rounds.back() != round) rounds.push_back(round);
        }
        REQUIRE(std::ssize(rounds) == chunks);
        for (int i = 0; i < chunks; ++i) CHECK(rounds[static_cast<std::size_t>(i)].second == chunks - 1 - i);
      }
    }
  }
}

}  // namespace ringtape::test
