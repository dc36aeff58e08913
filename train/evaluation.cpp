#include "train/evaluation.h"

#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "autograd/tape.h"
#include "core/numbers.h"
#include "data/loader.h"
#include "nn/eval_scope.h"
#include "trace/spans.h"
#include "train/model_input.h"

namespace ringtape {

EvaluationResult evaluate(const Task& task, Module& model, DType dtype, std::int64_t batch_size,
                          const Mesh& mesh, Pipeline* pipeline) {
  const SpanScope phase(SpanKind::phase, "evaluation");
  const NoGrad no_grad;
  const EvalScope eval(model);
  const auto all = std::make_shared<SequentialSampler>(task.test->size());
  const Communicator& data = *mesh.along(MeshDimension::data);
  Communicator& comm = *mesh.data_and_context();
  const auto own = std::make_shared<DistributedSampler>(all, data.rank(), data.size());
  std::optional<DataLoader> loader;
  if (own->size() > 0) {  // with few samples some ranks have none
    loader.emplace(task.test, own, DataLoaderOptions{.batch_size = batch_size, .device = comm.device()});
    loader->start_epoch(0);
  }
  double loss = 0;
  std::int64_t correct = 0, counted = 0;
  while (std::optional<Batch> batch = loader ? loader->next() : std::nullopt) {
    counted += count_targets(task, *batch);
    const auto [features, targets] = batch->to(comm.device());
    const Tensor input = model_input(task, features, dtype);
    Tensor prediction = pipeline != nullptr ? pipeline->forward(input) : model(input);
    if (!prediction.defined()) continue;  // the last stage has it
    const LossAndCorrect result = task.loss(std::move(prediction), targets, 1);
    loss += result.loss.item();
    if (task.counts_correct) correct += static_cast<std::int64_t>(result.correct.item());
  }
  loss = sum_over_ranks(comm, static_cast<float>(loss));
  correct = sum_over_ranks(comm, correct);
  if (pipeline != nullptr) {
    loss = sum_over_ranks(pipeline->comm(), static_cast<float>(loss));
    correct = sum_over_ranks(pipeline->comm(), correct);
  }
  const auto targets = static_cast<double>(sum_over_ranks(comm, counted));
  return {without_nan_sign(loss / targets),
          task.counts_correct ? static_cast<double>(correct) / targets : std::nan("")};
}

}  // namespace ringtape
