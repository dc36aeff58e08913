#include "apps/evaluation.h"

#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "apps/update.h"
#include "autograd/creation.h"
#include "autograd/tape.h"
#include "core/spans.h"
#include "data/loader.h"

namespace ringtape::apps {
namespace {

double sum_over_ranks(double value, Communicator& ranks) {
  if (ranks.size() == 1) return value;
  const Tensor sum = copy_to(from_vector(std::vector<float>{static_cast<float>(value)}, {1}), ranks.device());
  ranks.all_reduce(sum, ReduceOp::sum).wait();
  return sum.item();
}

}  // namespace

TestResult evaluate(const Task& task, Module& model, DType dtype, std::int64_t batch_size,
                    Communicator& ranks) {
  const SpanScope phase(SpanKind::phase, "test");
  const NoGrad no_grad;
  model.eval();
  const auto all = std::make_shared<SequentialSampler>(task.test->size());
  DataLoader loader(task.test, std::make_shared<DistributedSampler>(all, ranks.rank(), ranks.size()),
                    {.batch_size = batch_size});
  double loss = 0;
  double correct = 0;
  loader.start_epoch(0);
  while (std::optional<Batch> batch = loader.next()) {
    const auto [features, targets] = batch->to(ranks.device());
    Tensor prediction = model(make_input(task, features, dtype));
    if (task.correct) correct += task.correct(prediction, targets).item();
    loss += task.loss(std::move(prediction), targets, 1).item();
  }
  model.train();
  loss = sum_over_ranks(loss, ranks);
  correct = sum_over_ranks(correct, ranks);
  const auto samples = static_cast<double>(task.test->size());
  return {loss / samples, task.correct ? correct / samples : std::nan("")};
}

}  // namespace ringtape::apps
