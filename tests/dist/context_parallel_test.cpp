// Sequences that ranks divide, with attention among all of them, compared with one rank.
#include <algorithm>
#include <set>
#include <tuple>

#include "autograd/tape.h"
#include "data/context_dataset.h"
#include "dist/layout_check.h"
#include "dist/mesh.h"
#include "dist/model_parts.h"
#include "dist/ring_attention.h"
#include "dist/self_communicator.h"
#include "dist/tensor_parallel.h"
#include "nn/gpt.h"
#include "optim/registry.h"
#include "tests/dist/divided_models.h"
#include "tests/dist/lamb.h"
#include "tests/dist/ranks.h"
#include "tests/dist/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/check_build.h"
#include "tests/support/error_of.h"
#include "text/byte_tokenizer.h"
#include "text/token_dataset.h"
#include "train/trainer.h"

namespace ringtape::test {
namespace {

constexpr std::int64_t kSequences = 2, kAll = 96;  // tokens: for 3 ranks chunks of 16

/// Sizes that 2 tensor ranks divide.
TransformerOptions sizes() {
  TransformerOptions options;
  options.vocabulary = kVocabulary;
  options.context = kAll + 4;  // four positions are not used
  options.layers = 2;
  options.heads = 4;
  options.width = 24;
  options.hidden = 20;
  return options;
}

struct Kind {
  std::string name;
  TransformerOptions options;
};

std::vector<Kind> kinds() {
  TransformerOptions llama = llama_options(sizes());
  llama.kv_heads = 2;
  return {{"GPT with dropout", with_dropout(sizes())}, {"Llama", llama}};
}

/// A way to divide the model and its sequences.
struct Way {
  MeshSizes mesh;
  bool sequence = false;
};

std::vector<Way> ways(int ranks) {
  std::vector<Way> all = {{{.context = ranks}}};
  if (ranks == 4) {
    all.push_back({{.tensor = 2, .context = 2}});
    all.push_back({{.tensor = 2, .context = 2}, true});
  }
  return all;
}

std::string text_of(const Kind& kind, const Way& way) {
  return fmt::format("{} on {} tensor x {} context ranks{}", kind.name, way.mesh.tensor, way.mesh.context,
                     way.sequence ? ", sequence parallel" : "");
}

Layers layers_over(const Mesh& mesh, bool sequence) {
  Layers layers = std::make_shared<LayerFactory>();
  if (mesh.sizes().tensor > 1) {
    layers = std::make_shared<TensorParallelFactory>(mesh.along(MeshDimension::tensor), sequence);
  }
  layers->set_context(context_part_over(mesh.along(MeshDimension::context)));
  return layers;
}

std::shared_ptr<GPT> make(const Kind& kind, const Layers& layers, DType dtype, Device device = {}) {
  manual_seed(3);
  const auto model = std::make_shared<GPT>(kind.options, layers);
  convert(*model, dtype, device);
  return model;
}

std::vector<std::int64_t> some_tokens(std::int64_t first) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < kSequences * kAll; ++i) tokens.push_back((first + i * i) % kVocabulary);
  return tokens;
}

/// Backward, and this rank's tokens' share of the loss. Some targets are ignored, in the first chunk and in
/// the last.
double backward(GPT& model, const LayerFactory& layers, DType dtype) {
  const TapeScope scope;
  manual_seed(7);  // of dropout
  const ContextPart* const part = layers.context().get();
  std::vector<std::int64_t> tokens = some_tokens(2), targets = some_tokens(5);
  targets[3] = targets[8] = targets[kAll - 2] = targets[2 * kAll - 1] = -100;
  if (part != nullptr) {
    const std::vector<TokenRun> runs = part->runs(kAll / part->ranks);
    tokens = own_of(tokens, kSequences, kAll, runs);
    targets = own_of(targets, kSequences, kAll, runs);
  }
  const Device device = model.named_parameters()[0].tensor->device();
  LayoutCheck check(nullptr, part != nullptr);
  const TapeObserverScope observed(&check);
  const std::int64_t rows = std::ssize(tokens);
  const Tensor logits = model(copy_to(from_vector(tokens, {kSequences, rows / kSequences}), device));
  CHECK(logits.dtype() == dtype);
  const Tensor loss = layers.cross_entropy(view(logits, {rows, logits.size(2)}),
                                           copy_to(from_vector(targets, {rows}), device),
                                           {.reduction = Reduction::sum, .divisor = kSequences * kAll - 4});
  loss.backward();
  return loss.item();
}

double sum_over(const std::shared_ptr<Communicator>& comm, double value) {
  const Tensor sum =
      tensor_of({value}, {1}, comm->device().is_cuda() ? DType::f32 : DType::f64, comm->device());
  comm->all_reduce(sum, ReduceOp::sum).wait();
  return sum.to_doubles()[0];
}

/// The loss of all tokens, and the sums of the ranks' gradients.
double backward(GPT& model, const LayerFactory& layers, const Way& way, const Mesh& mesh, DType dtype) {
  const double loss = backward(model, layers, dtype);
  for (const NamedParameter& parameter : model.named_parameters()) {
    const Tensor gradient = parameter.tensor->grad();
    mesh.along(MeshDimension::context)->all_reduce(gradient, ReduceOp::sum).wait();
    const bool is_part = shard_of(*parameter.tensor) != nullptr;
    if (way.sequence && !is_part)
      mesh.along(MeshDimension::tensor)->all_reduce(gradient, ReduceOp::sum).wait();
  }
  return sum_over(mesh.along(MeshDimension::context), loss);
}

Values wholes(GPT& model, const Mesh& mesh, const std::function<Tensor(const Tensor&)>& of) {
  Values values;
  for (const NamedParameter& parameter : model.named_parameters()) {
    const ParameterShard* const shard = shard_of(*parameter.tensor);
    Tensor whole = of(*parameter.tensor);
    if (shard != nullptr) whole = gather_whole(whole, *shard, *mesh.along(MeshDimension::tensor));
    if (whole.defined()) values[parameter.name] = whole.to_doubles();
  }
  return values;
}
Values gradients(GPT& model, const Mesh& mesh) {
  return wholes(model, mesh, [](const Tensor& parameter) { return parameter.grad(); });
}
Values weights(GPT& model, const Mesh& mesh) {
  return wholes(model, mesh, [](const Tensor& parameter) { return parameter; });
}
Mesh alone() {
  return Mesh(std::make_shared<SelfCommunicator>(Device{}), {});
}
bool has_wholes(const Mesh& mesh) {
  return mesh.along(MeshDimension::tensor)->rank() == 0;
}

}  // namespace

TEST_CASE("context parallel: each token belongs to one rank, and the ranks' tokens attend to equally many",
          "[dist][context]") {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    for (const std::int64_t chunk : {1, 4, 7}) {
      std::multiset<std::int64_t> tokens;
      std::int64_t seen_by_first = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const ContextPart part{rank, ranks, nullptr};
        std::int64_t seen = 0;
        const std::vector<std::int32_t> positions =
            part.positions(2 * chunk, Device{}).to_vector<std::int32_t>();
        for (const std::int32_t position : positions) {
          tokens.insert(position);
          seen += position + 1;
        }
        CHECK(std::is_sorted(positions.begin(), positions.end()));
        if (rank == 0) seen_by_first = seen;
        CHECK(seen == seen_by_first);
        // A part of the tokens, as of sequence parallelism.
        std::vector<std::int32_t> pieces;
        for (std::int64_t first = 0; first < 2 * chunk; ++first) {
          for (const TokenRun& run : part.runs(2 * chunk, first, 1)) {
            CHECK(run.count == 1);
            pieces.push_back(static_cast<std::int32_t>(run.first));
          }
        }
        CHECK(pieces == positions);
      }
      CHECK(std::set(tokens.begin(), tokens.end()).size() == tokens.size());
      CHECK(*tokens.rbegin() == 2 * ranks * chunk - 1);
    }
  }
}

TEST_CASE("context parallel: equal seeds give the model of one rank, to the bit", "[dist][context]") {
  const auto comm = this_run();
  for (const Way& way : ways(comm->size())) {
    const Mesh mesh(comm, way.mesh);
    for (const Kind& kind : kinds()) {
      INFO(text_of(kind, way));
      const auto divided = make(kind, layers_over(mesh, way.sequence), DType::f32);
      const Values found = weights(*divided, mesh);
      if (has_wholes(mesh)) CHECK(found == weights(*make(kind, one_rank(), DType::f32), alone()));
    }
  }
}

TEST_CASE("context parallel: in f64 loss, gradients and steps of Adam are those of one rank",
          "[dist][context][accuracy]") {
  const auto comm = this_run();
  if (comm->device().is_cuda()) return;  // GPUs have no kernels for f64
  for (const Way& way : ways(comm->size())) {
    const Mesh mesh(comm, way.mesh);
    for (const Kind& kind : kinds()) {
      INFO(text_of(kind, way));
      const Layers layers = layers_over(mesh, way.sequence);
      const auto whole = make(kind, one_rank(), DType::f64), divided = make(kind, layers, DType::f64);
      AdamInF64 optimizer(*whole), own_optimizer(*divided);
      for (int step = 0; step < repetitions(20); ++step) {
        const double expected = backward(*whole, *one_rank(), DType::f64);
        const double found = backward(*divided, *layers, way, mesh, DType::f64);
        CHECK_THAT(found, Catch::Matchers::WithinRel(expected, step == 0 ? 1e-13 : 1e-9));
        if (step == 0) {
          const Values all = gradients(*divided, mesh);
          if (has_wholes(mesh)) CHECK(difference(all, gradients(*whole, alone())) < 1e-12);
        }
        optimizer.step();
        own_optimizer.step();
      }
      const Values found = weights(*divided, mesh);
      if (has_wholes(mesh)) CHECK(difference(found, weights(*whole, alone())) < 1e-9);
    }
  }
}

TEST_CASE("context parallel: in f32 gradients are at most twice as far from f64 as one rank's",
          "[dist][context][accuracy]") {
  const auto comm = this_run();
  for (const Way& way : ways(comm->size())) {
    const Mesh mesh(comm, way.mesh);
    for (const Kind& kind : kinds()) {
      INFO(text_of(kind, way));
      const Layers layers = layers_over(mesh, way.sequence);
      const auto exact = make(kind, one_rank(), DType::f64), whole = make(kind, one_rank(), DType::f32);
      const auto divided = make(kind, layers, DType::f32, comm->device());
      backward(*exact, *one_rank(), DType::f64);
      backward(*whole, *one_rank(), DType::f32);
      backward(*divided, *layers, way, mesh, DType::f32);
      const Values found = gradients(*divided, mesh);
      if (!has_wholes(mesh)) continue;
      const Values expected = gradients(*exact, alone());
      CHECK(difference(found, expected) <= 2 * difference(gradients(*whole, alone()), expected));
    }
  }
}

namespace {

/// What a run through the trainer leaves: losses and norms of the steps, the test loss, and on the first rank
/// the weights.
struct Trained {
  std::vector<double> losses, norms;
  double test;
  Values weights;
};

OptimizerKind kind_of_lamb() {
  OptimizerKind kind = optimizer_named("lamb");
  kind.make = [](ParameterArena& arena, const OptimizerSettings& s,
                 const std::vector<ParameterGroup>& groups) {
    return lamb_with_large_eps(arena, {.learning_rate = s.learning_rate, .weight_decay = s.weight_decay},
                               groups);
  };
  return kind;
}

/// Steps on windows of a text, some of which are padded, and a short last update.
Trained train(TrainerOptions options, const std::string& optimizer = "sgd", double dropout = 0) {
  TransformerOptions shape = sizes();
  shape.context = 16;
  shape.dropout = dropout;
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < 16 * 15 + 9; ++i) ids.push_back((i * i / 3) % 30);
  const auto text = std::make_shared<TokenDataset>(Tokens(ids, ByteTokenizer()), shape.context,
                                                   TokenDataset::Windows::consecutive);
  Task task = language_model_task("", text, text);
  task.make_model_with = [&](const Layers& layers) { return std::make_shared<GPT>(shape, layers); };
  options.device = device_of_run();
  options.data.batch_size = 12;
  options.data.eval_batch_size = 3;
  options.data.epochs = kSlowKernels ? 1 : 3;
  static const OptimizerKind lamb = kind_of_lamb();
  options.optimizer.kind = optimizer == "lamb" ? &lamb : &optimizer_named(optimizer);
  options.optimizer.learning_rate = optimizer == "sgd" ? 0.1 : 0.01;
  options.optimizer.clip_norm = 0.5;
  options.precision.dtype = DType::f32;
  options.observation.quiet = true;
  ringtape::Trainer trainer(task, options);
  Trained found;
  trainer.after_step([&](const ringtape::Trainer::Step& step) {
    found.losses.push_back(step.loss.item());
    found.norms.push_back(step.grad_norm.item());
  });
  found.test = trainer.train().test.loss;
  if (const std::shared_ptr<Module> whole = trainer.whole_model()) {
    for (const NamedParameter& parameter : whole->named_parameters()) {
      found.weights[parameter.name] = parameter.tensor->to_doubles();
    }
  }
  return found;
}

}  // namespace

TEST_CASE("context parallel: a run through the trainer equals one on as many data ranks", "[dist][context]") {
  const auto comm = this_run();
  if (comm->size() % 2 != 0) return;
  const Trained expected = train({});
  for (int context = 2; context <= comm->size(); context *= 2) {
    for (int zero = 0; zero <= 3; ++zero) {
      INFO(context << " context ranks of " << comm->size() << ", ZeRO " << zero);
      if (in_few_ways() && context > 2 && zero % 3 != 0) continue;
      TrainerOptions options;
      options.distribution.context_parallel = context;
      options.distribution.zero = zero;
      options.distribution.check_replicas = zero < 3;  // ZeRO 3 refuses it: no two ranks have the same values
      if (zero % 2 == 1) options.accumulation.micro_batch = 2;
      const Trained found = train(options);
      CHECK(found.test == Approx(expected.test).epsilon(1e-5));
      CHECK(largest_difference(found.losses, expected.losses) < 1e-5);
      CHECK(largest_difference(found.norms, expected.norms) < 1e-4);
      if (comm->rank() == 0) CHECK(difference(found.weights, expected.weights) < 1e-5);
    }
  }
}

TEST_CASE("context parallel: a run with tensor or pipeline ranks as well equals one on one data rank",
          "[dist][context]") {
  const auto comm = this_run();
  if (comm->size() != 4) return;
  TrainerOptions layers, stages;
  layers.distribution.context_parallel = stages.distribution.context_parallel = 2;
  layers.distribution.tensor_parallel = 2;
  layers.distribution.sequence_parallel = true;
  stages.distribution.pipeline_parallel = 2;
  // Masks differ between data ranks. Here there is one data rank, as with four tensor ranks.
  TrainerOptions one_data_rank;
  one_data_rank.distribution.tensor_parallel = 4;
  for (TrainerOptions* each : {&layers, &stages, &one_data_rank}) {
    each->distribution.check_replicas = true;
    each->accumulation.micro_batch = 4;  // masks depend on the micro-batches
  }
  const Trained plain = train({}), with_masks = train(one_data_rank, "lamb", 0.3);
  for (const TrainerOptions& options : {layers, stages}) {
    INFO(options.distribution.tensor_parallel << " ranks divide a layer");
    for (const auto& [optimizer, dropout, expected] :
         {std::tuple("sgd", 0.0, &plain), std::tuple("lamb", 0.3, &with_masks)}) {
      INFO(optimizer << ", dropout " << dropout);
      const Trained found = train(options, optimizer, dropout);
      CHECK(found.test == Approx(expected->test).epsilon(1e-5));
      CHECK(largest_difference(found.losses, expected->losses) < 1e-5);
      CHECK(largest_difference(found.norms, expected->norms) < 1e-4);
      if (comm->rank() == 0) CHECK(difference(found.weights, expected->weights) < 1e-5);
    }
  }
}

TEST_CASE("context parallel: a rank reads its tokens of each sample; size and checksum are the whole data's",
          "[dist][context]") {
  std::vector<std::int32_t> x, y;
  for (std::int32_t i = 0; i < 3 * 12; ++i) x.push_back(i), y.push_back(100 + i);
  const auto whole = std::make_shared<TensorDataset>(from_vector(x, {3, 12}), from_vector(y, {3, 12}));
  const ContextDataset own(whole, {1, 3, nullptr});
  CHECK(own.features().shape == Shape{4});
  CHECK(own.size() == 3);
  CHECK(own.checksum() == whole->checksum());
  std::vector<std::int32_t> features(8), targets(8);
  own.read(std::vector<std::int64_t>{2, 0}, features.data(), targets.data());
  CHECK(features == std::vector<std::int32_t>{26, 27, 32, 33, 2, 3, 8, 9});
  CHECK(targets == std::vector<std::int32_t>{126, 127, 132, 133, 102, 103, 108, 109});
}

TEST_CASE("context parallel: a length that cannot be divided is an error that names the nearest",
          "[dist][context]") {
  const auto sequences = [](std::int64_t length) {
    const Tensor x = from_vector(std::vector<std::int32_t>(static_cast<std::size_t>(length)), {1, length});
    return std::make_shared<TensorDataset>(x, x);
  };
  const auto error_for = [&](std::int64_t length, int ranks) {
    return error_of([&] { ContextDataset(sequences(length), {0, ranks, nullptr}); });
  };
  CHECK(
      error_for(256, 3) ==
      "--context-parallel 3: sequences of 256 tokens have no 6 equal chunks, the nearest length that has is "
      "258");
  CHECK(error_for(254, 3).ends_with("is 252"));
  CHECK(error_for(3, 4).ends_with("is 8"));
  const auto images = std::make_shared<TensorDataset>(from_vector(std::vector<float>(8), {2, 4}),
                                                      from_vector(std::vector<std::int32_t>(2), {2}));
  CHECK_THAT(error_of([&] {
               ContextDataset(images, {0, 2, nullptr});
             }),
             ContainsSubstring("not sequences of tokens, expected a language model"));

  const auto comm = this_run();
  const Tensor odd = tensor_of(random_doubles(3 * 6, 1), {1, 3, 6}, DType::f32, comm->device());
  CHECK_THAT(error_of([&] { ring_attention(odd, 1, 1, {}, comm); }),
             ContainsSubstring("two chunks of tokens"));
  const Tensor six = tensor_of(random_doubles(12 * 6, 1), {1, 12, 6}, DType::f32, comm->device());
  CHECK(error_of([&] { ring_attention(six, 1, 1, {.dropout = 0.1}, comm); }) ==
        fmt::format("--context-parallel {}: dropout of attention needs chunks of a multiple of 4 tokens, "
                    "found {} chunks of 6: the nearest length of a sequence is {}",
                    comm->size(), 2 * comm->size(), 16 * comm->size()));
}

TEST_CASE("layouts: attention or dropout of a part of the tokens as if it were all is an error",
          "[dist][context][layout]") {
  const auto comm = this_run();
  const auto error_in = [](bool context, const auto& forward) {
    const TapeScope scope;
    LayoutCheck check(nullptr, context);
    const TapeObserverScope observed(&check);
    return error_of([&] { forward(); });
  };
  const Tensor x = leaf(random_doubles(8 * 12, 1), {1, 8, 12});
  const auto attends = [&] { causal_self_attention(x, 2, 2); };
  CHECK_THAT(error_in(true, attends),
             ContainsSubstring("expected ring_attention, as ranks divide the tokens"));
  CHECK(error_in(false, attends).empty());
  CHECK_THAT(error_in(true, [&] { dropout(x, 0.5); }), ContainsSubstring("expected dropout_of_tokens"));
  CHECK(error_in(true, [&] { dropout_of_tokens(x, 0.5, {{8, 8}}, 16); }).empty());
  CHECK_THAT(error_in(false,
                      [&] {
                        dropout_of_tokens(x, 0.5, {{8, 8}}, 16);
                      }),
             ContainsSubstring("tokens of which each rank has its part"));
}

}  // namespace ringtape::test
