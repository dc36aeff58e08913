#include "lessons/tasks/reverse_loop/task.h"

void run_backward(std::span<const TapeNode> nodes, std::vector<Gradient>& gradients) {
  for (std::size_t n = nodes.size(); n-- > 0;) {
    const TapeNode& node = nodes[n];
    if (gradients[node.output].empty()) continue;
    const std::vector<Gradient> contributions = node.backward(gradients[node.output]);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      Gradient& sum = gradients[node.inputs[i]];
      if (sum.empty()) sum.resize(contributions[i].size());
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += contributions[i][k];
    }
  }
}
