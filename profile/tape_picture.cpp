#include "profile/tape_picture.h"

#include <algorithm>

#include "core/numbers.h"

namespace ringtape {
namespace {

using svg::Canvas;
using svg::coordinate;

constexpr double kLeafWidth = 178, kLeafHeight = 24, kLeafGap = 6;
constexpr double kBoxWidth = 216, kBoxHeight = 54, kBoxGap = 28;
constexpr double kLeft = 8, kFirstBox = kLeft + kLeafWidth + 44, kTop = 84, kRowGap = 30;
constexpr double kLane = 12;  // between edges that pass rows by
constexpr std::size_t kMaxNameLength = 24;

/// Where a vertex is drawn. Rows count from 0.
struct VertexPosition {
  std::size_t row = 0;
  double x = 0, y = 0;
};

struct Layout {
  std::vector<VertexPosition> positions;  // by vertex
  double width = 0, height = 0;
};

std::string short_name(const std::string& text) {
  return text.size() <= kMaxNameLength ? text : text.substr(0, kMaxNameLength - 1) + "…";
}

bool is_operation(const TapeVertex& vertex) {
  return vertex.kind == VertexKind::operation;
}

/// An operation is in the row below the lowest operation that it is computed from, a leaf in the row of its
/// first use.
std::vector<std::size_t> rows_of(const TapeGraph& graph) {
  std::vector<std::size_t> rows(graph.vertices.size(), 0);
  std::vector<bool> is_placed(graph.vertices.size(), false);
  for (const auto& [from, to, has_gradient] : graph.edges) {
    if (is_operation(graph.vertices[from])) rows[to] = std::max(rows[to], rows[from] + 1);
  }
  for (const auto& [from, to, has_gradient] : graph.edges) {
    if (is_operation(graph.vertices[from]) || is_placed[from]) continue;
    rows[from] = rows[to];
    is_placed[from] = true;
  }
  return rows;
}

Layout lay_out(const TapeGraph& graph) {
  const std::vector<std::size_t> rows = rows_of(graph);
  const std::size_t row_count = rows.empty() ? 0 : *std::max_element(rows.begin(), rows.end()) + 1;
  std::vector<int> boxes(row_count, 0), leaves(row_count, 0);
  Layout layout;
  for (std::size_t i = 0; i < graph.vertices.size(); ++i) {
    const bool is_box = is_operation(graph.vertices[i]);
    const int before = is_box ? boxes[rows[i]]++ : leaves[rows[i]]++;
    layout.positions.push_back({rows[i], is_box ? kFirstBox + before * (kBoxWidth + kBoxGap) : kLeft,
                                is_box ? 0 : before * (kLeafHeight + kLeafGap)});
  }
  std::vector<double> tops = {kTop};
  for (std::size_t row = 0; row < row_count; ++row) {
    const double of_leaves = leaves[row] * (kLeafHeight + kLeafGap) - kLeafGap;
    tops.push_back(tops.back() + std::max(kBoxHeight, of_leaves) + kRowGap);
  }
  for (std::size_t i = 0; i < layout.positions.size(); ++i) {
    VertexPosition& position = layout.positions[i];
    const double height = tops[position.row + 1] - tops[position.row] - kRowGap;
    const double of_leaves = leaves[position.row] * (kLeafHeight + kLeafGap) - kLeafGap;
    position.y +=
        tops[position.row] + (height - (is_operation(graph.vertices[i]) ? kBoxHeight : of_leaves)) / 2;
  }
  const int widest = boxes.empty() ? 1 : *std::max_element(boxes.begin(), boxes.end());
  layout.width = kFirstBox + widest * (kBoxWidth + kBoxGap);
  layout.height = tops.back();
  return layout;
}

/// Draws an edge between two operations: straight into the next row, else round the rows that it passes.
void draw_between(Canvas& canvas, const VertexPosition& from, const VertexPosition& to, double right,
                  const char* classes) {
  const double x1 = from.x + kBoxWidth / 2, y1 = from.y + kBoxHeight, x2 = to.x + kBoxWidth / 2, y2 = to.y;
  const auto c = coordinate;
  if (to.row == from.row + 1) {
    const double middle = (y1 + y2) / 2;
    canvas.path(fmt::format("M{} {}C{} {} {} {} {} {}", c(x1), c(y1), c(x1), c(middle), c(x2), c(middle),
                            c(x2), c(y2)),
                classes);
    return;
  }
  const double begin = from.y + kBoxHeight / 2, end = to.y + kBoxHeight / 2;
  canvas.path(fmt::format("M{} {}C{} {} {} {} {} {}V{}C{} {} {} {} {} {}", c(from.x + kBoxWidth), c(begin),
                          c(right), c(begin), c(right), c(begin), c(right), c(begin + 24), c(end - 24),
                          c(right), c(end), c(right), c(end), c(to.x + kBoxWidth), c(end)),
              classes);
}

void draw_from_leaf(Canvas& canvas, const VertexPosition& from, const VertexPosition& to,
                    const char* classes) {
  const double x1 = from.x + kLeafWidth, y1 = from.y + kLeafHeight / 2, y2 = to.y + kBoxHeight / 2;
  const double middle = (x1 + to.x) / 2;
  const auto c = coordinate;
  canvas.path(fmt::format("M{} {}C{} {} {} {} {} {}", c(x1), c(y1), c(middle), c(y1), c(middle), c(y2),
                          c(to.x), c(y2)),
              classes);
}

void draw_edges(Canvas& canvas, const TapeGraph& graph, const Layout& layout) {
  double right = layout.width;
  for (const auto& [from, to, has_gradient] : graph.edges) {
    const VertexPosition &begin = layout.positions[from], &end = layout.positions[to];
    const char* const classes = has_gradient ? "edge" : "edge dashed";
    if (!is_operation(graph.vertices[from])) {
      draw_from_leaf(canvas, begin, end, classes);
    } else {
      if (end.row > begin.row + 1) right += kLane;
      draw_between(canvas, begin, end, right, classes);
    }
  }
}

void draw_sum(Canvas& canvas, double x, double y, int uses) {
  const std::string text = fmt::format("Σ {}", uses);
  canvas.rectangle(x - 36, y - 10, 36, 20, "s1", fmt::format("the gradients of {} uses add up here", uses),
                   10);
  canvas.text(x - 18, y + 4.5, text, "badge middle");
}

void draw_leaf(Canvas& canvas, const TapeVertex& vertex, const VertexPosition& position) {
  const std::string text = vertex.name + " " + to_string(vertex.shape);
  const bool is_leaf = vertex.kind == VertexKind::leaf;
  const std::string tip =
      is_leaf ? text + ": its gradient is added to what is there" : text + ": needs no gradient";
  canvas.rectangle(position.x, position.y, kLeafWidth, kLeafHeight, is_leaf ? "leaf" : "input", tip,
                   kLeafHeight / 2);
  canvas.text(position.x + kLeafWidth / 2, position.y + kLeafHeight / 2 + 4.5, short_name(text),
              "small middle");
  if (vertex.uses > 1) draw_sum(canvas, position.x + kLeafWidth, position.y, vertex.uses);
}

void draw_operation(Canvas& canvas, const TapeVertex& vertex, const VertexPosition& position,
                    std::size_t max_bytes) {
  const auto bytes = static_cast<double>(vertex.bytes_kept);
  const std::string kept = vertex.bytes_kept == 0 ? "keeps nothing" : "keeps " + bytes_text(bytes);
  const std::string tip =
      fmt::format("#{} {} {}: {} for backward{}{}", vertex.number, vertex.name, to_string(vertex.shape), kept,
                  vertex.detail.empty() ? "" : "; ", vertex.detail);
  canvas.rectangle(position.x, position.y, kBoxWidth, kBoxHeight, "box", tip, 8);
  canvas.text(position.x + 12, position.y + 21, short_name(vertex.name), "strong");
  canvas.text(position.x + kBoxWidth - 12, position.y + 21, fmt::format("#{}", vertex.number),
              "muted small end");
  canvas.text(position.x + 12, position.y + 40, to_string(vertex.shape), "muted small");
  canvas.text(position.x + kBoxWidth - 12, position.y + 40, kept, "muted small end");
  const double share = max_bytes == 0 ? 0 : bytes / static_cast<double>(max_bytes);
  if (share > 0) {
    canvas.rectangle(position.x + 10, position.y + kBoxHeight - 6, std::max(2.0, (kBoxWidth - 20) * share), 3,
                     "s0", "", 1.5);
  }
  if (vertex.uses > 1) draw_sum(canvas, position.x + kBoxWidth - 8, position.y, vertex.uses);
}

void draw_legend(Canvas& canvas) {
  canvas.rectangle(kLeft, 8, 26, 14, "leaf", "", 7);
  canvas.text(kLeft + 32, 20, "parameter", "small muted");
  canvas.rectangle(kLeft + 108, 8, 26, 14, "input", "", 7);
  canvas.text(kLeft + 140, 20, "no gradient needed", "small muted");
  canvas.rectangle(kLeft, 34, 26, 4, "s0", "", 2);
  canvas.text(kLeft + 32, 41, "bytes kept for backward", "small muted");
  canvas.rectangle(kLeft, 51, 26, 14, "s1", "", 7);
  canvas.text(kLeft + 13, 62, "Σ", "badge small middle");
  canvas.text(kLeft + 32, 62, "gradients of several uses add up", "small muted");
}

/// The first `most` operations and their inputs.
TapeGraph first_operations(const TapeGraph& graph, std::size_t most) {
  TapeGraph part;
  std::size_t operations = 0;
  for (const TapeVertex& vertex : graph.vertices) {
    if (is_operation(vertex) && ++operations > most) break;
    part.vertices.push_back(vertex);
  }
  for (const TapeEdge& edge : graph.edges) {
    if (edge.to < part.vertices.size()) part.edges.push_back(edge);
  }
  // Leaves and inputs at the end belong to an operation that is not drawn.
  while (!part.vertices.empty() && !is_operation(part.vertices.back())) part.vertices.pop_back();
  return part;
}

}  // namespace

Canvas tape_svg(const TapeGraph& whole, std::size_t most) {
  const TapeGraph graph = first_operations(whole, most);
  const Layout layout = lay_out(graph);
  std::size_t passing = 0, max_bytes = 0;
  for (const auto& [from, to, has_gradient] : graph.edges) {
    if (is_operation(graph.vertices[from]) && layout.positions[to].row > layout.positions[from].row + 1)
      ++passing;
  }
  for (const TapeVertex& vertex : graph.vertices) max_bytes = std::max(max_bytes, vertex.bytes_kept);
  Canvas canvas(layout.width + kLane * static_cast<double>(passing) + 8, layout.height, "the tape");
  draw_legend(canvas);
  draw_edges(canvas, graph, layout);
  for (std::size_t i = 0; i < graph.vertices.size(); ++i) {
    const TapeVertex& vertex = graph.vertices[i];
    if (is_operation(vertex)) {
      draw_operation(canvas, vertex, layout.positions[i], max_bytes);
    } else {
      draw_leaf(canvas, vertex, layout.positions[i]);
    }
  }
  if (graph.vertices.size() < whole.vertices.size()) {
    canvas.text(kFirstBox + 12, layout.height - 6,
                fmt::format("… and more, after the first {} operations", most), "muted");
  }
  return canvas;
}

}  // namespace ringtape
