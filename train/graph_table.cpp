#include "train/graph_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "core/numbers.h"
#include "io/file.h"
#include "io/json.h"
#include "trace/device_activity.h"

namespace ringtape {
namespace {

std::string launch_name(const GraphNode& node) {
  switch (node.kind) {
    case GraphNode::Kind::kernel:
      if (!node.symbol.empty()) return kernel_name(node.symbol.c_str());
      return node.library_work.name.empty() ? "kernel of a library" : node.library_work.name;
    case GraphNode::Kind::memcpy:
      return "memcpy";
    case GraphNode::Kind::memset:
      return "memset";
    case GraphNode::Kind::other:
      break;
  }
  return "other";
}

void check_captured(const std::vector<GraphNode>& nodes) {
  check(!nodes.empty(),
        "no update was captured, as only the second update of a size is: expected a run with more updates");
}

/// "64" or "64 x 4", without trailing sizes of 1; "" for a node without sizes.
std::string size_text(const std::array<unsigned, 3>& size) {
  if (size[0] == 0) return "";
  if (size[2] > 1) return fmt::format("{} x {} x {}", size[0], size[1], size[2]);
  return size[1] > 1 ? fmt::format("{} x {}", size[0], size[1]) : fmt::format("{}", size[0]);
}

}  // namespace

std::string graph_table(const std::vector<GraphNode>& nodes) {
  check_captured(nodes);
  std::size_t width = 6;
  for (const GraphNode& node : nodes) width = std::max(width, launch_name(node).size());
  std::string text =
      fmt::format("CUDA graph of an update: {}\n{:>4}  {:<{}}  {:>12}  {:>10}  {:>7}  after\n",
                  counted(std::ssize(nodes), "node"), "", "launch", width, "grid", "block", "shared");
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const GraphNode& node = nodes[i];
    std::vector<std::size_t> after;
    for (const std::size_t place : node.after) after.push_back(place + 1);
    text += fmt::format("{:>4}  {:<{}}  {:>12}  {:>10}  {:>7}  {}\n", i + 1, launch_name(node), width,
                        size_text(node.grid), size_text(node.block),
                        node.grid[0] == 0 ? "" : fmt::format("{}", node.shared_bytes),
                        after.empty() ? "-" : fmt::format("{}", fmt::join(after, ", ")));
  }
  return text;
}

void save_graph(const std::vector<GraphNode>& nodes, const std::string& file) {
  check_captured(nodes);
  const auto list_of = [](const auto& numbers) {
    Json::Array list;
    for (const auto number : numbers) list.emplace_back(static_cast<std::int64_t>(number));
    return list;
  };
  Json::Array launches;
  for (const GraphNode& node : nodes) {
    Json launch{{"kernel", launch_name(node)},
                {"grid", list_of(node.grid)},
                {"block", list_of(node.block)},
                {"shared_bytes", static_cast<std::int64_t>(node.shared_bytes)},
                {"after", list_of(node.after)}};
    if (const LibraryWork& work = node.library_work; !work.name.empty()) {
      launch["dtype"] = work.dtype;
      launch["flops"] = work.flops;
      launch["bytes"] = work.bytes;
    }
    launches.push_back(std::move(launch));
  }
  save_text(file, Json{{"launches", std::move(launches)}}.dump(1) + "\n");
}

}  // namespace ringtape
