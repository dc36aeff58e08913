// The code of docs/from-pytorch.md that divides a model (tests/docs/excerpts_test.py).
#include <memory>
#include <vector>

#include "autograd/creation.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "dist/data_parallel.h"
#include "dist/mesh.h"
#include "dist/model_parts.h"
#include "dist/pipeline.h"
#include "dist/tensor_parallel.h"
#include "nn/arena.h"
#include "nn/gpt.h"
#include "optim/clip.h"
#include "optim/sgd.h"
#include "tests/dist/ranks.h"
#include "tests/dist/trainer.h"
#include "tests/support/catch.h"

namespace ringtape::test {
namespace {

class DividedModel : public Module {
 public:
  explicit DividedModel(const LayerFactory& layers) {
    net1_ = register_module("net1", layers.column_linear(10, {16}));  // ColwiseParallel
    net2_ = register_module("net2", layers.row_linear(16, 5));        // RowwiseParallel
  }
  Tensor forward(const Tensor& x) override { return (*net2_)(relu((*net1_)(x))); }

 private:
  std::shared_ptr<Module> net1_, net2_;
};

}  // namespace

TEST_CASE("docs/from-pytorch.md: parallelize_module together with fully_shard", "[docs]") {
  const std::shared_ptr<Communicator> world = this_run();
  const Tensor x = copy_to((manual_seed(1), rand({6, 10})), world->device());
  const Tensor targets = copy_to(from_vector<std::int32_t>({0, 1, 2, 0, 1, 4}, {6}), world->device());
  manual_seed(2);
  DividedModel whole((LayerFactory()));
  ParameterArena of_whole(whole, world->device());
  cross_entropy(whole(x), targets).backward();
  SGD(of_whole, {.learning_rate = 0.1}).step();
  const auto output_of = [&](Module& model) {
    const NoGrad no_grad;
    return model(x).to_doubles();
  };
  const int tensor_ranks = world->size() % 2 == 0 ? 2 : 1;
  manual_seed(2);

  const Mesh mesh(world, mesh_of(world->size(), {.tensor = tensor_ranks}));  // the others divide the batch
  const std::shared_ptr<Communicator> tensor = mesh.along(MeshDimension::tensor);
  const std::shared_ptr<Communicator> data = mesh.data_and_context();
  const TensorParallelFactory layers(tensor);
  DividedModel model(layers);
  const ArenaSharding sharding{.zero_stage = 3, .rank = data->rank(), .world_size = data->size()};
  ParameterArena arena(model, world->device(), DType::f32, sharding);
  arena.set_division(division_over(tensor));  // for norms: what all ranks have counts once
  SGD optimizer(arena, {.learning_rate = 0.1});
  DataParallel parallel(model, arena, data);

  optimizer.zero_grad();
  cross_entropy(model(x), targets).backward();
  parallel.finish();
  CHECK(clip_grad_norm(arena, 1.0).item() < 1);
  optimizer.step();
  check_close(output_of(model), output_of(whole), 1e-6);
}

TEST_CASE("docs/from-pytorch.md: ScheduleGPipe", "[docs]") {
  const std::shared_ptr<Communicator> line = this_run();
  if (line->size() == 1) return;  // a pipeline has two stages at least
  TransformerOptions shape;
  shape.layers = 4;
  shape.heads = 2;
  shape.width = 16;
  shape.context = 6;
  shape.vocabulary = 20;
  const auto some = [&](std::size_t micro_batch, const Shape& size) {
    manual_seed(micro_batch);
    std::vector<std::int32_t> tokens;
    for (const float x : rand({12}).to_vector<float>()) tokens.push_back(static_cast<std::int32_t>(20 * x));
    return copy_to(from_vector(tokens, size), line->device());
  };
  manual_seed(4);

  const auto layers = std::make_shared<LayerFactory>();
  layers->set_stages(std::make_shared<Stages>(PipelinePlace{.stage = line->rank(), .stages = line->size()}));
  GPT model(shape, layers);  // this rank's blocks of it
  ParameterArena arena(model, line->device());
  Pipeline pipeline(model, *layers->stages(), line, {.schedule = PipelineScheduleKind::afab});
  arena.set_stages(pipeline.of_arena());  // norms are of all stages

  const std::vector<Shape> micro_batches(3, Shape{2, 6});
  double sum_of_losses = 0;
  const CrossEntropyOptions mean{.reduction = Reduction::sum, .divisor = 3 * 12};
  pipeline.forward_backward(
      micro_batches,
      {.input =
           [&](std::size_t i) {
             return some(i, {2, 6});
           },
       .loss =
           [&](const Tensor& logits, std::size_t i) {
             const Tensor loss = cross_entropy(view(logits, {12, 20}), some(i + 9, {12}), mean);
             sum_of_losses += loss.item();  // on the last stage
             return loss;
           },
       .backward = [](const Tensor& loss) { loss.backward(); }});
  pipeline.sum_tied_gradients();  // tied weights, which two stages have

  manual_seed(4);
  GPT whole(shape);
  const ParameterArena of_whole(whole, line->device());
  double expected = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const Tensor logits = whole(some(i, {2, 6}));
    const Tensor loss = cross_entropy(view(logits, {12, 20}), some(i + 9, {12}), mean);
    expected += loss.item();
    loss.backward();
  }
  CHECK(sum_of_losses == (pipeline.is_last() ? expected : 0));
  for (const NamedParameter& own : model.named_parameters()) {
    INFO(own.name);
    check_close(own.tensor->grad().to_doubles(), whole.parameter(own.name).grad().to_doubles(), 1e-5, 1e-7);
  }
}

}  // namespace ringtape::test
