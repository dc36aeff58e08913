#pragma once

#include <string>
#include <vector>

#include "core/graph_nodes.h"

namespace ringtape {

/// A CUDA graph as text: a row for each launch with its number, its kernel, blocks and threads, bytes of
/// dynamic shared memory, and the numbers of the launches that it waits for. Throws Error without nodes: then
/// no update was captured.
std::string graph_table(const std::vector<GraphNode>& nodes);
/// Writes the same as JSON: {"launches": [{"kernel", "grid", "block", "shared_bytes", "after"}, ...]}, with
/// the sizes in x, y and z, and in "after" the places in the list, from 0. A product of a library, which has
/// no grid there, also has its "dtype", "flops" and "bytes". Throws Error as graph_table() does.
void save_graph(const std::vector<GraphNode>& nodes, const std::string& file);

}  // namespace ringtape
