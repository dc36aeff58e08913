#include "optim/clip.h"

#include <cstddef>

#include "core/error.h"
#include "core/stream.h"
#include "kernels/reduce.h"

namespace ringtape {

Tensor clip_grad_norm(ParameterArena& arena, double max_norm) {
  check(max_norm > 0, "clip_grad_norm: max_norm must be above 0, found {}", max_norm);
  auto* const result = static_cast<GradientNorm*>(arena.norm_result().raw());
  gradient_norm(Stream::current(arena.device()), arena.gradients().data<float>(), arena.tiles(),
                arena.tile_count(), arena.present(), static_cast<float>(max_norm), result);
  arena.set_clip_factor(&result->clip_factor);
  static_assert(offsetof(GradientNorm, norm) == 0);
  return arena.norm_result().alias({});
}

void clip_grad_value(ParameterArena& arena, double limit) {
  check(limit > 0, "clip_grad_value: limit must be above 0, found {}", limit);
  clip_value(Stream::current(arena.device()), arena.gradients().data<float>(), arena.size(),
             static_cast<float>(limit));
}

}  // namespace ringtape
