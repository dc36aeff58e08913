#include "apps/mlp.h"

#include <fmt/ranges.h>

#include "nn/layers.h"
#include "nn/memory_estimate.h"

namespace ringtape {

void MlpOptions::add_flags(CommandLine& flags) {
  flags.group("Model");
  flags.option("--hidden", between(hidden, 1, 1 << 20), "sizes of the hidden layers, such as 256,128");
  flags.option(
      "--recompute", not_negative(recompute),
      "divide the hidden layers into segments of this many, keep only each segment's input and recompute "
      "the rest in backward: less memory from 2 on, more time, bit-identical results; 0: keep everything");
}

void MlpOptions::set_model(Task& task, std::int64_t inputs, std::int64_t outputs) const {
  std::vector<std::int64_t> sizes = {inputs};
  sizes.insert(sizes.end(), hidden.begin(), hidden.end());
  sizes.push_back(outputs);
  task.model_name = fmt::format("{}", fmt::join(sizes, "-"));
  task.settings["--hidden"] = fmt::format("{}", fmt::join(hidden, ","));
  const std::int64_t segment = recompute;
  task.execution_settings["--recompute"] = fmt::format("{}", segment);
  task.make_model_with = [sizes, segment](const std::shared_ptr<LayerFactory>& layers) {
    const std::shared_ptr<Sequential> model = make_mlp(sizes, *layers);
    model->set_recompute(2 * segment);  // a layer is a Linear and its ReLU
    return model;
  };
  task.estimate_memory = [sizes, segment](const UpdateShape& shape) {
    if (shape.part.tensor > 1 || shape.part.stages > 1) return BytesByCategory{};
    return estimate_memory({.sizes = sizes,
                            .micro_batch = shape.micro_batch,
                            .state_per_parameter = shape.state_per_parameter,
                            .recompute = segment,
                            .compute = shape.compute});
  };
}

}  // namespace ringtape
