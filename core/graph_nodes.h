#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ringtape {

/// The computation of a library call, such as a product by cuBLAS.
struct LibraryWork {
  std::string name;        ///< "product 64 x 256 x 784"
  std::string dtype;       ///< of its operands: "f32"
  std::int64_t flops = 0;  ///< additions and multiplications
  std::int64_t bytes = 0;  ///< every operand read once and every result written once
};

/// One node of a CUDA graph: a kernel launch, a copy or a memset.
struct GraphNode {
  enum class Kind { kernel, memcpy, memset, other };
  Kind kind = Kind::other;
  std::string symbol;               ///< a kernel's mangled name; empty for a library's kernel
  std::array<unsigned, 3> grid{};   ///< blocks; 0 for a library's kernel
  std::array<unsigned, 3> block{};  ///< threads
  std::size_t shared_bytes = 0;     ///< dynamic shared memory of a block
  std::vector<std::size_t> after;   ///< indices of the nodes that must complete before it, ascending
  LibraryWork library_work;         ///< of a library's kernel, if known; otherwise its name is empty
};

/// The nodes of a captured graph (a cudaGraph_t), each after the nodes that it depends on. (CUDA Runtime API
/// reference, "Graph Management".) A kernel of a library, such as cuBLAS, has no name or shape there: the
/// runtime knows only the functions that were compiled with the program.
std::vector<GraphNode> nodes_of_graph(void* native);

/// Assigns the computations recorded during the capture to the kernels of libraries, in the order of the
/// list. Assigns none if their numbers differ: a library may use several launches for a product.
void add_library_work(std::vector<GraphNode>& nodes, const std::vector<LibraryWork>& noted);

}  // namespace ringtape
