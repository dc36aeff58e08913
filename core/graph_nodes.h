#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ringtape {

/// The computation of a library's launch.
struct LibraryWork {
  std::string name;        ///< "product 64 x 256 x 784"
  std::string dtype;       ///< of its operands: "f32"
  std::int64_t flops = 0;  ///< additions and multiplications
  std::int64_t bytes = 0;  ///< every operand read once and every result written once
};

/// One node of a CUDA graph: a launch, or a copy or fill of memory.
struct GraphNode {
  enum class Kind { kernel, memcpy, memset, other };
  Kind kind = Kind::other;
  std::string symbol;               ///< of a kernel: its mangled name; "" for one of a library
  std::array<unsigned, 3> grid{};   ///< blocks; 0 for a kernel of a library
  std::array<unsigned, 3> block{};  ///< threads
  std::size_t shared_bytes = 0;     ///< dynamic shared memory of a block
  std::vector<std::size_t>
      after;                 ///< the nodes that must be complete before, by their place in the list, rising
  LibraryWork library_work;  ///< of a library's kernel, if it is known; otherwise its name is empty
};

/// The nodes of a captured graph (a cudaGraph_t), each behind the nodes that it depends on. (CUDA Runtime API
/// reference, "Graph Management".) A library's kernel, such as cuBLAS', has no name or shape there: the
/// runtime knows only the functions that were compiled with the program.
std::vector<GraphNode> nodes_of_graph(void* native);

/// Assigns the computations noted during the capture to the kernels of libraries, in the order of the list,
/// if both have the same number: a library may take more than one launch for a product.
void add_library_work(std::vector<GraphNode>& nodes, const std::vector<LibraryWork>& noted);

}  // namespace ringtape
