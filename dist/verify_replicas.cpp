#include "dist/verify_replicas.h"

#include <fmt/format.h>

#include <functional>

#include "dist/verify_same.h"
#include "io/checksum.h"
#include "nn/parameter_shard.h"

namespace ringtape {
namespace {

/// A line for each parameter for which `takes_part`.
std::string checksums(Module& model, const std::function<bool(const Tensor&)>& takes_part) {
  std::string text;
  for (const auto& [name, tensor] : model.named_parameters()) {
    if (!takes_part(*tensor)) continue;
    const Tensor on_host = copy_to(tensor->detach(), Device{});
    text += fmt::format("{} with the CRC-32 {:08x}\n", name, crc32(0, on_host.raw(), on_host.bytes()));
  }
  return text;
}

}  // namespace

void verify_replicas(Module& model, const Mesh& mesh, const std::string& when, const Pipeline* pipeline) {
  const std::string what = "--check-replicas: " + when + " the ranks' parameters";
  verify_same(*mesh.data_and_context(), what, "parameter",
              checksums(model, [](const Tensor&) { return true; }));
  verify_same(*mesh.along(MeshDimension::tensor), what, "undivided parameter",
              checksums(model, [](const Tensor& parameter) { return shard_of(parameter) == nullptr; }));
  if (pipeline == nullptr) return;
  for (const Pipeline::TiedPair& copy : pipeline->copies()) {
    verify_same(*copy.pair, what, "parameter of two stages",
                checksums(model, [&](const Tensor& parameter) { return &parameter == copy.parameter; }));
  }
}

}  // namespace ringtape
