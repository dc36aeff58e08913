// A GPT on every mesh of the ranks, compared with one rank and with double precision.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include "autograd/tape.h"
#include "dist/data_parallel.h"
#include "dist/mesh.h"
#include "dist/model_parts.h"
#include "dist/pipeline.h"
#include "dist/ring_attention.h"
#include "dist/self_communicator.h"
#include "dist/stage_parts.h"
#include "dist/tensor_parallel.h"
#include "nn/gpt.h"
#include "tests/dist/divided_models.h"
#include "tests/dist/ranks.h"
#include "tests/dist/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/check_build.h"

namespace ringtape::test {
namespace {

/// A mesh, and the settings that its sizes do not contain.
struct Way {
  MeshSizes mesh;
  bool sequence = false;
  int chunks = 1;
  int zero = 0;
};

std::string text_of(const Way& way) {
  return fmt::format("{} tensor x {} context x {} data x {} pipeline ranks{}, {} chunks, ZeRO {}",
                     way.mesh.tensor, way.mesh.context, way.mesh.data, way.mesh.pipeline,
                     way.sequence ? ", sequence parallel" : "", way.chunks, way.zero);
}

std::vector<Way> ways_of(const MeshSizes& mesh) {
  std::vector<Way> all = {{.mesh = mesh}};
  if (mesh.tensor > 1) all.push_back({.mesh = mesh, .sequence = true});
  if (mesh.pipeline > 1 && mesh.pipeline <= 4)
    all.push_back({.mesh = mesh, .sequence = mesh.tensor > 1, .chunks = 2});
  return all;
}

/// Every mesh of this run's ranks.
std::vector<Way> ways() {
  std::vector<Way> all;
  const int ranks = this_run()->size();
  for (int tensor = 1; tensor <= ranks; ++tensor) {
    for (int context = 1; context <= ranks; ++context) {
      for (int pipeline = 1; pipeline <= ranks; ++pipeline) {
        if (ranks % (tensor * context * pipeline) != 0) continue;
        const int data = ranks / (tensor * context * pipeline);
        for (const Way& way : ways_of({tensor, context, data, pipeline})) all.push_back(way);
      }
    }
  }
  return all;
}

/// A model that the mesh can divide, and its micro-batches on all data ranks together.
struct Problem {
  TransformerOptions model;
  std::int64_t micro_batches;

  std::int64_t sequences(std::int64_t micro_batch) const { return 1 + micro_batch % 2; }
  std::int64_t targets() const {
    std::int64_t count = 0;
    for (std::int64_t m = 0; m < micro_batches; ++m) count += sequences(m) * model.context;
    return count;
  }
  std::vector<std::int64_t> tokens(std::int64_t micro_batch, std::int64_t first) const {
    std::vector<std::int64_t> tokens;
    for (std::int64_t i = 0; i < sequences(micro_batch) * model.context; ++i)
      tokens.push_back((first + 31 * micro_batch + i * i) % model.vocabulary);
    return tokens;
  }
};

/// For each way a GPT (with dropout if there is one data rank, which has all masks) and a Llama. (In a much
/// narrower model even a tensor's largest gradient can be a sum that cancels, whose relative rounding error
/// is large.)
std::vector<Problem> problems_for(const Way& way) {
  TransformerOptions gpt;
  gpt.vocabulary = kVocabulary;
  gpt.context = std::int64_t{8} * way.mesh.tensor * way.mesh.context;
  gpt.layers = std::max(2, way.mesh.pipeline * way.chunks - 2);
  gpt.heads = std::int64_t{2} * way.mesh.tensor;
  gpt.width = gpt.heads * std::max(std::int64_t{4}, 24 / gpt.heads * 2);  // about 48
  gpt.hidden = 50;
  TransformerOptions llama = llama_options(gpt);
  llama.kv_heads = way.mesh.tensor;
  const std::int64_t micro_batches = std::int64_t{3} * way.mesh.data;
  return {{way.mesh.data == 1 ? with_dropout(gpt) : gpt, micro_batches}, {llama, micro_batches}};
}

/// Each way with both models; where kernels are slow with one of them in turn, in few ways two of three.
std::vector<std::pair<Way, Problem>> cases() {
  std::vector<std::pair<Way, Problem>> all;
  std::size_t number = 0;
  for (const Way& way : ways()) {
    const std::vector<Problem> both = problems_for(way);
    if (kSlowKernels) {
      if (number++ % 3 == 1 && in_few_ways()) continue;
      all.emplace_back(way, both[all.size() % 2]);
    } else {
      for (const Problem& problem : both) all.emplace_back(way, problem);
    }
  }
  return all;
}

/// One rank of a mesh, with its part of the model. In f32 an arena and DataParallel reduce the gradients; in
/// f64, which these do not support, the test does.
class Divided {
 public:
  Divided(const Problem& problem, const Way& way, const std::shared_ptr<Communicator>& world, DType dtype)
      : problem_(problem), way_(way), mesh_(world, way.mesh), layers_(layers()) {
    manual_seed(3);
    model_ = std::make_shared<GPT>(problem.model, layers_);
    if (dtype == DType::f64) convert(*model_, dtype, world->device());
    if (dtype == DType::f32) {
      arena_.emplace(*model_, world->device(), dtype,
                     ArenaSharding{.zero_stage = way.zero,
                                   .rank = mesh_.data_and_context()->rank(),
                                   .world_size = mesh_.data_and_context()->size(),
                                   .bucket_sizes = kBuckets,
                                   .stages = layers_->stages()});
    }
    if (way.mesh.pipeline > 1) {
      pipeline_ = std::make_unique<Pipeline>(
          *model_, *layers_->stages(), mesh_.along(MeshDimension::pipeline),
          PipelineOptions{.schedule = way.chunks > 1 ? PipelineScheduleKind::interleaved
                                                     : PipelineScheduleKind::one_f_one_b,
                          .sequence = way.sequence,
                          .check_layouts = way.mesh.tensor > 1,
                          .context = way.mesh.context > 1});
    }
    if (!arena_) return;
    if (way.mesh.tensor > 1)
      arena_->set_division(division_over(mesh_.along(MeshDimension::tensor), way.sequence));
    parallel_ =
        std::make_unique<DataParallel>(*model_, *arena_, mesh_.data_and_context(),
                                       DataParallelOptions{.bucket_sizes = kBuckets, .hook = nullptr});
  }

  Module& model() { return *model_; }

  /// Computes the gradients of all micro-batches; returns their loss.
  double backward() {
    manual_seed(7);  // of dropout
    loss_ = 0;
    const std::int64_t own = problem_.micro_batches / way_.mesh.data;
    first_ = own * mesh_.along(MeshDimension::data)->rank();
    if (pipeline_ != nullptr) {
      std::vector<Shape> shapes;
      for (std::int64_t m = 0; m < own; ++m) shapes.push_back(tokens_of(m, kInput).shape());
      pipeline_->forward_backward(
          shapes,
          {.input = [&](std::size_t m) { return tokens_of(number(m), kInput); },
           .loss = [&](const Tensor& logits, std::size_t m) { return loss_of(logits, number(m)); },
           .backward = [&](const Tensor& loss) { backward(loss); },
           .around_backward = [&](std::size_t m, const auto& run) { reduce_last(number(m), own, run); }});
    } else {
      for (std::int64_t m = 0; m < own; ++m) {
        const TapeScope scope;
        const Tensor loss = loss_of((*model_)(tokens_of(m, kInput)), m);
        reduce_last(m, own, [&] { backward(loss); });
      }
    }
    reduce();
    return loss_of_all();
  }

  /// The gradients of the whole model, on the first rank; elsewhere empty.
  Values gradients() {
    if (!arena_) {
      return wholes([](const Tensor& parameter) { return parameter.grad(); });
    }
    const Tensor all = gradients_of_all_slices();
    return wholes([&](const Tensor& parameter) {
      const auto entry = std::find_if(arena_->entries().begin(), arena_->entries().end(),
                                      [&](const ArenaEntry& each) { return each.tensor == &parameter; });
      return all.alias(parameter.shape(), entry->offset);
    });
  }
  Values weights() {
    return wholes([](const Tensor& parameter) { return parameter.detach(); });
  }

 private:
  static constexpr BucketSizes kBuckets = {2000, 4000};  // slices begin and end within parameters
  static constexpr std::int64_t kInput = 2, kTarget = 5;

  static std::int64_t number(std::size_t micro_batch) { return static_cast<std::int64_t>(micro_batch); }

  std::shared_ptr<LayerFactory> layers() const {
    auto layers = std::make_shared<LayerFactory>();
    if (way_.mesh.tensor > 1) {
      layers = std::make_shared<TensorParallelFactory>(mesh_.along(MeshDimension::tensor), way_.sequence);
    }
    if (way_.mesh.context > 1) layers->set_context(context_part_over(mesh_.along(MeshDimension::context)));
    if (way_.mesh.pipeline > 1) {
      layers->set_stages(
          std::make_shared<Stages>(PipelinePlace{.stage = mesh_.along(MeshDimension::pipeline)->rank(),
                                                 .stages = way_.mesh.pipeline,
                                                 .chunks = way_.chunks}));
    }
    return layers;
  }

  /// This rank's tokens of its micro-batch `m`.
  Tensor tokens_of(std::int64_t m, std::int64_t first) const {
    const std::int64_t sequences = problem_.sequences(first_ + m), length = problem_.model.context;
    std::vector<std::int64_t> tokens = problem_.tokens(first_ + m, first);
    if (const ContextPart* const part = layers_->context().get())
      tokens = own_of(tokens, sequences, length, part->runs(length / part->ranks));
    const std::int64_t own = std::ssize(tokens) / sequences;
    return copy_to(from_vector(tokens, {sequences, own}), mesh_.world()->device());
  }
  /// Divided so that the mean over the ranks is the mean over all targets.
  Tensor loss_of(const Tensor& logits, std::int64_t m) const {
    const Tensor targets = tokens_of(m, kTarget);
    const double ranks = mesh_.data_and_context()->size();
    return layers_->cross_entropy(
        view(logits, {targets.elements(), logits.size(2)}), view(targets, {targets.elements()}),
        {.reduction = Reduction::sum, .divisor = static_cast<double>(problem_.targets()) / ranks});
  }
  void backward(const Tensor& loss) {
    loss_ += loss.item();
    loss.backward();
  }
  void reduce_last(std::int64_t m, std::int64_t own, const std::function<void()>& run) {
    if (parallel_ == nullptr) return run();
    const auto scope = parallel_->no_sync(m + 1 < own);
    run();
  }

  void reduce() {
    if (parallel_ != nullptr) {
      parallel_->finish();
    } else {
      for (const NamedParameter& parameter : model_->named_parameters())
        mesh_.data_and_context()->all_reduce(parameter.tensor->grad(), ReduceOp::mean).wait();
    }
    if (pipeline_ != nullptr) pipeline_->sum_tied_gradients(arena_ ? &*arena_ : nullptr);
    if (arena_) return arena_->sum_parts_of_gradients();
    for (const NamedParameter& parameter : model_->named_parameters()) {
      if (way_.sequence && shard_of(*parameter.tensor) == nullptr)
        mesh_.along(MeshDimension::tensor)->all_reduce(parameter.tensor->grad(), ReduceOp::sum).wait();
    }
  }
  double loss_of_all() const {
    const bool on_gpu = mesh_.world()->device().is_cuda();
    const Tensor loss = tensor_of({loss_}, {1}, on_gpu ? DType::f32 : DType::f64, mesh_.world()->device());
    mesh_.data_and_context()->all_reduce(loss, ReduceOp::mean).wait();
    mesh_.along(MeshDimension::pipeline)->all_reduce(loss, ReduceOp::sum).wait();
    return loss.to_doubles()[0];
  }
  Tensor gradients_of_all_slices() const {
    if (!arena_->is_sharded()) return arena_->gradients();
    const Tensor all = empty({arena_->size()}, DType::f32, arena_->device());
    for (std::size_t b = 0; b < arena_->buckets().size(); ++b) {
      const GradientBucket& bucket = arena_->buckets()[b];
      const ShardSlice& slice = arena_->slices()[b];
      const Tensor own =
          arena_->gradients().alias({slice.elements}, way_.zero == 1 ? slice.offset : slice.in_shard);
      mesh_.data_and_context()->all_gather(own, all.alias({bucket.elements}, bucket.offset)).wait();
    }
    return all;
  }
  Values wholes(const std::function<Tensor(const Tensor&)>& of) const {
    std::vector<NamedTensor> all;
    for (const NamedParameter& parameter : model_->named_parameters())
      all.push_back({parameter.name, of(*parameter.tensor)});
    Communicator& divides = *mesh_.along(MeshDimension::tensor);
    if (divides.size() > 1) all = gather_wholes(*model_, all, divides);
    if (pipeline_ != nullptr && divides.rank() == 0)
      all = gather_stages(*layers_->stages(), all, pipeline_->comm());
    Values values;
    if (mesh_.world()->rank() != 0) return values;
    for (const auto& [name, tensor] : all) values[name] = tensor.to_doubles();
    return values;
  }

  Problem problem_;
  Way way_;
  Mesh mesh_;
  std::shared_ptr<LayerFactory> layers_;
  std::shared_ptr<GPT> model_;
  std::optional<ParameterArena> arena_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<DataParallel> parallel_;
  std::int64_t first_ = 0;  // of this rank's micro-batches
  double loss_ = 0;
};

/// The whole model on one rank; only the first rank needs it.
std::unique_ptr<Divided> whole(const Problem& problem, DType dtype) {
  if (this_run()->rank() != 0) return nullptr;
  return std::make_unique<Divided>(problem, Way{}, std::make_shared<SelfCommunicator>(Device{}), dtype);
}

}  // namespace

TEST_CASE("every mesh: in f64 loss, gradients and steps of Adam are those of one rank",
          "[dist][every_mesh][accuracy]") {
  const auto comm = this_run();
  if (comm->device().is_cuda()) return;  // GPUs have no kernels for f64
  for (const auto& [way, problem] : cases()) {
    INFO(text_of(way));
    const auto one = whole(problem, DType::f64);
    Divided divided(problem, way, comm, DType::f64);
    std::optional<AdamInF64> expected;
    AdamInF64 found(divided.model());
    if (one != nullptr) expected.emplace(one->model());
    for (int step = 0; step < repetitions(20); ++step) {
      const double loss = divided.backward();
      const Values gradients = step == 0 ? divided.gradients() : Values{};
      found.step();
      if (one == nullptr) continue;
      CHECK_THAT(loss, Catch::Matchers::WithinRel(one->backward(), step == 0 ? 1e-13 : 1e-9));
      if (step == 0) CHECK(difference(gradients, one->gradients()) < 1e-12);
      expected->step();
    }
    const Values weights = divided.weights();
    if (one != nullptr) CHECK(difference(weights, one->weights()) < 1e-9);
  }
}

TEST_CASE(
    "every mesh: in f32 gradients under each stage of ZeRO are at most twice as far from f64 as one rank's",
    "[dist][every_mesh]") {
  const auto comm = this_run();
  for (auto [way, problem] : cases()) {
    const auto exact = whole(problem, DType::f64), one = whole(problem, DType::f32);
    double most = 0;
    if (one != nullptr) {
      exact->backward();
      one->backward();
      most = 2 * difference(one->gradients(), exact->gradients());
    }
    const int last = way.mesh.data_and_context() > 1 ? 3 : 0;
    for (way.zero = 0; way.zero <= last; way.zero += kSlowKernels ? 3 : 1) {
      INFO(text_of(way));
      Divided divided(problem, way, comm, DType::f32);
      divided.backward();
      const Values found = divided.gradients();
      if (one != nullptr) CHECK(difference(found, exact->gradients()) <= most);
    }
  }
}

}  // namespace ringtape::test
