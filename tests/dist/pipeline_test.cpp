// A model in the stages of a pipeline, compared with the same model on one rank.
#include "dist/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "autograd/tape.h"
#include "core/memory.h"
#include "dist/stage_parts.h"
#include "dist/verify_replicas.h"
#include "nn/gpt.h"
#include "nn/model_file.h"
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

/// The samples of each micro-batch: of two sizes, and seven of them, which 2, 3 and 4 stages do not divide.
const std::vector<std::int64_t> kMicroBatches = {1, 2, 1, 2, 1, 1, 1};

/// A kind of model of 8 units, and the loss of a micro-batch's samples.
struct Kind {
  std::string name;
  std::function<std::shared_ptr<Module>(const Layers&)> make;
  std::function<Tensor(std::size_t micro_batch, DType)> input;
  std::function<Tensor(const Tensor& output, std::size_t micro_batch)> loss;
};

std::vector<std::int64_t> tokens_of(std::size_t micro_batch, std::int64_t first) {
  std::vector<std::int64_t> tokens;
  const auto from = first + 31 * static_cast<std::int64_t>(micro_batch);
  for (std::int64_t i = 0; i < kMicroBatches[micro_batch] * kTokens; ++i)
    tokens.push_back((from + i * i) % kVocabulary);
  return tokens;
}

Kind gpt(const std::string& name, TransformerOptions options, std::int64_t recompute = 0) {
  options.layers = 6;
  return {name,
          [options, recompute](const Layers& layers) {
            const auto model = std::make_shared<GPT>(options, layers);
            model->set_recompute(recompute);
            return model;
          },
          [](std::size_t m, DType) {
            return from_vector(tokens_of(m, 2), {kMicroBatches[m], kTokens});
          },
          [](const Tensor& logits, std::size_t m) {
            const std::int64_t rows = logits.size(0) * logits.size(1);
            const Tensor targets = copy_to(from_vector(tokens_of(m, 5), {rows}), logits.device());
            return cross_entropy(view(logits, {rows, logits.size(2)}), targets,
                                 {.reduction = Reduction::sum, .divisor = 108});
          }};
}

Kind mlp() {
  return {"MLP",
          [](const Layers& layers) {
            return make_mlp({12, 17, 9, 11, 8, 14, 10, 9, 5}, *layers);
          },
          [](std::size_t m, DType dtype) {
            return tensor_of(random_doubles(kMicroBatches[m] * 12, 1 + m), {kMicroBatches[m], 12}, dtype);
          },
          [](const Tensor& output, std::size_t m) {
            const Tensor target = tensor_of(random_doubles(output.elements(), 20 + m), output.shape(),
                                            output.dtype(), output.device());
            return mse_loss(output, target, Reduction::sum, 45);
          }};
}

std::vector<Kind> kinds() {
  if (kSlowKernels) return {gpt("GPT with dropout, recomputed", with_dropout(gpt_options()), 1), mlp()};
  return {gpt("GPT", gpt_options()), gpt("GPT with dropout", with_dropout(gpt_options())),
          gpt("Llama", llama()), gpt("GPT with dropout, recomputed", with_dropout(gpt_options()), 1), mlp()};
}

struct Way {
  std::string name;
  PipelineScheduleKind schedule;
  int chunks;
};
const std::vector<Way> kWays = {{"1f1b", PipelineScheduleKind::one_f_one_b, 1},
                                {"afab", PipelineScheduleKind::afab, 1},
                                {"interleaved", PipelineScheduleKind::interleaved, 2}};

/// The model on one rank.
struct Whole {
  Whole(const Kind& made_of, DType of, Device device) : kind(made_of), dtype(of) {
    manual_seed(3);
    model = kind.make(one_rank());
    convert(*model, dtype, device);
  }
  /// Adds up the gradients of the micro-batches; returns the sum of their losses.
  double backward() {
    manual_seed(7);  // of dropout
    const Device device = model->named_parameters()[0].tensor->device();
    double sum = 0;
    for (std::size_t m = 0; m < kMicroBatches.size(); ++m) {
      const TapeScope scope;
      const Tensor loss = kind.loss((*model)(to(kind.input(m, dtype), device)), m);
      loss.backward();
      sum += loss.item();
    }
    return sum;
  }
  Kind kind;
  DType dtype;
  std::shared_ptr<Module> model;
};

/// This rank's stage of it.
struct Staged {
  Staged(const Kind& made_of, const Way& way, DType of) : kind(made_of), dtype(of), line(this_run()) {
    const auto layers = std::make_shared<LayerFactory>();
    layers->set_stages(std::make_shared<Stages>(
        PipelinePlace{.stage = line->rank(), .stages = line->size(), .chunks = way.chunks}));
    manual_seed(3);
    model = kind.make(layers);
    owner = layers;
    convert(*model, dtype, line->device());
  }
  void connect(const Way& way) {
    pipeline = std::make_unique<Pipeline>(*model, stages(), line, PipelineOptions{.schedule = way.schedule});
  }
  const Stages& stages() const { return *owner->stages(); }
  /// Returns the sum of the losses on the last stage, 0 on the others.
  double forward_backward() {
    manual_seed(7);
    std::vector<Shape> shapes;
    for (std::size_t m = 0; m < kMicroBatches.size(); ++m) shapes.push_back(kind.input(m, dtype).shape());
    double own = 0;
    pipeline->forward_backward(
        shapes, {.input = [&](std::size_t m) { return to(kind.input(m, dtype), line->device()); },
                 .loss = [&](const Tensor& y, std::size_t m) { return kind.loss(y, m); },
                 .backward =
                     [&](const Tensor& loss) {
                       own += loss.item();
                       loss.backward();
                     }});
    return own;
  }
  /// Returns the sum of the losses, on every rank.
  double backward() {
    const double own = forward_backward();
    pipeline->sum_tied_gradients();
    const Tensor loss = tensor_of({own}, {1}, DType::f64);
    if (line->device().is_cuda()) {
      const Tensor of_last = tensor_of({own}, {1}, DType::f32, line->device());
      line->all_reduce(of_last, ReduceOp::sum).wait();
      return of_last.to_doubles()[0];
    }
    line->all_reduce(loss, ReduceOp::sum).wait();
    return loss.to_doubles()[0];
  }
  /// The values of the whole model on rank 0, of the own stage on the others.
  Values values(const std::function<Tensor(const Tensor&)>& of) const {
    std::vector<NamedTensor> own;
    for (const NamedParameter& parameter : model->named_parameters())
      own.push_back({parameter.name, of(*parameter.tensor)});
    Values values;
    for (const auto& [name, tensor] : gather_stages(stages(), own, *line)) values[name] = tensor.to_doubles();
    return values;
  }
  Values gradients() const {
    return values([](const Tensor& parameter) { return parameter.grad(); });
  }
  Values weights() const {
    return values([](const Tensor& parameter) { return parameter.detach(); });
  }

  Kind kind;
  DType dtype;
  std::shared_ptr<Communicator> line;
  Layers owner;
  std::shared_ptr<Module> model;
  std::unique_ptr<Pipeline> pipeline;
};

Values values_of_whole(Module& model, const std::function<Tensor(const Tensor&)>& of) {
  Values values;
  for (const NamedParameter& parameter : model.named_parameters())
    values[parameter.name] = of(*parameter.tensor).to_doubles();
  return values;
}
Values gradients(Module& model) {
  return values_of_whole(model, [](const Tensor& parameter) { return parameter.grad(); });
}
Values weights(Module& model) {
  return values_of_whole(model, [](const Tensor& parameter) { return parameter; });
}

/// Whether there are several stages, and enough units for them.
bool fits(const Way& way) {
  const int ranks = this_run()->size();
  return ranks > 1 && ranks * way.chunks <= 8;
}

}  // namespace

TEST_CASE("pipeline: equal seeds give the model of one rank, each parameter on one stage", "[dist][stages]") {
  for (const Kind& kind : kinds()) {
    for (const Way& way : kWays) {
      if (!fits(way)) continue;
      INFO(kind.name << ", " << way.name);
      Whole whole(kind, DType::f32, Device{});
      const Staged staged(kind, way, DType::f32);
      const Values found = staged.weights();
      if (staged.line->rank() == 0) CHECK(found == weights(*whole.model));
      std::vector<std::string> names;
      for (const Stages::Parameter& parameter : staged.stages().parameters()) names.push_back(parameter.name);
      std::vector<std::string> expected;
      for (const NamedParameter& parameter : whole.model->named_parameters())
        expected.push_back(parameter.name);
      CHECK(names == expected);
      std::vector<std::string> own;
      for (const NamedParameter& parameter : staged.model->named_parameters()) own.push_back(parameter.name);
      CHECK(own == staged.stages().names_of(staged.line->rank()));
      CHECK(own.size() < expected.size());
      const bool is_tied = kind.name.starts_with("GPT");
      CHECK(staged.stages().copies().size() == (is_tied ? 1 : 0));
    }
  }
}

TEST_CASE("pipeline: in f64 loss and gradients of micro-batches are those of one rank",
          "[dist][stages][accuracy]") {
  if (this_run()->device().is_cuda()) return;  // GPUs have no kernels for f64
  for (const Kind& kind : kinds()) {
    Whole whole(kind, DType::f64, Device{});
    const double expected = whole.backward();
    const std::uint64_t random = default_generator().offset;
    for (const Way& way : kWays) {
      if (!fits(way)) continue;
      INFO(kind.name << ", " << way.name);
      Staged staged(kind, way, DType::f64);
      staged.connect(way);
      CHECK_THAT(staged.backward(), Catch::Matchers::WithinRel(expected, 1e-13));
      CHECK(default_generator().offset == random);
      const Values found = staged.gradients();
      if (staged.line->rank() == 0) CHECK(difference(found, gradients(*whole.model)) < 1e-12);
    }
  }
}

TEST_CASE("pipeline: in f64 steps of Adam are those of one rank", "[dist][stages][accuracy]") {
  if (this_run()->device().is_cuda()) return;  // GPUs have no kernels for f64
  const Way& way = kWays.front();
  for (const Kind& kind : kinds()) {
    if (!fits(way)) continue;
    INFO(kind.name);
    Whole whole(kind, DType::f64, Device{});
    Staged staged(kind, way, DType::f64);
    staged.connect(way);
    AdamInF64 optimizer(*whole.model), own_optimizer(*staged.model);
    for (int i = 0; i < repetitions(20); ++i) {
      const double expected = whole.backward();
      CHECK_THAT(staged.backward(), Catch::Matchers::WithinRel(expected, 1e-9));
      optimizer.step();
      own_optimizer.step();
    }
    const Values found = staged.weights();
    if (staged.line->rank() == 0) CHECK(difference(found, weights(*whole.model)) < 1e-9);
  }
}

TEST_CASE(
    "pipeline: in f32 every schedule has the bits of one rank, and with tied weights those of each other",
    "[dist][stages]") {
  const auto device = this_run()->device();
  for (const Kind& kind : kinds()) {
    Whole whole(kind, DType::f32, device);
    whole.backward();
    std::map<std::string, Values> found;  // by way
    for (const Way& way : kWays) {
      if (!fits(way)) continue;
      INFO(kind.name << ", " << way.name);
      Staged staged(kind, way, DType::f32);
      staged.connect(way);
      staged.backward();
      found[way.name] = staged.gradients();
      if (staged.line->rank() != 0) continue;
      Values expected = gradients(*whole.model);
      if (!staged.stages().copies().empty()) {
        // The sum of two stages' sums, not of the micro-batches in order.
        CHECK(difference({{"wte.weight", found[way.name]["wte.weight"]}},
                         {{"wte.weight", expected["wte.weight"]}}) < 1e-5);
        expected["wte.weight"] = found["1f1b"]["wte.weight"];
      }
      CHECK(found[way.name] == expected);
    }
  }
}

TEST_CASE("pipeline: in f32 gradients are at most twice as far from f64 as one rank's",
          "[dist][stages][accuracy]") {
  if (this_run()->device().is_cuda()) return;
  for (const Kind& kind : kinds()) {
    Whole exact(kind, DType::f64, Device{}), whole(kind, DType::f32, Device{});
    exact.backward();
    whole.backward();
    const Way& way = kWays.front();
    if (!fits(way)) continue;
    INFO(kind.name);
    Staged staged(kind, way, DType::f32);
    staged.connect(way);
    staged.backward();
    const Values found = staged.gradients(), expected = gradients(*exact.model);
    if (staged.line->rank() == 0) {
      CHECK(difference(found, expected) <= 2 * difference(gradients(*whole.model), expected));
    }
  }
}

TEST_CASE("pipeline: loss, gradient norm and weights of clipped steps are those of one rank",
          "[dist][stages]") {
  for (const Kind& kind : kinds()) {
    for (const Way& way : kWays) {
      for (const std::string name : {"SGD", "LAMB"}) {
        // The schedules have the same gradients, to the bit.
        if (!fits(way) || way.schedule == PipelineScheduleKind::afab) continue;
        if (way.chunks > 1 && (kSlowKernels || name == "LAMB")) continue;
        INFO(kind.name << ", " << way.name << ", " << name);
        const auto line = this_run();
        Whole whole(kind, DType::f32, Device{});
        Staged staged(kind, way, DType::f32);
        ParameterArena arena(*whole.model, Device{}), own_arena(*staged.model, line->device());
        staged.connect(way);
        own_arena.set_stages(staged.pipeline->of_arena());
        const auto optimizer_of = [&](ParameterArena& of) -> std::unique_ptr<Optimizer> {
          if (name == "LAMB") return lamb_with_large_eps(of, {.learning_rate = 0.01});
          return std::make_unique<SGD>(of, SGDOptions{.learning_rate = 0.1, .momentum = 0.9});
        };
        train_both(
            arena, own_arena, optimizer_of, [&] { return whole.backward(); },
            [&] { return staged.backward(); });
        const Values found = staged.weights();
        if (line->rank() == 0) CHECK(difference(found, weights(*whole.model)) < 1e-5);
        for (const Stages::TiedCopy& copy : staged.stages().copies()) {
          std::vector<double> of_owner(static_cast<std::size_t>(kVocabulary * 48));
          const bool takes_part = line->rank() == copy.owner || line->rank() == copy.stage;
          if (takes_part) of_owner = staged.model->parameter(copy.name).to_doubles();
          const Tensor sent = tensor_of(of_owner, {std::ssize(of_owner)}, DType::f32, line->device());
          line->broadcast(sent, copy.owner).wait();
          if (takes_part) CHECK(sent.to_doubles() == of_owner);
        }
      }
    }
  }
}

TEST_CASE("pipeline: an order of tasks that is given replaces the schedule's", "[dist][stages]") {
  const Way& way = kWays.front();
  if (!fits(way)) return;
  const int stages = this_run()->size();
  // Returns the tasks of the last stage, "f0 b0 ...", and the gradients.
  const auto run = [&](const PipelineOptions& options) {
    Staged staged(mlp(), way, DType::f32);
    Pipeline pipeline(*staged.model, staged.stages(), staged.line, options);
    std::vector<Shape> shapes;
    for (const std::int64_t samples : kMicroBatches) shapes.push_back({samples, 12});
    std::string log;
    std::size_t next = 0;
    const Kind& kind = staged.kind;
    pipeline.forward_backward(
        shapes, {.input = [&](std::size_t m) { return to(kind.input(m, DType::f32), staged.line->device()); },
                 .loss =
                     [&](const Tensor& y, std::size_t m) {
                       log += fmt::format("f{} ", m);
                       return kind.loss(y, m);
                     },
                 .backward =
                     [&](const Tensor& loss) {
                       log += fmt::format("b{} ", next++);
                       loss.backward();
                     }});
    return std::pair(log, staged.gradients());
  };
  const auto [by_schedule, expected] = run({});
  std::vector<int> asked;
  const auto [by_order, found] = run({.order = [&](const PipelineShape& shape, int stage) {
    CHECK(std::tuple(shape.stages, shape.micro_batches, shape.chunks) == std::tuple(stages, 7, 1));
    asked.push_back(stage);
    return stage_schedule(PipelineScheduleKind::afab, shape, stage);
  }});
  if (this_run()->rank() + 1 == stages) {
    CHECK(by_schedule == "f0 b0 f1 b1 f2 b2 f3 b3 f4 b4 f5 b5 f6 b6 ");
    CHECK(by_order == "f0 f1 f2 f3 f4 f5 f6 b0 b1 b2 b3 b4 b5 b6 ");
  }
  CHECK(static_cast<int>(asked.size()) == stages);
  if (this_run()->rank() == 0) CHECK(found == expected);
  CHECK(error_of([&] {
          run({.order = [](const PipelineShape& shape, int stage) {
            std::vector<StageTask> tasks = stage_schedule(PipelineScheduleKind::afab, shape, stage);
            std::rotate(tasks.begin(), tasks.begin() + shape.micro_batches, tasks.end());
            return tasks;
          }});
        }) == "pipeline: stage 0 waits for ever before the backward of micro-batch 0 through chunk 0");
  const auto without_first = [](std::vector<StageTask> tasks) {
    return std::vector<StageTask>(tasks.begin() + 1, tasks.end());
  };
  CHECK(error_of([&] {
          run({.order = [&](const PipelineShape& shape, int stage) {
            const std::vector<StageTask> tasks = stage_schedule(PipelineScheduleKind::afab, shape, stage);
            return stage == 1 ? without_first(tasks) : tasks;
          }});
        }) ==
        "pipeline: the order of stage 1 has 13 tasks, expected the forward and backward of 7 micro-batches "
        "through 1 chunks, each once");
}

TEST_CASE("pipeline: results and gradients between two stages have separate communicators",
          "[dist][stages]") {
  for (const Way& way : kWays) {
    if (!fits(way)) continue;
    INFO(way.name);
    Staged staged(mlp(), way, DType::f32);
    staged.connect(way);
    const auto all = staged.pipeline->communicators();
    REQUIRE(all.size() == 4);  // two with the previous stage and two with the next; no tied weights
    std::set<std::shared_ptr<Communicator>> different(all.begin(), all.end());
    different.erase(nullptr);
    const bool is_ring = way.chunks > 1;
    const bool has_previous = is_ring || staged.line->rank() > 0;
    const bool has_next = is_ring || staged.line->rank() + 1 < staged.line->size();
    CHECK(std::ssize(different) == 2 * (has_previous + has_next));
  }
}

TEST_CASE("pipeline: tied weights that differ between their stages are found on both", "[dist][stages]") {
  const Way& way = kWays.front();
  if (!fits(way)) return;
  Staged staged(gpt("GPT", gpt_options()), way, DType::f32);
  staged.connect(way);
  const int rank = staged.line->rank();
  const Mesh mesh(staged.line, {.pipeline = staged.line->size()});
  const auto error = [&] {
    return error_of([&] { verify_replicas(*staged.model, mesh, "after step 1", staged.pipeline.get()); });
  };
  CHECK(error() == "");
  REQUIRE(staged.stages().copies().size() == 1);
  const Stages::TiedCopy& copy = staged.stages().copies()[0];
  CHECK(copy.name == "wte.weight");
  if (rank == copy.stage) {
    Tensor weight = staged.model->parameter(copy.name).detach();
    std::vector<double> values = weight.to_doubles();
    values[7] += 1;
    weight.copy_from(tensor_of(values, weight.shape(), DType::f32, weight.device()));
  }
  const std::string found = error();
  if (rank == copy.owner || rank == copy.stage) {
    CHECK(found.starts_with(
        "--check-replicas: after step 1 the ranks' parameters differ: parameter of two stages 0 is "
        "wte.weight with the CRC-32 "));
  } else {
    CHECK(found == "");
  }
}

TEST_CASE("pipeline: in evaluation the last stage has the output of one rank", "[dist][stages]") {
  for (const Kind& kind : kinds()) {
    for (const Way& way : kWays) {
      if (!fits(way)) continue;
      INFO(kind.name << ", " << way.name);
      const auto line = this_run();
      Whole whole(kind, DType::f32, line->device());
      Staged staged(kind, way, DType::f32);
      staged.connect(way);
      whole.model->eval();
      staged.model->eval();
      const NoGrad no_grad;
      for (std::size_t m = 0; m < 3; ++m) {
        const Tensor input = to(kind.input(m, DType::f32), line->device());
        const Tensor found = staged.pipeline->forward(input);
        CHECK(found.defined() == (line->rank() + 1 == line->size()));
        if (found.defined()) CHECK(found.to_doubles() == (*whole.model)(input).to_doubles());
      }
    }
  }
}

TEST_CASE("pipeline: on a GPU a result that was sent is released in stream order", "[dist][stages]") {
  const auto line = this_run();
  if (line->device().is_cpu() || line->size() == 1) return;
  const Kind kind = kinds().front();
  Staged staged(kind, kWays.front(), DType::f32);
  staged.connect(kWays.front());
  staged.model->eval();
  const NoGrad no_grad;
  const Tensor input = to(kind.input(0, DType::f32), line->device());
  staged.pipeline->forward(input);  // the first batch allocates more
  for (int batch = 0; batch < 3; ++batch) {
    const std::size_t before = memory_stats(line->device()).live;
    staged.pipeline->forward(input);
    CHECK(memory_stats(line->device()).live == before);
  }
}

TEST_CASE("pipeline: on a GPU a gradient that was sent is released in stream order", "[dist][stages]") {
  const auto line = this_run();
  if (line->device().is_cpu() || line->size() == 1) return;
  for (const Way& way : kWays) {
    if (!fits(way)) continue;
    INFO(way.name);
    Staged staged(kinds().front(), way, DType::f32);
    staged.connect(way);
    staged.forward_backward();  // the first one allocates the parameters' gradients
    for (int update = 0; update < repetitions(12); ++update) {
      const std::size_t before = memory_stats(line->device()).live;
      staged.forward_backward();
      CHECK(memory_stats(line->device()).live == before);
    }
  }
}

TEST_CASE("pipeline: tensors of all stages come to the first rank and back, step counts in the arena's order",
          "[dist][stages]") {
  for (const Way& way : kWays) {
    if (!fits(way)) continue;
    INFO(way.name);
    const auto line = this_run();
    const Staged staged(gpt("GPT", gpt_options()), way, DType::f32);
    const Stages& stages = staged.stages();
    // Each parameter's number in the whole model serves as its moment and its step count; the arena's order
    // is the reverse.
    const auto number_of = [&](const std::string& name) {
      std::int64_t number = 0;
      while (stages.parameters()[static_cast<std::size_t>(number)].name != name) ++number;
      return number;
    };
    std::vector<NamedTensor> own;
    std::vector<std::int64_t> counts;
    for (const NamedParameter& parameter : staged.model->named_parameters()) {
      const auto number = static_cast<double>(number_of(parameter.name));
      own.push_back(
          {"optimizer.exp_avg." + parameter.name, full(parameter.tensor->shape(), number, DType::f32)});
      counts.insert(counts.begin(), number_of(parameter.name));
    }
    own.push_back({"optimizer.step", from_vector(counts, {std::ssize(counts)})});
    own.push_back({"optimizer.skipped_updates", full({}, 5, DType::i64)});
    const std::size_t before = memory_stats(line->device()).live;
    const std::vector<NamedTensor> all = gather_stages(stages, own, *line);
    if (line->device().is_cuda()) CHECK(memory_stats(line->device()).live == before);  // copies to be sent
    const std::int64_t parameters = std::ssize(stages.parameters());
    if (line->rank() == 0) {
      REQUIRE(std::ssize(all) == parameters + 2);
      std::vector<std::int64_t> expected;
      for (std::int64_t i = parameters; i-- > 0;) expected.push_back(i);
      CHECK(all[static_cast<std::size_t>(parameters)].tensor.to_vector<std::int64_t>() == expected);
      for (const auto& [name, tensor] : all) {
        if (!name.starts_with("optimizer.exp_avg.")) continue;
        CHECK(tensor.to_doubles().back() == static_cast<double>(number_of(name.substr(18))));
      }
    }
    for (const NamedTensor& each : own) {
      Tensor target = each.tensor;
      if (line->rank() > 0) target.copy_from(zeros(target.shape(), target.dtype()));
    }
    scatter_stages(stages, all, own, *line);
    CHECK(own[own.size() - 2].tensor.to_vector<std::int64_t>() == counts);
    CHECK(own.back().tensor.to_vector<std::int64_t>() == std::vector<std::int64_t>{5});
    for (const auto& [name, tensor] : own) {
      if (!name.starts_with("optimizer.exp_avg.")) continue;
      CHECK(tensor.to_doubles().front() == static_cast<double>(number_of(name.substr(18))));
    }
  }
}

TEST_CASE("pipeline: more stages than units are refused", "[dist][stages]") {
  if (this_run()->size() == 1) return;
  const auto refusal = [](int stages, int chunks, std::int64_t layers) {
    const auto factory = std::make_shared<LayerFactory>();
    factory->set_stages(std::make_shared<Stages>(PipelinePlace{.stages = stages, .chunks = chunks}));
    return error_of(
        [&] { make_mlp(std::vector<std::int64_t>(static_cast<std::size_t>(layers) + 1, 5), *factory); });
  };
  CHECK(refusal(4, 2, 2) ==
        "--pipeline-parallel 4 --pipeline-chunks 2: the model has 2 units for 8 parts, expected no more "
        "parts than units, the nearest is --pipeline-parallel 2 without --pipeline-chunks");
  // 3 stages would not divide a number of ranks that 4 divide.
  CHECK(refusal(4, 1, 3).ends_with("the nearest is --pipeline-parallel 2"));
  CHECK(refusal(4, 2, 7).ends_with("the nearest is --pipeline-parallel 2"));
  CHECK(refusal(2, 3, 4).ends_with("the nearest is --pipeline-chunks 2"));
}

}  // namespace ringtape::test
