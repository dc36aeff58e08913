// A model divided over ranks, compared with the same model on one rank.
#include "dist/tensor_parallel.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "autograd/tape.h"
#include "dist/model_parts.h"
#include "dist/self_communicator.h"
#include "dist/tensor_parallel_ops.h"
#include "nn/gpt.h"
#include "optim/clip.h"
#include "optim/lars.h"
#include "optim/sgd.h"
#include "tests/dist/divided_models.h"
#include "tests/dist/lamb.h"
#include "tests/dist/ranks.h"
#include "tests/dist/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/check_build.h"
#include "tests/support/error_of.h"

namespace ringtape::test {
namespace {

/// A kind of model, with the inputs of a batch and the loss of its outputs. Sizes are divisible by 1 to 4
/// ranks only where they must be.
struct Kind {
  std::string name;
  std::function<std::shared_ptr<Module>(const Layers&)> make;
  std::function<Tensor(DType)> input;
  std::function<Tensor(const LayerFactory&, Tensor)> loss;
  bool sequence = false;  // with sequence parallelism
};

Kind gpt(const std::string& name, const TransformerOptions& options) {
  return {name, [options](const Layers& layers) { return std::make_shared<GPT>(options, layers); },
          [](DType) {
            return from_vector(tokens_from(2), {kBatch, kTokens});
          },
          [](const LayerFactory& layers, Tensor logits) {
            std::vector<std::int64_t> targets = tokens_from(5);
            targets[3] = targets[8] = -100;
            const std::int64_t rows = kBatch * kTokens;
            const Tensor flat = view(logits, {rows, logits.size(2)});
            return layers.cross_entropy(flat, from_vector(targets, {rows}, logits.device()),
                                        {.reduction = Reduction::sum, .divisor = 34});
          }};
}

Kind mlp(const std::vector<std::int64_t>& sizes) {
  return {"MLP of " + std::to_string(sizes.size() - 1) + " layers",
          [sizes](const Layers& layers) { return make_mlp(sizes, *layers); },
          [inputs = sizes[0]](DType dtype) {
            return tensor_of(random_doubles(kBatch * inputs, 1), {kBatch, inputs}, dtype);
          },
          [](const LayerFactory&, const Tensor& output) {
            const Tensor target = tensor_of(random_doubles(output.elements(), 2), output.shape(),
                                            output.dtype(), output.device());
            return mse_loss(output, target);
          }};
}

Kind with_sequences(Kind kind) {
  kind.name += ", sequence parallel";
  kind.sequence = true;
  return kind;
}

std::vector<Kind> kinds() {
  // Sequence parallelism and dropout, grouped-query heads and rotary positions, and layers of odd sizes.
  if (kSlowKernels) {
    return {with_sequences(gpt("GPT with dropout", with_dropout(gpt_options()))), gpt("Llama", llama()),
            mlp({12, 17, 9, 11, 5})};
  }
  return {with_sequences(gpt("GPT with dropout", with_dropout(gpt_options()))),
          with_sequences(gpt("Llama", llama())),
          gpt("GPT", gpt_options()),
          gpt("GPT with dropout", with_dropout(gpt_options())),
          gpt("Llama", llama()),
          mlp({12, 17, 9, 11, 5}),
          mlp({12, 17, 9, 5})};
}

Layers layers_over(const std::shared_ptr<Communicator>& comm, bool sequence = false) {
  return std::make_shared<TensorParallelFactory>(comm, sequence);
}

std::shared_ptr<Module> make(const Kind& kind, const Layers& layers, DType dtype = DType::f32,
                             Device device = {}) {
  manual_seed(3);
  const std::shared_ptr<Module> model = kind.make(layers);
  convert(*model, dtype, device);
  return model;
}

double backward(const Kind& kind, Module& model, const LayerFactory& layers, DType dtype = DType::f32) {
  const TapeScope scope;
  manual_seed(7);  // of dropout
  const Device device = model.named_parameters()[0].tensor->device();
  const Tensor loss = kind.loss(layers, model(to(kind.input(dtype), device)));
  loss.backward();
  return loss.item();
}

/// The same as ParameterArena::sum_parts_of_gradients(), for a model without an arena.
void sum_parts(Module& model, Communicator& comm) {
  for (const NamedParameter& parameter : model.named_parameters()) {
    if (shard_of(*parameter.tensor) == nullptr)
      comm.all_reduce(parameter.tensor->grad(), ReduceOp::sum).wait();
  }
}

/// The tensors of the whole model by parameter, on rank 0.
Values wholes(Module& model, Communicator& comm, const std::function<Tensor(const Tensor&)>& of) {
  Values values;
  for (const NamedParameter& parameter : model.named_parameters()) {
    const ParameterShard* const shard = shard_of(*parameter.tensor);
    Tensor whole = of(*parameter.tensor);
    if (shard != nullptr) whole = gather_whole(whole, *shard, comm);
    if (comm.rank() == 0) values[parameter.name] = whole.to_doubles();
  }
  return values;
}
Values gradients(Module& model, Communicator& comm) {
  return wholes(model, comm, [](const Tensor& parameter) { return parameter.grad(); });
}
Values weights(Module& model, Communicator& comm) {
  return wholes(model, comm, [](const Tensor& parameter) { return parameter; });
}

}  // namespace

TEST_CASE("tensor parallel: equal seeds give the model of one rank, to the bit", "[dist][tensor]") {
  const auto comm = this_run();
  for (const Kind& kind : kinds()) {
    INFO(kind.name);
    const auto whole = make(kind, one_rank()), divided = make(kind, layers_over(comm, kind.sequence));
    const auto alone = std::make_shared<SelfCommunicator>(Device{});
    const Values found = weights(*divided, *comm);
    if (comm->rank() == 0) CHECK(found == weights(*whole, *alone));
    std::int64_t own = 0;
    for (const NamedParameter& parameter : divided->named_parameters()) own += parameter.tensor->elements();
    CHECK(whole_elements(*divided) == whole_elements(*whole));
    if (comm->size() > 1) CHECK(own < whole_elements(*whole));
  }
}

TEST_CASE("tensor parallel: parts of the tensors of one rank can be read at once", "[dist][tensor]") {
  const auto comm = this_run();
  for (const Device device : {Device{}, comm->device()}) {
    for (const Kind& kind : kinds()) {
      INFO(kind.name << " on " << to_string(device));
      const auto whole = make(kind, one_rank());
      const auto divided = make(kind, layers_over(comm, kind.sequence), DType::f32, device);
      std::vector<NamedTensor> wholes, parts;
      std::vector<std::vector<double>> expected;
      for (const NamedParameter& each : whole->named_parameters()) {
        wholes.push_back({each.name, comm->rank() == 0 ? each.tensor->detach() : Tensor()});
      }
      for (const NamedParameter& each : divided->named_parameters()) {
        Tensor part = each.tensor->detach();
        const bool is_source = comm->rank() == 0 && shard_of(*each.tensor) == nullptr;
        expected.push_back(part.to_doubles());
        if (!is_source) part.copy_from(zeros(part.shape(), part.dtype(), device));
        parts.push_back({each.name, part});
      }
      scatter_wholes(*divided, wholes, parts, *comm);
      for (std::size_t i = 0; i < parts.size(); ++i) CHECK(parts[i].tensor.to_doubles() == expected[i]);
    }
  }
}

TEST_CASE("tensor parallel: in f64 loss and gradients are those of one rank", "[dist][tensor][accuracy]") {
  const auto comm = this_run();
  if (comm->device().is_cuda()) return;  // GPUs have no kernels for f64
  for (const Kind& kind : kinds()) {
    INFO(kind.name);
    const auto whole = make(kind, one_rank(), DType::f64);
    const Layers layers = layers_over(comm, kind.sequence);
    const auto divided = make(kind, layers, DType::f64);
    const double expected = backward(kind, *whole, *one_rank(), DType::f64);
    const double found = backward(kind, *divided, *layers, DType::f64);
    if (kind.sequence) sum_parts(*divided, *comm);
    CHECK_THAT(found, Catch::Matchers::WithinRel(expected, 1e-13));
    const Values all = gradients(*divided, *comm);
    const auto alone = std::make_shared<SelfCommunicator>(Device{});
    if (comm->rank() == 0) CHECK(difference(all, gradients(*whole, *alone)) < 1e-12);
    // An undivided parameter has the same gradient on all ranks, to the bit.
    for (const NamedParameter& parameter : divided->named_parameters()) {
      if (shard_of(*parameter.tensor) != nullptr) continue;
      INFO(parameter.name);
      const std::vector<double> own = parameter.tensor->grad().to_doubles();
      const Tensor of_first = tensor_of(own, {std::ssize(own)}, DType::f64);
      comm->broadcast(of_first, 0).wait();
      CHECK(of_first.to_doubles() == own);
    }
  }
}

TEST_CASE("tensor parallel: in f64 steps of Adam are those of one rank", "[dist][tensor][accuracy]") {
  const auto comm = this_run();
  if (comm->device().is_cuda()) return;  // GPUs have no kernels for f64
  const auto alone = std::make_shared<SelfCommunicator>(Device{});
  for (const Kind& kind : kinds()) {
    INFO(kind.name);
    const Layers layers = layers_over(comm, kind.sequence);
    const auto whole = make(kind, one_rank(), DType::f64), divided = make(kind, layers, DType::f64);
    AdamInF64 optimizer(*whole), own_optimizer(*divided);
    for (int i = 0; i < repetitions(20); ++i) {
      const double expected = backward(kind, *whole, *one_rank(), DType::f64);
      CHECK_THAT(backward(kind, *divided, *layers, DType::f64), Catch::Matchers::WithinRel(expected, 1e-9));
      if (kind.sequence) sum_parts(*divided, *comm);
      optimizer.step();
      own_optimizer.step();
    }
    const Values found = weights(*divided, *comm);
    if (comm->rank() == 0) CHECK(difference(found, weights(*whole, *alone)) < 1e-9);
  }
}

TEST_CASE("tensor parallel: in f32 gradients are at most twice as far from f64 as one rank's",
          "[dist][tensor][accuracy]") {
  const auto comm = this_run();
  const auto alone = std::make_shared<SelfCommunicator>(Device{});
  for (const Kind& kind : kinds()) {
    INFO(kind.name);
    const auto exact = make(kind, one_rank(), DType::f64), whole = make(kind, one_rank());
    const Layers layers = layers_over(comm, kind.sequence);
    const auto divided = make(kind, layers, DType::f32, comm->device());
    backward(kind, *exact, *one_rank(), DType::f64);
    backward(kind, *whole, *one_rank());
    backward(kind, *divided, *layers);
    if (kind.sequence) sum_parts(*divided, *comm);
    const Values found = gradients(*divided, *comm);
    if (comm->rank() != 0) continue;
    const Values expected = gradients(*exact, *alone);
    CHECK(difference(found, expected) <= 2 * difference(gradients(*whole, *alone), expected));
  }
}

TEST_CASE("tensor parallel: loss, gradient norm and weights of clipped steps are those of one rank",
          "[dist][tensor]") {
  const auto comm = this_run();
  const auto alone = std::make_shared<SelfCommunicator>(Device{});
  for (const Kind& kind : kinds()) {
    for (const std::string name : {"LAMB", "SGD", "LARS"}) {
      if (kSlowKernels && name == "LARS") continue;
      INFO(kind.name << ", " << name);
      const Layers layers = layers_over(comm, kind.sequence);
      const auto whole = make(kind, one_rank()), divided = make(kind, layers);
      ParameterArena arena(*whole, Device{}), own_arena(*divided, comm->device());
      own_arena.set_division(division_over(comm, kind.sequence));
      const auto optimizer_of = [&](ParameterArena& of) -> std::unique_ptr<Optimizer> {
        if (name == "LAMB") return lamb_with_large_eps(of, {.learning_rate = 0.01});
        // With a large eps LARS's rates depend on the norms themselves, not only on their quotients.
        if (name == "LARS") {
          return std::make_unique<Lars>(
              of, LarsOptions{.learning_rate = 0.01, .trust_coefficient = 1, .eps = 0.1});
        }
        return std::make_unique<SGD>(of, SGDOptions{.learning_rate = 0.1, .momentum = 0.9});
      };
      train_both(
          arena, own_arena, optimizer_of, [&] { return backward(kind, *whole, *one_rank()); },
          [&] {
            const double loss = backward(kind, *divided, *layers);
            own_arena.sum_parts_of_gradients();
            return loss;
          });
      const Values found = weights(*divided, *comm);
      if (comm->rank() != 0) continue;
      CHECK(difference(found, weights(*whole, *alone)) < 1e-5);
    }
  }
}

TEST_CASE("tensor parallel: clipped in memory, gradients of undivided parameters are those of one rank",
          "[dist][tensor]") {
  const auto comm = this_run();
  const Kind kind = gpt("GPT", gpt_options());
  const Layers layers = layers_over(comm);
  const auto whole = make(kind, one_rank()), divided = make(kind, layers);
  ParameterArena arena(*whole, Device{}), own_arena(*divided, comm->device());
  own_arena.set_division(division_over(comm, false));
  backward(kind, *whole, *one_rank());
  backward(kind, *divided, *layers);
  const double norm = clip_grad_norm_now(arena, 0.1).item();
  CHECK(norm > 0.2);
  CHECK(clip_grad_norm_now(own_arena, 0.1).item() == Approx(norm).epsilon(1e-4));
  for (const NamedParameter& parameter : divided->named_parameters()) {
    if (shard_of(*parameter.tensor) != nullptr) continue;
    INFO(parameter.name);
    CHECK(largest_difference(parameter.tensor->grad().to_doubles(),
                             whole->parameter(parameter.name).grad().to_doubles()) < 1e-4);
  }
}

TEST_CASE("tensor parallel: a sum over n ranks in 16 bits rounds at most n - 1 times", "[dist][tensor]") {
  const auto comm = this_run();
  const NoGrad no_grad;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Shape shape{4, 50};
    std::vector<double> sum(200), magnitudes(200);
    for (int rank = 0; rank < comm->size(); ++rank) {
      const std::vector<double> part =
          tensor_of(random_doubles(200, 10 + static_cast<unsigned>(rank), -2, 2), shape, dtype).to_doubles();
      for (std::size_t i = 0; i < 200; ++i) sum[i] += part[i], magnitudes[i] += std::abs(part[i]);
    }
    const Tensor own = tensor_of(random_doubles(200, 10 + static_cast<unsigned>(comm->rank()), -2, 2), shape,
                                 dtype, comm->device());
    const std::vector<double> found = reduce_from_region(own, {}, comm).to_doubles();
    const double most = std::pow(1 + (dtype == DType::bf16 ? 0x1p-8 : 0x1p-11), comm->size() - 1) - 1;
    for (std::size_t i = 0; i < 200; ++i) CHECK(std::abs(found[i] - sum[i]) <= most * magnitudes[i]);
  }
}

TEST_CASE("tensor parallel: the gradient of cross-entropy is proportional to its loss's", "[dist][tensor]") {
  const auto comm = this_run();
  const auto gradient_for = [&](double factor) {
    const TapeScope scope;
    Tensor logits = tensor_of(random_doubles(8, 3), {2, 4}, DType::f32, comm->device());
    logits.set_requires_grad(true);
    const Tensor targets = copy_to(from_vector(std::vector<std::int64_t>{1, 2}, {2}), comm->device());
    const Tensor loss =
        cross_entropy_of_parts(logits, targets, std::int64_t{4} * comm->rank(),
                               std::int64_t{4} * comm->size(), {.reduction = Reduction::sum}, comm);
    scale(loss, factor).backward();
    return logits.grad().to_doubles();
  };
  std::vector<double> expected = gradient_for(1);
  for (double& value : expected) value *= 3;
  check_close(gradient_for(3), expected, 1e-6, 1e-6);
}

TEST_CASE("tensor parallel: no rank has all logits, and targets are ignored or refused on all ranks",
          "[dist][tensor]") {
  const auto comm = this_run();
  const Layers layers = layers_over(comm);
  const Kind kind = gpt("GPT", gpt_options());
  const Device device = comm->device();
  const auto model = make(kind, layers, DType::f32, device);
  const NoGrad no_grad;
  const Tensor logits = (*model)(to(kind.input(DType::f32), device));
  const std::int64_t n = comm->size(), rank = comm->rank();
  CHECK(logits.shape() == Shape{kBatch, kTokens, kVocabulary * (rank + 1) / n - kVocabulary * rank / n});
  const std::int64_t rows = kBatch * kTokens;
  const Tensor flat = logits.alias({rows, logits.size(2)});
  const auto loss_of = [&](std::int64_t target) {
    return layers->cross_entropy(flat, from_vector(std::vector<std::int64_t>(rows, target), {rows}, device),
                                 {.reduction = Reduction::sum});
  };
  CHECK(loss_of(-100).item() == 0);
  CHECK(error_of([&] {
          loss_of(kVocabulary);
          check_indices(device);
        }).find("is outside of [0, classes)") != std::string::npos);
  CHECK(error_of([&] {
          (*model)(from_vector(std::vector<std::int64_t>{1, kVocabulary}, {1, 2}, device));
          check_indices(device);
        }).find("embedding: token number 1 is outside of [0, vocabulary)") != std::string::npos);
}

TEST_CASE("tensor parallel: sequence parallelism divides tokens, and stores fewer activations",
          "[dist][tensor]") {
  const auto comm = this_run();
  const Kind kind = with_sequences(gpt("GPT", gpt_options()));
  const Layers layers = layers_over(comm, true);
  const Device device = comm->device();
  const Tensor tokens = to(kind.input(DType::f32), device);
  const auto table = layers->by_vocabulary(std::make_shared<Embedding>(kVocabulary, 4));
  Tensor& weight = table->parameter("weight");
  weight = to(weight.detach(), device).set_requires_grad(true);
  const Tensor own = layers->embed(tokens, weight, {}, 0);
  CHECK(own.shape() == Shape{kBatch, kTokens / comm->size(), 4});
  Tape::current().clear();
  std::size_t bytes[2];
  for (const bool sequence : {false, true}) {
    const Layers used = layers_over(comm, sequence);
    const auto model = make(kind, used, DType::f32, device);
    const TapeScope scope;
    kind.loss(*used, (*model)(tokens));
    bytes[sequence ? 1 : 0] = Tape::current().saved_bytes();
  }
  if (comm->size() > 1) CHECK(bytes[1] < bytes[0]);
  const Tensor odd = from_vector(std::vector<std::int64_t>(5, 1), {1, 5}, device);
  if (comm->size() > 1 && comm->size() < 5) {
    CHECK_THAT(
        error_of([&] { layers->embed(odd, weight, {}, 0); }),
        ContainsSubstring("ranks do not divide sequences of 5 tokens, the nearest that they divide is "));
  }
  Tape::current().clear();
}

TEST_CASE("tensor parallel: sizes that cannot be divided are errors that name the nearest number of ranks",
          "[dist][tensor]") {
  const auto comm = this_run();
  if (comm->size() != 4) return;
  TransformerOptions options = gpt_options();
  options.heads = 6;
  CHECK(
      error_of([&] { GPT(options, layers_over(comm)); }) ==
      "--tensor-parallel 4: does not divide 6 heads, the nearest that divides both them and the ranks is 2");
  options.heads = 24;
  options.kv_heads = 2;
  CHECK(error_of([&] { GPT(options, layers_over(comm)); }) ==
        "--tensor-parallel 4: does not divide 2 heads of keys and values, the nearest that divides both them "
        "and "
        "the ranks is 2");
  // Of 12 ranks that tensor and data ranks share, three can divide six heads.
  options.heads = 6;
  options.kv_heads = 0;
  CHECK(error_of([&] {
          GPT(options, std::make_shared<TensorParallelFactory>(comm, false, 12));
        }).ends_with("that divides both them and the ranks is 3"));
  options = gpt_options();
  options.vocabulary = 3;
  CHECK(error_of([&] { GPT(options, layers_over(comm)); }) ==
        "--tensor-parallel 4: a vocabulary of 3 has too few tokens, expected at most 3, the nearest that "
        "divides the ranks is 2");
  CHECK(error_of([&] {
          make_mlp({5, 3, 5}, *layers_over(comm));
        }) ==
        "--tensor-parallel 4: a layer of 3 outputs cannot be divided, expected at most 3, the nearest that "
        "divides the ranks is 2");
}

}  // namespace ringtape::test
