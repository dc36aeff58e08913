#pragma once

#include <string>
#include <vector>

#include "core/graph_nodes.h"

namespace ringtape {

/// A CUDA graph as text, with a row for each node: its number, kernel, grid and block sizes, bytes of dynamic
/// shared memory, and the numbers of the nodes that it depends on. Throws Error if `nodes` is empty, because
/// no update was captured.
std::string graph_table(const std::vector<GraphNode>& nodes);
/// Writes the same as JSON: {"launches": [{"kernel", "grid", "block", "shared_bytes", "after"}, ...]}. "grid"
/// and "block" are [x, y, z]; "after" holds indices into the list, from 0. A library's matrix product, whose
/// grid is unknown, also has "dtype", "flops" and "bytes". Throws Error as graph_table() does, and if the
/// file cannot be written.
void save_graph(const std::vector<GraphNode>& nodes, const std::string& file);

}  // namespace ringtape
