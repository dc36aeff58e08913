#include <fmt/format.h>

#include "dist/traffic.h"
#include "planner/numbers.h"
#include "planner/parallel.h"

namespace ringtape::planner {
namespace {

/// "sequence, recompute 1, 2 chunks"
std::string settings_text(const ParallelConfig& config) {
  std::string text;
  const auto add = [&text](const std::string& setting) { text += (text.empty() ? "" : ", ") + setting; };
  if (!config.reshard) add("no reshard");
  if (config.sequence_parallel) add("sequence");
  if (config.recompute > 0) add(fmt::format("recompute {}", config.recompute));
  if (config.chunks > 1) add(fmt::format("{} chunks", config.chunks));
  return text;
}

std::string mesh_text(const MeshSizes& mesh, int zero) {
  return fmt::format("{:>6} {:>7} {:>8} {:>6} {:>4}", mesh.tensor, mesh.context, mesh.pipeline, mesh.data,
                     zero);
}

std::string without_spaces_at_end(const std::string& line) {
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

double tokens_per_second(const ParallelRequest& request, const ParallelPlan& plan) {
  return static_cast<double>(request.global_batch * request.model.context) / plan.step;
}

std::string table(const ParallelRequest& request, const ParallelPlans& plans, std::int64_t most) {
  std::string text =
      fmt::format("{:>6} {:>7} {:>8} {:>6} {:>4} {:>13} {:>10} {:>10} {:>7} {:>10} {:>11} {:>6}   with\n",
                  "tensor", "context", "pipeline", "data", "ZeRO", "micro-batches", "memory", "sent",
                  "bubble", "step ms", "tokens/s", "busy");
  for (const ParallelPlan& plan : plans.plans) {
    if (most-- == 0) break;
    const ParallelConfig& config = plan.config;
    text += without_spaces_at_end(fmt::format(
        "{} {:>13} {:>10} {:>10} {:>6.1f}% {:>10.5g} {:>11.6g} {:>5.1f}%   {}",
        mesh_text(config.mesh, config.zero), fmt::format("{} x {}", config.micro_batches, config.micro_batch),
        bytes_text(plan.bytes), bytes_text(static_cast<std::int64_t>(plan.bytes_sent)), 100 * plan.bubble,
        1e3 * plan.step, tokens_per_second(request, plan), 100 * plan.utilisation, settings_text(config)));
  }
  return text;
}

std::string details(const ParallelPlan& plan) {
  std::string text = "of the first, on each rank\n";
  for (const MemoryRow& row : plan.memory) {
    if (row.bytes == 0) continue;
    text += fmt::format("{:<22} {:>18} {:>12}   {}\n", row.name, grouped(row.bytes), bytes_text(row.bytes),
                        row.how);
  }
  text += fmt::format("{:<22} {:>18} {:>12}\n", "total", grouped(plan.bytes), bytes_text(plan.bytes));
  const MeshSizes& mesh = plan.config.mesh;
  const std::string data_and_context = mesh.context == 1 ? "data" : "data and context";
  if (mesh.data * mesh.context > 1)
    text += "\n" + traffic_table(plan.traffic.data, data_and_context, mesh.data * mesh.context);
  if (mesh.tensor > 1) text += "\n" + traffic_table(plan.traffic.tensor, "tensor", mesh.tensor);
  if (mesh.context > 1) text += "\n" + traffic_table(plan.traffic.context, "context", mesh.context);
  if (mesh.pipeline > 1) text += "\n" + traffic_table(plan.traffic.pipeline, "pipeline", 2);
  return text;
}

Json json_of(const CollectiveCounts& counts, int ranks) {
  Json json = Json::Object{};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i].calls == 0) continue;
    const auto operation = static_cast<CommOperation>(i);
    json[name_of(operation)] = {{"calls", static_cast<std::int64_t>(counts[i].calls)},
                                {"bytes", static_cast<std::int64_t>(counts[i].bytes)},
                                {"sent", bytes_sent(operation, ranks, static_cast<double>(counts[i].bytes))}};
  }
  return json;
}

Json json_of(const MeshSizes& mesh, int zero) {
  return {{"tensor", mesh.tensor},
          {"context", mesh.context},
          {"pipeline", mesh.pipeline},
          {"data", mesh.data},
          {"zero", zero}};
}

Json json_of(const ParallelRequest& request, const ParallelPlan& plan) {
  const ParallelConfig& config = plan.config;
  Json json = json_of(config.mesh, config.zero);
  json["reshard_after_forward"] = config.reshard;
  json["sequence_parallel"] = config.sequence_parallel;
  json["recompute"] = config.recompute;
  json["chunks"] = config.chunks;
  json["micro_batch"] = config.micro_batch;
  json["micro_batches"] = config.micro_batches;
  json["memory_bytes"] = plan.bytes;
  json["memory"] = Json::Array{};
  for (const MemoryRow& row : plan.memory) {
    json["memory"].push_back(Json{{"name", row.name}, {"bytes", row.bytes}, {"how", row.how}});
  }
  json["traffic"] = {{"data", json_of(plan.traffic.data, config.mesh.data * config.mesh.context)},
                     {"tensor", json_of(plan.traffic.tensor, config.mesh.tensor)},
                     {"context", json_of(plan.traffic.context, config.mesh.context)},
                     {"pipeline", json_of(plan.traffic.pipeline, 2)}};
  json["bytes_sent"] = plan.bytes_sent;
  json["bubble"] = plan.bubble;
  json["step_seconds"] = plan.step;
  json["computing_seconds"] = plan.computing;
  json["tokens_per_second"] = tokens_per_second(request, plan);
  json["utilisation"] = plan.utilisation;
  return json;
}

}  // namespace

std::string parallel_text(const ParallelRequest& request, const ParallelPlans& plans, std::int64_t most) {
  const TransformerOptions& model = request.model;
  std::string text =
      fmt::format("{} parameters; {} x {} an update; {} of {}, nodes of {}; {} computed\n\n",
                  grouped(parameter_count(model)), grouped(request.global_batch),
                  grouped(model.context, "token"), grouped(request.ranks, "rank"), bytes_text(request.memory),
                  request.cluster.ranks_per_node, grouped(plans.configs, "configuration"));
  text += table(request, plans, most);
  if (std::ssize(plans.plans) > most)
    text += fmt::format("and {} slower, by --show or --json\n", std::ssize(plans.plans) - most);
  text += "\n" + details(plans.plans.front());
  if (plans.left_out.empty()) return text;
  text += fmt::format("\nleft out\n{:>6} {:>7} {:>8} {:>6} {:>4}\n", "tensor", "context", "pipeline", "data",
                      "ZeRO");
  std::int64_t shown = 0;
  for (const LeftOut& each : plans.left_out) {
    if (shown++ == most) break;
    text += fmt::format("{}   {}\n", mesh_text(each.mesh, each.zero), each.reason);
  }
  if (std::ssize(plans.left_out) > most)
    text += fmt::format("and {} more, by --show or --json\n", std::ssize(plans.left_out) - most);
  return text;
}

Json parallel_json(const ParallelRequest& request, const ParallelPlans& plans) {
  Json json = {{"parameters", parameter_count(request.model)},
               {"ranks", request.ranks},
               {"memory_bytes", request.memory},
               {"global_batch", request.global_batch},
               {"plans", Json::Array{}},
               {"left_out", Json::Array{}}};
  for (const ParallelPlan& plan : plans.plans) json["plans"].push_back(json_of(request, plan));
  for (const LeftOut& each : plans.left_out) {
    Json left_out = json_of(each.mesh, each.zero);
    left_out["reason"] = each.reason;
    if (each.least_bytes > 0) left_out["least_bytes"] = each.least_bytes;
    json["left_out"].push_back(left_out);
  }
  return json;
}

}  // namespace ringtape::planner
