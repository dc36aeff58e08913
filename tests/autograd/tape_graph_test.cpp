#include "autograd/tape_graph.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "autograd/ops.h"
#include "nn/layers.h"
#include "profile/tape_picture.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tensors.h"
#include "tests/support/text.h"
#include "tests/support/xml.h"

namespace ringtape::test {
namespace {

/// Two linear layers around a ReLU, whose result is used three times.
TapeGraph example() {
  Linear first(4, 3), second(3, 2);
  const Tensor h = second(relu(first(tensor_of(std::vector<double>(20, 1.0), {5, 4}))));
  const Tensor loss = sum(add(add(h, h), h));
  const TapeGraph graph = graph_of(Tape::current());
  Tape::current().clear();
  return graph;
}

const TapeVertex& operation(const TapeGraph& graph, std::size_t number) {
  for (const TapeVertex& vertex : graph.vertices) {
    if (vertex.kind == VertexKind::operation && vertex.number == number) return vertex;
  }
  throw std::runtime_error("no such operation");
}

}  // namespace

TEST_CASE("the tape's graph has operations, leaves and inputs, each after what it comes from", "[tape]") {
  const TapeGraph graph = example();
  // linear, relu, linear, add, add, sum; two weights, two biases; the input
  CHECK(graph.vertices.size() == 6 + 4 + 1);
  CHECK(graph.edges.size() == 3 + 1 + 3 + 2 + 2 + 1);
  for (const TapeEdge& edge : graph.edges) CHECK(edge.from < edge.to);
  CHECK(graph.vertices[0].kind == VertexKind::input);
  CHECK(graph.vertices[0].shape == Shape{5, 4});
  CHECK(graph.vertices[0].uses == 0);
  CHECK(graph.vertices[1].kind == VertexKind::leaf);
  CHECK(graph.vertices[1].uses == 1);
  CHECK_FALSE(graph.edges[0].has_gradient);  // the input's
  CHECK(graph.edges[1].has_gradient);
  CHECK(operation(graph, 0).bytes_kept == 5 * 4 * 4);  // the input
  CHECK(operation(graph, 1).bytes_kept == 5 * 3 * 4);  // ReLU's result
  CHECK(operation(graph, 3).bytes_kept == 0);
}

TEST_CASE("the tape's graph counts the gradients that add up", "[tape]") {
  const TapeGraph graph = example();
  CHECK(operation(graph, 2).uses == 3);  // h + h, and + h
  CHECK(operation(graph, 3).uses == 1);
  CHECK(operation(graph, 5).uses == 0);  // the loss
}

TEST_CASE("the tape as DOT says what is kept and where gradients add up", "[tape]") {
  const std::string dot = tape_dot(example());
  CHECK_THAT(dot, ContainsSubstring("label=\"#1 relu\\n[5, 3]\\nkeeps 60 B\""));
  CHECK_THAT(
      dot, ContainsSubstring("#2 linear\\n[5, 2]\\nkeeps 0 B\\ngradients of 3 uses add up\", peripheries=2"));
  CHECK(count(dot, "peripheries=2") == 1);
  CHECK_THAT(dot, ContainsSubstring("v0 -> v3 [style=dashed];"));
}

TEST_CASE("the tape as a picture has every vertex, and a mark where gradients add up", "[tape]") {
  const std::string svg = tape_svg(example()).file();
  CHECK(xml_error(svg) == "");
  CHECK(count(svg, "class=\"box\"") == 6);
  CHECK(count(svg, "class=\"leaf\"") == 4 + 1);  // and the legend
  CHECK(count(svg, "class=\"input\"") == 1 + 1);
  CHECK(count(svg, "class=\"edge\"") + count(svg, "class=\"edge dashed\"") == 12);
  CHECK(count(svg, ">Σ 3</text>") == 1);
  CHECK_THAT(svg, ContainsSubstring(">keeps 60 B</text>") && ContainsSubstring(">[5, 3]</text>"));
}

TEST_CASE("only the first operations of a long tape are drawn", "[tape]") {
  const TapeGraph graph = example();
  const std::string svg = tape_svg(graph, 2).element();
  CHECK(xml_error(svg) == "");
  CHECK(count(svg, "class=\"box\"") == 2);
  CHECK(count(svg, "class=\"leaf\"") == 2 + 1);
  CHECK_THAT(svg, ContainsSubstring("and more, after the first 2 operations"));
  CHECK(xml_error(tape_svg(TapeGraph{}).file()) == "");
}

TEST_CASE("names in the tape's pictures are escaped", "[tape]") {
  TapeGraph graph;
  graph.vertices.push_back({.kind = VertexKind::leaf, .name = "a\"b\\<c>&", .shape = Shape{2}});
  graph.vertices.push_back({.kind = VertexKind::operation, .name = "relu", .shape = Shape{2}});
  graph.edges.push_back({0, 1, true});
  CHECK(xml_error(tape_svg(graph).file()) == "");
  CHECK_THAT(tape_dot(graph), ContainsSubstring("label=\"a\\\"b\\\\<c>&\\n[2]\""));
  if (std::system("command -v dot > /dev/null") != 0) {
    std::puts("skipped: no program dot (Graphviz) here to read escaped names");
    return;
  }
  const TemporaryFolder folder;
  std::ofstream(folder / "tape.dot") << tape_dot(graph);
  CHECK(std::system(("dot -Tsvg -o /dev/null " + (folder / "tape.dot").string()).c_str()) == 0);
}

}  // namespace ringtape::test
