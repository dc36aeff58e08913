#include "dist/verify_parameters.h"

#include <fmt/format.h>

#include <string>

#include "dist/verify_same.h"

namespace ringtape {
namespace {

/// One line for each parameter.
std::string describe_parameters(Module& model) {
  std::string text;
  for (const auto& [name, tensor] : model.named_parameters()) {
    text += fmt::format("{} {}{} {}\n", name, name_of(tensor->dtype()), to_string(tensor->shape()),
                        tensor->requires_grad() ? "with a gradient" : "frozen");
  }
  return text;
}

}  // namespace

void verify_parameters(Module& model, Communicator& comm) {
  verify_same(comm, "data parallel: the ranks' models", "parameter", describe_parameters(model));
}

}  // namespace ringtape
