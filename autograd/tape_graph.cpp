#include "autograd/tape_graph.h"

#include <fmt/format.h>

#include <map>

#include "core/numbers.h"

namespace ringtape {
namespace {

/// Adds the vertices and edges of a tape, one node after the other.
class Builder {
 public:
  void add(const Node& node, std::size_t number, std::size_t bytes) {
    std::vector<TapeEdge> edges;
    for (const NodeInput& input : node.inputs) {
      edges.push_back({.from = vertex(input), .to = 0, .has_gradient = input.meta != nullptr});
    }
    vertex_of_[node.output.get()] = graph_.vertices.size();
    for (TapeEdge& edge : edges) {
      edge.to = graph_.vertices.size();
      graph_.edges.push_back(edge);
      if (edge.has_gradient) ++graph_.vertices[edge.from].uses;
    }
    graph_.vertices.push_back({.kind = VertexKind::operation,
                               .name = node.operation,
                               .shape = node.output_shape,
                               .bytes_kept = bytes,
                               .uses = 0,
                               .detail = node.detail,
                               .number = number});
  }
  TapeGraph take() { return std::move(graph_); }

 private:
  std::size_t vertex(const NodeInput& input) {
    const std::size_t next = graph_.vertices.size();
    if (input.meta == nullptr) {
      graph_.vertices.push_back({.kind = VertexKind::input, .name = "input", .shape = input.shape});
      return next;
    }
    const auto [entry, is_new] = vertex_of_.try_emplace(input.meta.get(), next);
    if (is_new) {
      // An intermediate that this tape did not produce comes from the tape around a nested one.
      const std::string& name = input.meta->name;
      graph_.vertices.push_back(
          {.kind = VertexKind::leaf, .name = name.empty() ? "leaf" : name, .shape = input.shape});
    }
    return entry->second;
  }

  TapeGraph graph_;
  std::map<const AutogradMeta*, std::size_t> vertex_of_;
};

/// Escapes a text for a quoted string in DOT.
std::string quoted(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string dot_vertex(const TapeVertex& vertex) {
  const std::string name = quoted(vertex.name), shape = to_string(vertex.shape);
  const char* const outline = vertex.uses > 1 ? ", peripheries=2" : "";
  const std::string sum = vertex.uses > 1 ? fmt::format("\\ngradients of {} uses add up", vertex.uses) : "";
  switch (vertex.kind) {
    case VertexKind::input:
      return fmt::format("shape=plaintext, label=\"{} {}\"", name, shape);
    case VertexKind::leaf:
      return fmt::format("shape=ellipse, style=filled, fillcolor=\"#e8f0fe\", label=\"{}\\n{}{}\"{}", name,
                         shape, sum, outline);
    case VertexKind::operation:
      break;
  }
  const std::string detail = vertex.detail.empty() ? "" : "\\n" + quoted(vertex.detail);
  return fmt::format("shape=box, label=\"#{} {}\\n{}\\nkeeps {}{}{}\"{}", vertex.number, name, shape,
                     bytes_text(static_cast<double>(vertex.bytes_kept)), sum, detail, outline);
}

}  // namespace

TapeGraph graph_of(const Tape& tape) {
  Builder builder;
  const std::vector<std::size_t> bytes = tape.saved_bytes_by_node();
  for (std::size_t i = 0; i < tape.size(); ++i) builder.add(tape.nodes()[i], i, bytes[i]);
  return builder.take();
}

std::string tape_dot(const TapeGraph& graph) {
  std::string dot = "digraph tape {\n  rankdir=TB;\n  node [fontname=\"Helvetica\", fontsize=11];\n";
  for (std::size_t i = 0; i < graph.vertices.size(); ++i) {
    dot += fmt::format("  v{} [{}];\n", i, dot_vertex(graph.vertices[i]));
  }
  for (const TapeEdge& edge : graph.edges) {
    dot += fmt::format("  v{} -> v{}{};\n", edge.from, edge.to, edge.has_gradient ? "" : " [style=dashed]");
  }
  return dot + "}\n";
}

}  // namespace ringtape
