#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "lessons/tasks/model.h"
#include "lessons/tasks/reverse_loop/task.h"
#include "lessons/tasks/tests.h"
#include "optim/sgd.h"

namespace ringtape::tasks {
namespace {

using RunBackward = decltype(::run_backward);

/// One element each: tensors a (0), b (1), c = a b (2), d = c + a (3), loss = d d (4), and e = b b (5), which
/// the loss does not use. With a = 3 and b = 2: c = 6, d = 9.
std::vector<TapeNode> small_tape(std::vector<int>& called) {
  constexpr float a = 3, b = 2, d = 9;
  const auto node = [&called](int number, std::size_t output, std::vector<std::size_t> inputs,
                              std::vector<float> slopes) {
    return TapeNode{output, std::move(inputs), [&called, number, slopes](const Gradient& gradient) {
                      called.push_back(number);
                      if (gradient.size() != 1) {
                        wrong(
                            "node {} was run, but its result has no gradient: the loss does not depend on "
                            "it, or the nodes that use "
                            "it have not run yet",
                            number);
                      }
                      std::vector<Gradient> contributions;
                      for (const float slope : slopes) contributions.push_back({slope * gradient[0]});
                      return contributions;
                    }};
  };
  return {node(0, 2, {0, 1}, {b, a}), node(1, 3, {2, 0}, {1, 1}), node(2, 5, {1, 1}, {b, b}),
          node(3, 4, {3, 3}, {d, d})};
}

void test_small(RunBackward* run) {
  std::vector<int> called;
  const std::vector<TapeNode> nodes = small_tape(called);
  std::vector<Gradient> gradients(6);
  gradients[4] = {1};
  const auto in_order = [&] {
    if (!called.empty() && called.front() != 3) {
      wrong(
          "node {} was run first; node 3 computed the loss, so begin with the last node first: a gradient "
          "must be complete before it is "
          "passed on",
          called.front());
    }
  };
  try {
    run(nodes, gradients);
  } catch (const Error&) {
    in_order();
    throw;
  }
  if (called.empty()) wrong("no node was run");
  in_order();
  if (called == std::vector<int>{3} && !gradients[3].empty()) {
    wrong(
        "only node 3, which computed the loss, was run: the nodes before it were visited when their results "
        "had no gradient yet; begin with "
        "the last node first");
  }
  if (gradients[3] == Gradient{9})
    wrong("d d uses d twice, and each use contributes 9: contributions add up to 18, found 9");
  if (gradients[3] != Gradient{18})
    wrong("the gradient of d in loss = d d with d = 9 is {}, expected 18",
          gradients[3].empty() ? 0 : gradients[3][0]);
  if (gradients[0] == Gradient{36} || gradients[0] == Gradient{18}) {
    wrong(
        "a is used twice, in c = a b and in d = c + a: its gradient is 18 x 2 + 18 = 54, found {}: "
        "contributions add up",
        gradients[0][0]);
  }
  if (gradients[0] != Gradient{54} || gradients[1] != Gradient{54}) {
    wrong("loss = (a b + a)^2 with a = 3, b = 2: the gradients of a and b are {} and {}, expected 54 and 54",
          gradients[0].empty() ? 0 : gradients[0][0], gradients[1].empty() ? 0 : gradients[1][0]);
  }
  if (called != std::vector<int>{3, 1, 0})
    wrong("nodes were run more than once, or node 2, which the loss does not depend on");
}

Gradient elements_of(const Tensor& tensor) {
  return tensor.to_vector<float>();
}

/// Ringtape's tape as the task's nodes, and the number of each tensor.
struct Translation {
  std::vector<Node> recorded = Tape::current().nodes();
  std::unordered_map<const AutogradMeta*, std::size_t> numbers;
  std::vector<TapeNode> nodes;

  std::size_t number_of(const std::shared_ptr<AutogradMeta>& meta) {
    return numbers.emplace(meta.get(), numbers.size()).first->second;
  }

  Translation() {
    for (Node& node : recorded) {
      std::vector<std::shared_ptr<AutogradMeta>> inputs;
      for (const NodeInput& input : node.inputs) {
        if (input.meta != nullptr && std::find(inputs.begin(), inputs.end(), input.meta) == inputs.end())
          inputs.push_back(input.meta);
      }
      TapeNode translated = {number_of(node.output), {}, [&node, inputs](const Gradient& gradient) {
                               return contributions(node, inputs, gradient);
                             }};
      for (const auto& input : inputs) translated.inputs.push_back(number_of(input));
      nodes.push_back(std::move(translated));
    }
  }

  /// Runs the node's own backward with fresh memory for the gradients of its inputs.
  static std::vector<Gradient> contributions(Node& node,
                                             const std::vector<std::shared_ptr<AutogradMeta>>& inputs,
                                             const Gradient& gradient) {
    std::vector<Tensor> kept;
    for (const auto& input : inputs) {
      kept.push_back(std::exchange(input->grad, Tensor()));
      input->grad_written = false;
    }
    node.output->grad = from_vector(gradient, node.output_shape);
    BackwardContext context(node);
    node.backward(context);
    std::vector<Gradient> result;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      result.push_back(elements_of(inputs[i]->grad));
      inputs[i]->grad = kept[i];
      inputs[i]->grad_written = false;
    }
    return result;
  }
};

/// The loss, and a step of the weights by the learner's gradients.
double step_with(SmallModel& model, RunBackward* run, float rate) {
  const Tensor loss =
      cross_entropy(model.logits(0, SmallModel::kSamples), model.labels(0, SmallModel::kSamples));
  Translation tape;
  std::vector<Gradient> gradients(tape.numbers.size());
  gradients[tape.number_of(loss.autograd)] = {1};
  run(tape.nodes, gradients);
  Tape::current().clear();
  for (const ArenaEntry& entry : model.arena.entries()) {
    const Gradient& gradient = gradients[tape.number_of(entry.tensor->autograd)];
    check(std::ssize(gradient) == entry.elements, "{} has {} elements and its gradient {}", entry.name,
          entry.elements, gradient.size());
    const auto values = model.values().subspan(static_cast<std::size_t>(entry.offset), gradient.size());
    for (std::size_t i = 0; i < gradient.size(); ++i) values[i] -= rate * gradient[i];
  }
  model.arena.bump_versions();
  return loss.item();
}

}  // namespace

void test_reverse_loop(const LearnersFile& file) {
  test_small(file.function<RunBackward>("run_backward"));
}

void run_reverse_loop(const LearnersFile& file) {
  auto* const run = file.function<RunBackward>("run_backward");
  SmallModel mine, library;
  SGD sgd(library.arena, {.learning_rate = 0.5});
  std::vector<double> by_mine, by_library;
  for (int step = 0; step < 40; ++step) {
    by_mine.push_back(step_with(mine, run, 0.5F));
    by_library.push_back(library.backward());
    sgd.step();
  }
  show_losses("your loop", by_mine, "the library's", by_library);
}

}  // namespace ringtape::tasks
