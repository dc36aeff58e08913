#include "nn/layer_factory.h"

#include <numeric>
#include <utility>

#include "nn/layers.h"

namespace ringtape {

std::int64_t LayerFactory::part_of(const char* /*what*/, std::int64_t count) const {
  return count;
}

std::shared_ptr<Module> LayerFactory::column_linear(std::int64_t in, const std::vector<std::int64_t>& blocks,
                                                    bool with_bias) const {
  const std::int64_t out = std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0});
  return std::make_shared<Linear>(in, out, with_bias);
}

std::shared_ptr<Module> LayerFactory::row_linear(std::int64_t in, std::int64_t out, bool with_bias) const {
  return std::make_shared<Linear>(in, out, with_bias);
}

std::shared_ptr<Module> LayerFactory::dropout(double p) const {
  if (context_ != nullptr) return std::make_shared<TokenDropout>(p, context_);
  return std::make_shared<Dropout>(p);
}

Tensor LayerFactory::embed(const Tensor& tokens, const Tensor& weight, const Tensor& positions,
                           std::int64_t first_position) const {
  return embedding(tokens, weight, positions, first_position);
}

Tensor LayerFactory::logits(const Tensor& x, const Tensor& weight) const {
  return linear(x, weight);
}

Tensor LayerFactory::cross_entropy(Tensor logits, const Tensor& targets,
                                   const CrossEntropyOptions& options) const {
  return ringtape::cross_entropy(std::move(logits), targets, options);
}

}  // namespace ringtape
