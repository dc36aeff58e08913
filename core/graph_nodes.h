#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace ringtape {

/// One node of a CUDA graph: a launch, or a copy or fill of memory.
struct GraphNode {
  enum class Kind { kernel, memcpy, memset, other };
  Kind kind = Kind::other;
  std::string symbol;               ///< of a kernel: its mangled name; "" for one of a library
  std::array<unsigned, 3> grid{};   ///< blocks; 0 for a kernel of a library
  std::array<unsigned, 3> block{};  ///< threads
  std::size_t shared_bytes = 0;     ///< dynamic shared memory of a block
  std::vector<std::size_t>
      after;  ///< the nodes that must be complete before, by their place in the list, rising
};

/// The nodes of a captured graph (a cudaGraph_t), each behind those that it depends on. (CUDA Runtime API
/// reference, "Graph Management".) A library's kernel, such as cuBLAS', has no name or shape there: the
/// runtime knows only the functions that were compiled with the program.
std::vector<GraphNode> nodes_of_graph(void* native);

}  // namespace ringtape
