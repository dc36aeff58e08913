#include "benchmarks/kernels/arena.h"

#include "autograd/creation.h"
#include "autograd/tape.h"
#include "kernels/random.h"

namespace ringtape::kernel_cases {

Parameters::Parameters(const Size& size, Device device, DType compute_dtype)
    : clip_factor_(full({}, 0.5, DType::f32, device)), skip_(zeros({}, DType::i32, device)) {
  const std::int64_t elements = size.elements();
  std::vector<std::int64_t> lengths = size.lengths;
  if (lengths.empty()) lengths = {elements / 2, elements / 4, elements / 4};
  // An arena has its parameters in reverse order of registration. They have two dimensions, so that they do
  // not count as biases.
  for (std::size_t i = lengths.size(); i-- > 0;)
    register_parameter(std::to_string(i), empty({1, lengths[i]}));
  arena_ = std::make_unique<ParameterArena>(*this, device, compute_dtype);
  for (const ArenaEntry& entry : arena_->entries()) entry.tensor->autograd->grad_written = true;
  const Stream stream = Stream::current(device);
  const std::int64_t n = arena_->size();
  uniform(stream, DType::f32, arena_->values().raw(), n, 0.25f, 1.25f, 1, 0);
  uniform(stream, DType::f32, arena_->gradients().raw(), n, 0.25f, 1.25f, 2, 0);
  arena_->has_grad();  // copies the flags to the device
}

void Parameters::clip_and_skip() {
  arena_->set_clip_factor(clip_factor_.data<float>());
  arena_->set_skip(skip_.data<std::int32_t>());
}

}  // namespace ringtape::kernel_cases
