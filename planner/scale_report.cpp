#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/numbers.h"
#include "planner/scale.h"

namespace ringtape::planner {
namespace {

std::string milliseconds(double seconds) {
  return fmt::format("{:.4g} ms", seconds * 1e3);
}

/// In milliseconds; a rounding error near 0 becomes 0.
double in_ms(double seconds) {
  return std::abs(seconds) < 1e-9 ? 0 : seconds * 1e3;
}

std::string link_text(const Link& link) {
  return fmt::format("{:.4g} us and {:.4g} GB/s", link.latency * 1e6, link.bandwidth / 1e9);
}

std::string from_text(const std::optional<std::int64_t>& ranks) {
  return ranks ? grouped(*ranks) : "-";
}

std::string limits_text(const ScaleRequest& request, const ScalePlan& plan) {
  std::string text = fmt::format(
      "\nranks from which on            {:<36} communication takes more than\n"
      "                               longer for latency than bytes        {:.0f}% of a step\n",
      request.zero == 0 ? "an all-reduce of a bucket waits" : "a reduce-scatter of a bucket waits",
      ScaleVariant::kHidden * 100);
  const auto line = [&](const ScaleVariant& variant, const char* mark) {
    text += fmt::format("  {:<12} {:>9} buckets {:>26} {:>35}{}\n", name_of(variant.algorithm),
                        bytes_text(variant.bucket), from_text(variant.latency_from),
                        from_text(variant.exposed_from), mark);
  };
  line(plan.asked, "   <- requested");
  for (const ScaleVariant& variant : plan.others) line(variant, "");
  return text + fmt::format("  -: not up to {}\n", grouped(plan.most, "rank"));
}

std::string algorithm_text(const ScaleRequest& request, const ScalePlan& plan) {
  const bool replaced = plan.asked.algorithm != request.algorithm;
  return name_of(plan.asked.algorithm) + (replaced ? " (a tree has no reduce-scatter)" : "");
}

std::string gradients_text(const ScaleRequest& request) {
  return fmt::format("gradients: {} x {} bytes = {}", grouped(request.parameters), request.gradient_bytes,
                     bytes_text(product(request.parameters, request.gradient_bytes)));
}

std::string mesh_text(const ScaleMesh& mesh) {
  const ParallelConfig& config = mesh.config;
  return fmt::format(
      "model:     {} parameters on {} tensor{}{} x {} pipeline ranks{}{}; gradients",
      grouped(parameter_count(mesh.request.model)), config.mesh.tensor,
      config.sequence_parallel ? " and sequence" : "", mesh.context_text(), config.mesh.pipeline,
      config.chunks > 1 ? fmt::format(" of {} chunks", config.chunks) : "",
      config.recompute > 0 ? fmt::format(", recomputed by {}", grouped(config.recompute, "block")) : "");
}

/// Explains the number of ranks at which latency takes over.
std::string latency_text(const ScaleRequest& request, const ScalePlan& plan) {
  const Cluster& cluster = request.cluster;
  const auto local = static_cast<double>(cluster.ranks_per_node);
  const double latency = (cluster.intra_node.latency * (local - 1) + cluster.inter_node.latency) / local;
  const double bandwidth = cluster.ranks_per_node == 1
                               ? cluster.inter_node.bandwidth
                               : std::min(cluster.intra_node.bandwidth, cluster.inter_node.bandwidth);
  const double bytes = static_cast<double>(plan.asked.bucket) / request.compression;
  return fmt::format(
      "A ring takes {} steps of latency + S / (n x bandwidth) each: latency takes over at about n = S "
      "/\n"
      "(latency x bandwidth) = {:.4g} MB / ({:.4g} us x {:.4g} GB/s) = {:.3g}. 8 times the bucket moves that "
      "to 8 "
      "times\nthe ranks; a tree's latency grows only with log2(nodes). The Ultra-Scale Playbook (2025) sees "
      "it \"at "
      "the\n512+ GPU scale, depending on the network used\".\n",
      request.zero == 0 ? "2 (n - 1)" : "n - 1", bytes / 1e6, latency * 1e6, bandwidth / 1e9,
      bytes / (latency * bandwidth));
}

Json variant_json(const ScaleRequest& request, const ScaleVariant& variant) {
  Json json = {{"algorithm", name_of(variant.algorithm)}, {"bucket_bytes", variant.bucket}};
  json["latency_from_ranks"] = variant.latency_from ? Json(*variant.latency_from) : Json();
  json["exposed_from_ranks"] = variant.exposed_from ? Json(*variant.exposed_from) : Json();
  json["points"] = Json::Array{};
  for (const ScalePoint& point : variant.points) {
    Json row = {{"ranks", point.ranks},
                {"accumulation", point.accumulation},
                {"global_batch", point.global_batch},
                {"step_seconds", point.times.step},
                {"computing_seconds", point.times.computing},
                {"waiting_seconds", point.times.waiting},
                {"communicating_seconds", point.times.communicating},
                {"exposed_seconds", point.times.exposed},
                {"samples_per_second", point.throughput},
                {"efficiency", point.efficiency},
                {"by_messages", point.by_messages},
                {"checkpoint_interval_seconds", point.interval},
                {"goodput", point.goodput}};
    if (request.mesh) {
      row["bubble_seconds"] = point.times.bubble;
      row["memory_bytes"] = point.memory;
      row["bytes_sent"] = point.bytes_sent;
    }
    json["points"].push_back(row);
  }
  return json;
}

}  // namespace

std::string scale_text(const ScaleRequest& request, const ScalePlan& plan) {
  const Cluster& cluster = request.cluster;
  std::string text = fmt::format("computing: {} x {}: forward {}, backward {}{}, optimizer {}{}\n",
                                 grouped(request.micro_batch, "sample"), grouped(request.sequence, "token"),
                                 milliseconds(plan.forward), milliseconds(plan.backward),
                                 request.mesh ? " of the slowest stage" : "", milliseconds(request.optimizer),
                                 request.mesh ? " of all parameters" : "");
  text += request.mesh ? mesh_text(*request.mesh) : gradients_text(request);
  text += fmt::format(", in {} of {}, by {}{}\n", grouped(static_cast<std::int64_t>(plan.buckets), "bucket"),
                      bytes_text(plan.asked.bucket), algorithm_text(request, plan),
                      request.zero > 0 ? fmt::format(", ZeRO {}", request.zero) : "");
  text += fmt::format("cluster:   nodes of {}; intra-node {}, inter-node {}, a call {:.4g} us\n",
                      grouped(cluster.ranks_per_node, "rank"), link_text(cluster.intra_node),
                      link_text(cluster.inter_node), cluster.call * 1e6);
  if (!cluster.source.empty()) text += "           " + cluster.source + "\n";

  const bool fails = request.rank_mtbf_hours > 0;
  const std::int64_t part_ranks = request.mesh ? request.mesh->part_ranks() : 1;
  text += fmt::format("\n{:>9} {:>12} {:>9} {:>11} {:>12} {:>14} {:>11} {:>12} {:>11}{}\n", "ranks",
                      "accumulation", "batch", "step ms", "waiting ms", "communic. ms", "exposed ms",
                      "samples/s", "efficiency",
                      std::string(request.mesh ? "  bubble ms     memory       sent" : "") +
                          (fails ? "  checkpoint every  goodput" : ""));
  for (const ScalePoint& point : plan.asked.points) {
    const StepTimes& times = point.times;
    text += fmt::format("{:>9} {:>12} {:>9} {:>11.5g} {:>12.4g} {:>14.5g} {:>11.5g} {:>12.6g} {:>10.1f}%",
                        grouped(point.ranks), grouped(point.accumulation), grouped(point.global_batch),
                        in_ms(times.step), in_ms(times.waiting), in_ms(times.communicating),
                        in_ms(times.exposed), point.throughput, point.efficiency * 100);
    if (request.mesh) {
      text += fmt::format(" {:>10.5g} {:>10} {:>10}", in_ms(times.bubble), bytes_text(point.memory),
                          bytes_text(static_cast<std::int64_t>(point.bytes_sent)));
    }
    if (fails)
      text += fmt::format("  {:>14.{}f} s  {:>6.1f}%", point.interval, point.interval < 10 ? 4 : 0,
                          point.goodput * 100);
    text += point.by_messages || point.ranks == part_ranks ? "\n" : "  *\n";
  }
  text += "  *: in closed form; the others message by message\n";
  text += limits_text(request, plan);
  if (!request.mesh) text += latency_text(request, plan);
  for (const std::string& note : plan.notes) text += "note: " + note + "\n";
  return text;
}

Json scale_json(const ScaleRequest& request, const ScalePlan& plan) {
  const Cluster& cluster = request.cluster;
  Json json = {
      {"parameters", request.parameters},
      {"micro_batch", request.micro_batch},
      {"sequence", request.sequence},
      {"forward_seconds", plan.forward},
      {"backward_seconds", plan.backward},
      {"optimizer_seconds", request.optimizer},
      {"buckets", plan.buckets},
      {"zero", request.zero},
      {"cluster",
       {{"name", cluster.name},
        {"ranks_per_node", cluster.ranks_per_node},
        {"intra_node_latency_seconds", cluster.intra_node.latency},
        {"intra_node_bytes_per_second", cluster.intra_node.bandwidth},
        {"inter_node_latency_seconds", cluster.inter_node.latency},
        {"inter_node_bytes_per_second", cluster.inter_node.bandwidth},
        {"call_seconds", cluster.call}}},
  };
  if (request.mesh) {
    json["tensor"] = request.mesh->config.mesh.tensor;
    json["context"] = request.mesh->config.mesh.context;
    json["pipeline"] = request.mesh->config.mesh.pipeline;
  }
  json["asked"] = variant_json(request, plan.asked);
  json["others"] = Json::Array{};
  for (const ScaleVariant& variant : plan.others) json["others"].push_back(variant_json(request, variant));
  json["notes"] = Json::Array(plan.notes.begin(), plan.notes.end());
  return json;
}

}  // namespace ringtape::planner
