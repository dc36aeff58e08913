#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "dist/pipeline.h"
#include "dist/stage_parts.h"
#include "lessons/ranks.h"
#include "lessons/tasks/model.h"
#include "lessons/tasks/pipeline/task.h"
#include "lessons/tasks/tests.h"
#include "nn/layer_factory.h"
#include "optim/sgd.h"

namespace ringtape::tasks {
namespace {

using Order = decltype(::one_forward_one_backward);
using Orders = std::vector<std::vector<Pass>>;

/// The times at which each stage's passes begin; a forward takes 1, a backward 2.
struct Timetable {
  Orders orders;
  std::vector<std::vector<int>> begin;
  int end = 0;
};

int time_of(const Pass& pass) {
  return pass.is_forward ? 1 : 2;
}

std::string name_of(const Pass& pass) {
  return fmt::format("{}{}", pass.is_forward ? "F" : "B", pass.micro_batch);
}

Orders orders_of(Order* order, int stages, int micro_batches) {
  Orders orders(static_cast<std::size_t>(stages));
  for (int stage = 0; stage < stages; ++stage)
    order(stage, stages, micro_batches, orders[static_cast<std::size_t>(stage)]);
  return orders;
}

void check_complete(const Orders& orders, int micro_batches) {
  for (std::size_t stage = 0; stage < orders.size(); ++stage) {
    if (orders[stage].empty()) wrong("stage {} of {} has no pass: the order is empty", stage, orders.size());
    for (int k = 0; k < micro_batches; ++k) {
      const auto place = [&](bool is_forward) {
        return std::find_if(orders[stage].begin(), orders[stage].end(), [&](const Pass& pass) {
          return pass.is_forward == is_forward && pass.micro_batch == k;
        });
      };
      if (place(true) == orders[stage].end())
        wrong("stage {} of {}: micro-batch {} has no forward", stage, orders.size(), k);
      if (place(false) == orders[stage].end())
        wrong("stage {} of {}: micro-batch {} has no backward", stage, orders.size(), k);
      if (place(false) < place(true))
        wrong("stage {} of {}: the backward of micro-batch {} is before its forward", stage, orders.size(),
              k);
    }
    if (orders[stage].size() != 2 * static_cast<std::size_t>(micro_batches)) {
      wrong("stage {} of {} has {} passes, expected a forward and a backward of each of {} micro-batches",
            stage, orders.size(), orders[stage].size(), micro_batches);
    }
  }
}

/// The time at which a pass on a stage ends, or -1 if it has not begun.
int end_on(const Timetable& table, std::size_t stage, const Pass& pass) {
  for (std::size_t i = 0; i < table.begin[stage].size(); ++i) {
    const Pass& done = table.orders[stage][i];
    if (done.is_forward == pass.is_forward && done.micro_batch == pass.micro_batch)
      return table.begin[stage][i] + time_of(done);
  }
  return -1;
}

Timetable run(const Orders& orders) {
  Timetable table = {orders, std::vector<std::vector<int>>(orders.size()), 0};
  std::vector<int> free(orders.size());
  for (bool went_on = true; went_on;) {
    went_on = false;
    for (std::size_t stage = 0; stage < orders.size(); ++stage) {
      while (table.begin[stage].size() < orders[stage].size()) {
        const Pass& next = orders[stage][table.begin[stage].size()];
        const bool starts = next.is_forward ? stage == 0 : stage + 1 == orders.size();
        const int ready = starts ? 0 : end_on(table, next.is_forward ? stage - 1 : stage + 1, next);
        if (ready < 0) break;
        table.begin[stage].push_back(std::max(free[stage], ready));
        free[stage] = table.begin[stage].back() + time_of(next);
        table.end = std::max(table.end, free[stage]);
        went_on = true;
      }
    }
  }
  for (std::size_t stage = 0; stage < orders.size(); ++stage) {
    if (table.begin[stage].size() == orders[stage].size()) continue;
    wrong("the stages wait for each other for ever: stage {} of {} waits to begin {}", stage, orders.size(),
          name_of(orders[stage][table.begin[stage].size()]));
  }
  return table;
}

/// The most micro-batches that a stage has begun and not ended.
int max_kept(const std::vector<Pass>& order) {
  int kept = 0, most = 0;
  for (const Pass& pass : order) {
    kept += pass.is_forward ? 1 : -1;
    most = std::max(most, kept);
  }
  return most;
}

void test(Order* order, int stages, int micro_batches) {
  const Orders orders = orders_of(order, stages, micro_batches);
  check_complete(orders, micro_batches);
  const Timetable table = run(orders);
  for (int stage = 0; stage < stages; ++stage) {
    const int kept = max_kept(orders[static_cast<std::size_t>(stage)]),
              allowed = std::min(stages - stage, micro_batches);
    if (kept > allowed) {
      wrong(
          "stage {} of {} keeps the activations of {} of {} micro-batches, expected at most {}: begin with "
          "fewer forwards, then take "
          "a forward and a backward in turn",
          stage, stages, kept, micro_batches, allowed);
    }
  }
  const int expected = 3 * (micro_batches + stages - 1);
  if (table.end != expected) {
    wrong(
        "{} stages and {} micro-batches take a time of {}, expected 3 ({} + {} - 1) = {}, with a forward of "
        "1 and a backward of 2: a stage waits too long; after its first forwards a stage takes one forward "
        "more, and "
        "then "
        "the backward of the oldest micro-batch that it keeps",
        stages, micro_batches, table.end, micro_batches, stages, expected);
  }
}

/// The timetable of four stages.
void show_timetable(Order* order) {
  constexpr int kStages = 4, kMicroBatches = 6;
  const Timetable table = run(orders_of(order, kStages, kMicroBatches));
  fmt::print(
      "\n{} stages, {} micro-batches; a forward takes 1 (its number), a backward 2 (its number and =):\n",
      kStages, kMicroBatches);
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    std::string line(static_cast<std::size_t>(table.end), '.');
    for (std::size_t i = 0; i < table.begin[stage].size(); ++i) {
      const Pass& pass = table.orders[stage][i];
      const auto at = static_cast<std::size_t>(table.begin[stage][i]);
      line[at] = static_cast<char>('0' + pass.micro_batch);
      if (!pass.is_forward) line[at + 1] = '=';
    }
    fmt::print("  stage {}  {}  keeps {}\n", stage, line, max_kept(table.orders[stage]));
  }
  fmt::print("{} of {} units of each stage are idle: the bubble, {} / ({} + {})\n", 3 * (kStages - 1),
             table.end, kStages - 1, kMicroBatches, kStages - 1);
}

/// The result of training a network of four layers in stages, a rank each.
struct Trained {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> weights;  ///< of all stages, on rank 0
};

/// `order` is null for the library's own.
Trained train(const std::shared_ptr<Communicator>& line, Order* order) {
  constexpr std::int64_t kMicroBatches = 6, kOfEach = SmallModel::kSamples / kMicroBatches;
  const auto layers = std::make_shared<LayerFactory>();
  layers->set_stages(
      std::make_shared<Stages>(PipelinePlace{.stage = line->rank(), .stages = line->size(), .chunks = 1}));
  manual_seed(0);
  const auto model =
      make_mlp({SmallModel::kFeatures, 32, 32, 32, SmallModel::kClasses}, *layers);  // this rank's part
  const Tensor x = randn({SmallModel::kSamples, SmallModel::kFeatures});
  const SmallModel labelled;
  ParameterArena arena(*model, Device());
  SGD sgd(arena, {.learning_rate = 0.5});
  PipelineOptions options;
  if (order != nullptr) {
    options.order = [order](const PipelineShape& shape, int stage) {
      std::vector<Pass> passes;
      order(stage, shape.stages, shape.micro_batches, passes);
      std::vector<StageTask> tasks;
      for (const Pass& pass : passes)
        tasks.push_back({.is_backward = !pass.is_forward, .micro_batch = pass.micro_batch});
      return tasks;
    };
  }
  Pipeline pipeline(*model, *layers->stages(), line, options);
  Trained result;
  for (int step = 0; step < 40; ++step) {
    const Tensor loss_of_step = zeros({1});
    const auto first = [](std::size_t m) { return static_cast<std::int64_t>(m) * kOfEach; };
    sgd.zero_grad();
    pipeline.forward_backward(
        std::vector<Shape>(kMicroBatches, {kOfEach, SmallModel::kFeatures}),
        {.input =
             [&](std::size_t m) {
               return x.alias({kOfEach, SmallModel::kFeatures}, first(m) * SmallModel::kFeatures);
             },
         .loss =
             [&](const Tensor& logits, std::size_t m) {
               return cross_entropy(logits, labelled.labels(first(m), kOfEach),
                                    {.reduction = Reduction::sum, .divisor = SmallModel::kSamples});
             },
         .backward =
             [&](const Tensor& loss) {
               *loss_of_step.data<float>() += static_cast<float>(loss.item());
               loss.backward();
             }});
    sgd.step();
    line->all_reduce(loss_of_step, ReduceOp::sum).wait();  // the last stage has it
    result.losses.push_back(loss_of_step.item());
  }
  std::vector<NamedTensor> own;
  for (const NamedParameter& parameter : model->named_parameters())
    own.push_back({parameter.name, parameter.tensor->detach()});
  for (const auto& [name, tensor] : gather_stages(*layers->stages(), own, *line))
    result.weights[name] = tensor.to_doubles();
  return result;
}

}  // namespace

void test_pipeline(const LearnersFile& file) {
  auto* const order = file.function<Order>("one_forward_one_backward");
  test(order, 1, 3);
  for (const int stages : {2, 4}) {
    for (const int micro_batches : {1, 2, 4, 8}) test(order, stages, micro_batches);
  }
}

void run_pipeline(const LearnersFile& file) {
  auto* const order = file.function<Order>("one_forward_one_backward");
  const auto line = lessons::connect_ranks();
  check(line->size() > 1, "a pipeline needs at least two ranks, found one: mpirun -n 2 starts them");
  const Trained by_mine = train(line, order), by_library = train(line, nullptr);
  if (!lessons::prints(*line)) return;
  show_timetable(order);
  fmt::print("\n{} stages, a rank each; 6 micro-batches in an update:", line->size());
  show_losses("your order", by_mine.losses, "the library's", by_library.losses);
  if (by_mine.weights != by_library.weights) {
    wrong(
        "after 40 updates the weights are not those of the library's order to the bit: a stage adds up "
        "gradients "
        "in the order of its backwards; are they in the order 0, 1, 2, ...?");
  }
  fmt::print("After 40 updates all weights have the same bits.\n");
}

}  // namespace ringtape::tasks
