#include <fmt/format.h>

#include <cstdio>
#include <set>

#include "autograd/tape.h"
#include "autograd/tape_graph.h"

namespace ringtape {
namespace {

/// Printed name of an input: the parameter's name, the node that made it, or "input".
std::string input_label(const NodeInput& input) {
  if (input.meta == nullptr) return "input";
  if (!input.meta->is_leaf) return fmt::format("#{}", input.meta->producer);
  return input.meta->name.empty() ? "leaf" : input.meta->name;
}

std::string input_list(const Node& node) {
  std::string text;
  for (const NodeInput& input : node.inputs) {
    if (!text.empty()) text += ", ";
    text += input_label(input) + to_string(input.shape);
  }
  return text;
}

}  // namespace

std::vector<std::size_t> Tape::saved_bytes_by_node() const {
  std::set<const Storage*> seen;
  std::vector<std::size_t> bytes;
  for (const Node& node : nodes_) {
    std::size_t sum = 0;
    for (const auto& [tensor, version] : node.saved) {
      if (!tensor.defined()) continue;
      const bool is_parameter = tensor.autograd != nullptr && tensor.autograd->is_leaf;
      if (!is_parameter && seen.insert(tensor.storage().get()).second) sum += tensor.storage()->bytes;
    }
    bytes.push_back(sum);
  }
  return bytes;
}

std::size_t Tape::saved_bytes() const {
  std::size_t sum = 0;
  for (std::size_t bytes : saved_bytes_by_node()) sum += bytes;
  return sum;
}

std::string Tape::to_string() const {
  std::string text =
      fmt::format("{:>4}  {:<16} {:<52} {:<16} {:>12}\n", "#", "operation", "inputs", "output", "bytes kept");
  const std::vector<std::size_t> bytes = saved_bytes_by_node();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    text += fmt::format("{:>4}  {:<16} {:<52} {:<16} {:>12}\n", i, nodes_[i].operation, input_list(nodes_[i]),
                        ringtape::to_string(nodes_[i].output_shape), bytes[i]);
    if (!nodes_[i].detail.empty()) text += fmt::format("      {}\n", nodes_[i].detail);
  }
  return text + fmt::format("{} nodes keep {} bytes for backward\n", nodes_.size(), saved_bytes());
}

void Tape::print() const {
  std::fputs(to_string().c_str(), stdout);
}

std::string Tape::to_dot() const {
  return tape_dot(graph_of(*this));
}

}  // namespace ringtape
