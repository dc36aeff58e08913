#include "nn/stages.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/divisors.h"
#include "core/error.h"
#include "core/numbers.h"
#include "nn/parameter_shard.h"

namespace ringtape {
namespace {

class Chunk : public Module {
 public:
  Tensor forward(const Tensor&) override {
    fail("pipeline: forward_units() of the model computes its chunks");
  }
};

}  // namespace

Stages::Stages(const PipelinePlace& place) : place_(place) {
  for (int i = 0; i < place.chunks; ++i) chunks_.push_back(std::make_shared<Chunk>());
}

std::vector<std::size_t> divide_evenly(const std::vector<double>& costs, std::size_t parts) {
  const std::size_t n = costs.size();
  check(parts >= 1 && n >= parts, "divide_evenly: {} costs for {} parts", n, parts);
  std::vector<double> sums(n + 1, 0);
  std::partial_sum(costs.begin(), costs.end(), sums.begin() + 1);
  // most[k][i]: the smallest possible largest sum of k runs of the first i costs; from[k][i]: where the last
  // of these runs begins.
  const double none = std::numeric_limits<double>::infinity();
  std::vector most(parts + 1, std::vector<double>(n + 1, none));
  std::vector from(parts + 1, std::vector<std::size_t>(n + 1, 0));
  most[0][0] = 0;
  for (std::size_t k = 1; k <= parts; ++k) {
    for (std::size_t i = k; i <= n; ++i) {
      for (std::size_t j = k - 1; j < i; ++j) {
        const double largest = std::max(most[k - 1][j], sums[i] - sums[j]);
        if (largest >= most[k][i]) continue;
        most[k][i] = largest;
        from[k][i] = j;
      }
    }
  }
  std::vector<std::size_t> begins = {n};
  for (std::size_t k = parts; k > 0; --k) begins.push_back(from[k][begins.back()]);
  std::reverse(begins.begin(), begins.end());
  return begins;
}

void Stages::divide(const std::vector<double>& costs) {
  const auto parts = static_cast<std::size_t>(place_.stages) * static_cast<std::size_t>(place_.chunks);
  const std::string chunks = place_.chunks > 1 ? fmt::format(" --pipeline-chunks {}", place_.chunks) : "";
  const auto units = std::ssize(costs);
  const auto max_stages = [&](std::ptrdiff_t limit) {
    return nearest_divisor(place_.stages, limit, limit);  // so that it divides the ranks
  };
  const auto nearest = [&] {
    if (place_.chunks == 1) return fmt::format("--pipeline-parallel {}", max_stages(units));
    // The interleaved schedule needs two chunks, and several stages.
    if (units / place_.stages > 1) return fmt::format("--pipeline-chunks {}", units / place_.stages);
    if (units / place_.chunks > 1 && max_stages(units / place_.chunks) > 1)
      return fmt::format("--pipeline-parallel {}", max_stages(units / place_.chunks));
    return fmt::format("--pipeline-parallel {} without --pipeline-chunks", max_stages(units));
  };
  check(costs.size() >= parts,
        "--pipeline-parallel {}{}: the model has {} for {} parts, expected no more parts than units, the "
        "nearest is "
        "{}",
        place_.stages, chunks, counted(units, "unit"), parts, nearest());
  begins_ = divide_evenly(costs, parts);
}

std::size_t Stages::part_of(std::size_t unit) const {
  return static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), unit) - begins_.begin() -
                                  1);
}

int Stages::stage_of(std::size_t unit) const {
  return static_cast<int>(part_of(unit)) % place_.stages;
}

int Stages::chunk_of(std::size_t unit) const {
  return static_cast<int>(part_of(unit)) / place_.stages;
}

void Stages::add(std::size_t unit, const std::string& name, Module& module) {
  for (const NamedParameter& parameter : module.named_parameters()) {
    parameters_.push_back({.name = name + "." + parameter.name,
                           .stage = stage_of(unit),
                           .chunk = chunk_of(unit),
                           .shape = whole_shape_of(*parameter.tensor)});
  }
}

void Stages::add_copy(const std::string& name, std::size_t unit) {
  const auto owned = std::find_if(parameters_.begin(), parameters_.end(),
                                  [&](const Parameter& each) { return each.name == name; });
  if (owned->stage != stage_of(unit)) copies_.push_back({name, owned->stage, stage_of(unit), chunk_of(unit)});
}

bool Stages::is_copied(const std::string& name) const {
  return std::any_of(copies_.begin(), copies_.end(), [&](const TiedCopy& copy) { return copy.name == name; });
}

int Stages::chunk_of(const std::string& name) const {
  for (const TiedCopy& copy : copies_) {
    if (copy.name == name && copy.stage == place_.stage) return copy.chunk;
  }
  for (const Parameter& parameter : parameters_) {
    if (parameter.name == name) return parameter.chunk;
  }
  fail("pipeline: no stage has a parameter {}", name);
}

std::vector<std::string> Stages::names_of(int stage) const {
  std::vector<std::string> names;
  for (const Parameter& parameter : parameters_) {
    const bool is_copied = std::any_of(copies_.begin(), copies_.end(), [&](const TiedCopy& copy) {
      return copy.name == parameter.name && copy.stage == stage;
    });
    if (parameter.stage == stage || is_copied) names.push_back(parameter.name);
  }
  return names;
}

}  // namespace ringtape
