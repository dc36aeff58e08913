#include "kernels/analysis/cases/arena.h"

#include <algorithm>

namespace ringtape::analysed {

Arena::Arena(Setup& setup, std::int64_t size) {
  std::vector<Tile> tiles;
  std::int64_t offset = 0;
  for (std::int32_t p = 0; p < kParameters; ++p) {
    const std::int64_t end = offset + (p == 0 ? size / 2 : size / 4);
    while (offset < end) {
      const auto length = static_cast<std::int32_t>(std::min<std::int64_t>(kTileElements, end - offset));
      tiles.push_back({offset, length, p});
      offset += length;
    }
  }
  view.values = setup.floats("values", size);
  view.gradients = setup.floats("gradients", size);
  view.tiles = setup.input("tiles", tiles);
  view.tile_count = static_cast<std::int64_t>(tiles.size());
  view.parameter_count = kParameters;
  view.options = setup.input("options", std::vector<ParameterOptions>(kParameters, {1, 0.01f, 1}));
  view.has_grad = setup.input("has_grad", std::vector<std::uint8_t>(kParameters, 1));
  view.learning_rate = setup.input<float>("learning rate", {0.01f});
  view.clip_factor = setup.input<float>("clip factor", {0.5f});
  view.skip = setup.input<int>("skip", {0});
  view.skipped_updates = setup.input<std::int64_t>("skipped updates", {0});
}

}  // namespace ringtape::analysed
