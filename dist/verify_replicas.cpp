#include "dist/verify_replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "dist/verify_same.h"
#include "io/checksum.h"
#include "nn/parameter_shard.h"
#include "nn/shard_range.h"

namespace ringtape {
namespace {

/// A line for each parameter for which `takes_part` and of which this rank has values.
std::string checksums(Module& model, const ParameterArena* arena,
                      const std::function<bool(const Tensor&)>& takes_part) {
  std::string text;
  for (const auto& [name, tensor] : model.named_parameters()) {
    if (!takes_part(*tensor)) continue;
    const Tensor own = own_values(*tensor, arena);
    if (!own.defined()) continue;
    const Tensor on_host = copy_to(own, Device{});
    text += fmt::format("{} with the CRC-32 {:08x}\n", name, crc32(0, on_host.raw(), on_host.bytes()));
  }
  return text;
}

}  // namespace

Tensor own_values(const Tensor& parameter, const ParameterArena* arena) {
  if (arena == nullptr || arena->has_all_values()) return parameter.detach();
  const std::vector<ArenaEntry>& entries = arena->entries();
  const auto entry = std::find_if(entries.begin(), entries.end(),
                                  [&](const ArenaEntry& each) { return each.tensor == &parameter; });
  if (entry == entries.end()) return parameter.detach();  // frozen
  const auto [first, end, shift] =
      range_in_shard(arena->buckets(), arena->slices(), static_cast<std::size_t>(entry - entries.begin()),
                     entry->offset, entry->elements);
  return first < end ? arena->values().alias({end - first}, first + shift) : Tensor();
}

void verify_replicas(Module& model, const Mesh& mesh, const std::string& when, const Pipeline* pipeline,
                     const ParameterArena* arena) {
  const std::string what = "--check-replicas: " + when + " the ranks' parameters";
  if (arena == nullptr || arena->has_all_values()) {
    verify_same(*mesh.data_and_context(), what, "parameter",
                checksums(model, arena, [](const Tensor&) { return true; }));
  }
  verify_same(
      *mesh.along(MeshDimension::tensor), what, "undivided parameter",
      checksums(model, arena, [](const Tensor& parameter) { return shard_of(parameter) == nullptr; }));
  if (pipeline == nullptr) return;
  for (const Pipeline::TiedPair& copy : pipeline->copies()) {
    verify_same(
        *copy.pair, what, "parameter of two stages",
        checksums(model, arena, [&](const Tensor& parameter) { return &parameter == copy.parameter; }));
  }
}

}  // namespace ringtape
