#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "autograd/tape.h"

/// The tape as a graph for drawings. It holds no tensor, so it can be kept after backward().
namespace ringtape {

enum class VertexKind {
  operation,
  leaf,   ///< a parameter, or another tensor that was given a gradient
  input,  ///< needs no gradient
};

/// An operation, a parameter or an input.
struct TapeVertex {
  VertexKind kind = VertexKind::operation;
  std::string name;  ///< of the operation or the parameter
  Shape shape;       ///< of the operation's output, or of the leaf
  /// Of an operation: bytes that it is the first to keep for backward.
  std::size_t bytes_kept = 0;
  /// The number of uses that contribute to its gradient. Two or more contributions are added up; a leaf's
  /// gradient is also added to the gradient of earlier backwards.
  int uses = 0;
  std::string detail{};    ///< more text for the drawing, or empty
  std::size_t number = 0;  ///< of an operation: its index on the tape
};

/// A tensor: from the vertex that it comes from to an operation that used it.
struct TapeEdge {
  std::size_t from = 0;  ///< vertices
  std::size_t to = 0;
  bool has_gradient = false;  ///< a gradient flows back
};

struct TapeGraph {
  std::vector<TapeVertex> vertices;  ///< each after the vertices that it is computed from
  std::vector<TapeEdge> edges;
};

TapeGraph graph_of(const Tape& tape);

/// A Graphviz digraph: operations as boxes, leaves as ellipses, with a doubled outline where gradients of
/// several uses are added up; edges without a gradient are dashed.
std::string tape_dot(const TapeGraph& graph);

}  // namespace ringtape
