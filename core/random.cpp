#include "core/random.h"

namespace ringtape {

Generator& default_generator() {
  thread_local Generator generator(0);
  return generator;
}

void manual_seed(std::uint64_t seed) {
  default_generator() = Generator(seed);
}

}  // namespace ringtape
