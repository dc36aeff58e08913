#include "nn/arena.h"

#include <algorithm>

#include "autograd/creation.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/stream.h"
#include "kernels/clip.h"
#include "kernels/elementwise.h"

namespace ringtape {
namespace {

std::int64_t padded(std::int64_t elements) {
  return (elements + kTileAlignment - 1) / kTileAlignment * kTileAlignment;
}

Tensor zeros_of(MemoryCategory category, std::int64_t elements, Device device) {
  const MemoryScope scope(category);
  return zeros({elements}, DType::f32, device);
}

/// A tensor of its own, with its own version count, whose elements are a range of `buffer`.
Tensor part_of(const Tensor& buffer, std::int64_t offset, const Shape& shape) {
  auto storage = std::make_shared<Storage>();
  const Tensor part = buffer.alias(shape, offset);
  storage->data = std::shared_ptr<void>(buffer.storage()->data, part.raw());
  storage->bytes = part.bytes();
  storage->device = buffer.device();
  return {std::move(storage), shape, buffer.dtype()};
}

template <class T>
Tensor upload(const std::vector<T>& values, Device device) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(values.data());
  return from_span(std::span(bytes, values.size() * sizeof(T)),
                   {static_cast<std::int64_t>(values.size() * sizeof(T))}, device);
}

}  // namespace

ParameterArena::ParameterArena(Module& model, Device device, DType compute_dtype) {
  check(compute_dtype == DType::f32 || compute_dtype == DType::bf16 || compute_dtype == DType::f16,
        "parameter arena: a model computes in f32, bf16 or f16, not in {}", name_of(compute_dtype));
  std::vector<NamedParameter> parameters = model.named_parameters();
  check(!parameters.empty(), "parameter arena: the model has no parameters");
  std::reverse(parameters.begin(), parameters.end());
  std::stable_partition(parameters.begin(), parameters.end(),
                        [](const NamedParameter& parameter) { return parameter.tensor->requires_grad(); });
  lay_out(parameters, device, compute_dtype);
  make_tiles(device);
  norm_result_ = zeros({static_cast<std::int64_t>(sizeof(GradientNorm) / sizeof(float))}, DType::f32, device);
}

void ParameterArena::lay_out(const std::vector<NamedParameter>& parameters, Device device,
                             DType compute_dtype) {
  std::int64_t total = 0;
  std::int64_t trainable = 0;
  for (const NamedParameter& parameter : parameters) {
    check(parameter.tensor->dtype() == DType::f32, "parameter arena: {} must be f32, found {}",
          parameter.name, describe(*parameter.tensor));
    total += padded(parameter.tensor->elements());
    if (parameter.tensor->requires_grad()) trainable = total;
    parameter_elements_ += parameter.tensor->elements();
  }
  const Tensor all = zeros_of(MemoryCategory::parameters, total, device);
  values_ = all.alias({trainable});
  gradients_ = zeros_of(MemoryCategory::gradients, trainable, device);
  Tensor copy_of_all;
  if (compute_dtype != DType::f32) {
    const MemoryScope scope(MemoryCategory::parameters);
    copy_of_all = empty({total}, compute_dtype, device);
    low_precision_ = copy_of_all.alias({trainable});
  }

  std::int64_t offset = 0;
  for (const NamedParameter& parameter : parameters) {
    Tensor& tensor = *parameter.tensor;
    Tensor moved = part_of(all, offset, tensor.shape());
    moved.copy_from(tensor);
    moved.autograd = tensor.autograd;
    moved.autograd->name = parameter.name;
    if (tensor.requires_grad()) {
      moved.autograd->grad = part_of(gradients_, offset, tensor.shape());
      moved.autograd->grad_written = false;
      entries_.push_back({parameter.name, &tensor, offset, tensor.elements()});
    }
    moved.autograd->low_precision =
        copy_of_all.defined() ? part_of(copy_of_all, offset, tensor.shape()) : Tensor();
    moved.autograd->low_precision_version = moved.storage()->version;
    tensor = moved;
    offset += padded(tensor.elements());
  }
  if (copy_of_all.defined()) {
    cast(Stream::current(device), all.dtype(), all.raw(), compute_dtype, copy_of_all.raw(), total, false);
  }
}

void ParameterArena::make_tiles(Device device) {
  std::vector<Tile> tiles;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    for (std::int64_t first = 0; first < entries_[i].elements; first += kTileElements) {
      const std::int64_t length = std::min<std::int64_t>(kTileElements, entries_[i].elements - first);
      tiles.push_back(
          {entries_[i].offset + first, static_cast<std::int32_t>(length), static_cast<std::int32_t>(i)});
    }
  }
  tile_count_ = static_cast<std::int64_t>(tiles.size());
  tiles_ = upload(tiles, device);
  present_on_host_.assign(entries_.size(), 0);
  present_ = upload(present_on_host_, device);
}

const Tile* ParameterArena::tiles() const {
  return static_cast<const Tile*>(tiles_.raw());
}

void ParameterArena::zero_grad() {
  for (const ArenaEntry& entry : entries_) entry.tensor->autograd->grad_written = false;
  clip_factor_ = nullptr;
  skip_ = nullptr;
}

const std::uint8_t* ParameterArena::present() {
  bool changed = false;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const AutogradMeta& meta = *entries_[i].tensor->autograd;
    const std::uint8_t flag = meta.grad_written && meta.requires_grad ? 1 : 0;
    changed = changed || flag != present_on_host_[i];
    present_on_host_[i] = flag;
  }
  if (changed)
    copy_bytes(present_.raw(), device(), present_on_host_.data(), Device{}, present_on_host_.size());
  return present_.data<std::uint8_t>();
}

void ParameterArena::bump_versions() const {
  for (const ArenaEntry& entry : entries_) entry.tensor->bump_version();
}

void ParameterArena::bump_versions_of_values_and_copies() const {
  bump_versions();
  for (const ArenaEntry& entry : entries_) {
    AutogradMeta& meta = *entry.tensor->autograd;
    if (!meta.low_precision.defined()) continue;
    meta.low_precision.bump_version();
    // By one as well: a copy that was out of date stays so, as a step leaves out what has no gradient.
    ++meta.low_precision_version;
  }
}

}  // namespace ringtape
