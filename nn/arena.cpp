#include "nn/arena.h"

#include <algorithm>

#include "autograd/creation.h"
#include "autograd/low_precision.h"
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

ParameterArena::ParameterArena(Module& model, Device device, DType compute_dtype,
                               const ArenaSharding& sharding)
    : sharding_(sharding), alive_(std::make_shared<char>()) {
  check(compute_dtype == DType::f32 || compute_dtype == DType::bf16 || compute_dtype == DType::f16,
        "parameter arena: a model computes in f32, bf16 or f16, not in {}", name_of(compute_dtype));
  check(sharding.stage >= 0 && sharding.stage <= 2, "parameter arena: ZeRO stage {}, expected 0, 1 or 2",
        sharding.stage);
  check(sharding.rank >= 0 && sharding.rank < sharding.world_size,
        "parameter arena: the shard of rank {} of {}, expected rank 0 to {}", sharding.rank,
        sharding.world_size, sharding.world_size - 1);
  std::vector<NamedParameter> parameters = model.named_parameters();
  check(!parameters.empty(), "parameter arena: the model has no parameters");
  std::reverse(parameters.begin(), parameters.end());
  std::stable_partition(parameters.begin(), parameters.end(),
                        [](const NamedParameter& parameter) { return parameter.tensor->requires_grad(); });
  lay_out(parameters, device, compute_dtype);
  make_tiles(device);
  norm_result_ = zeros({static_cast<std::int64_t>(sizeof(GradientNorm) / sizeof(float))}, DType::f32, device);
}

std::vector<std::int64_t> ParameterArena::offsets_of(const std::vector<NamedParameter>& parameters) {
  std::vector<std::int64_t> trainable;
  for (const NamedParameter& parameter : parameters) {
    if (parameter.tensor->requires_grad()) trainable.push_back(padded(parameter.tensor->elements()));
  }
  if (is_sharded()) {
    buckets_ = cut_into_buckets(trainable, sharding_.bucket_sizes, sharding_.world_size);
    slices_ = slices_of_rank(buckets_, sharding_.rank, sharding_.world_size);
  }
  std::vector<std::int64_t> offsets = {0};
  auto bucket = buckets_.begin();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    std::int64_t end = offsets.back() + padded(parameters[i].tensor->elements());
    if (bucket != buckets_.end() && i + 1 == bucket->first_entry + bucket->entries) {
      end = bucket->offset + bucket->elements;
      ++bucket;
    }
    offsets.push_back(end);
  }
  return offsets;
}

void ParameterArena::lay_out(const std::vector<NamedParameter>& parameters, Device device,
                             DType compute_dtype) {
  std::size_t trainable_parameters = 0;
  for (const NamedParameter& parameter : parameters) {
    check(parameter.tensor->dtype() == DType::f32, "parameter arena: {} must be f32, found {}",
          parameter.name, describe(*parameter.tensor));
    check(parameter.tensor->autograd == nullptr || parameter.tensor->autograd->arena.expired(),
          "parameter arena: {} is in another arena, whose optimizer would not move it any more: expected one "
          "arena for a parameter",
          parameter.name);
    if (parameter.tensor->requires_grad()) ++trainable_parameters;
    parameter_elements_ += parameter.tensor->elements();
  }
  const std::vector<std::int64_t> offsets = offsets_of(parameters);
  const std::int64_t total = offsets.back(), trainable = offsets[trainable_parameters];
  const Tensor all = zeros_of(MemoryCategory::parameters, total, device);
  values_ = all.alias({trainable});
  gradients_ = zeros_of(MemoryCategory::gradients, sharding_.stage == 2 ? shard_size() : trainable, device);
  Tensor copy_of_all;
  if (compute_dtype != DType::f32) {
    const MemoryScope scope(MemoryCategory::parameters);
    copy_of_all = empty({total}, compute_dtype, device);
    low_precision_ = copy_of_all.alias({trainable});
  }

  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Tensor& tensor = *parameters[i].tensor;
    Tensor moved = part_of(all, offsets[i], tensor.shape());
    moved.copy_from(tensor);
    moved.autograd = tensor.autograd;
    moved.autograd->arena = alive_;
    moved.autograd->name = parameters[i].name;
    if (tensor.requires_grad()) {
      moved.autograd->grad =
          sharding_.stage == 2 ? Tensor() : part_of(gradients_, offsets[i], tensor.shape());
      moved.autograd->grad_written = false;
      entries_.push_back({parameters[i].name, &tensor, offsets[i], tensor.elements()});
      trained_elements_ += tensor.elements();
    }
    moved.autograd->low_precision =
        copy_of_all.defined() ? part_of(copy_of_all, offsets[i], tensor.shape()) : Tensor();
    moved.autograd->low_precision_version = moved.storage()->version;
    tensor = moved;
  }
  if (copy_of_all.defined()) {
    cast(Stream::current(device), all.dtype(), all.raw(), compute_dtype, copy_of_all.raw(), total, false);
  }
}

std::vector<Tile> ParameterArena::tiles_of_entry(std::size_t entry) const {
  std::int64_t first = entries_[entry].offset, end = first + entries_[entry].elements, shift = 0;
  if (is_sharded()) {
    std::size_t bucket = 0;
    while (entry >= buckets_[bucket].first_entry + buckets_[bucket].entries) ++bucket;
    const ShardSlice& own = slices_[bucket];
    first = std::max(first, own.offset);
    end = std::min(end, own.offset + own.elements);
    shift = own.in_shard - own.offset;
  }
  std::vector<Tile> tiles;
  for (; first < end; first += kTileElements) {
    tiles.push_back({.offset = first,
                     .length = static_cast<std::int32_t>(std::min<std::int64_t>(kTileElements, end - first)),
                     .parameter = static_cast<std::int32_t>(entry),
                     .gradient_shift = sharding_.stage == 2 ? shift : 0,
                     .state_shift = shift});
  }
  return tiles;
}

void ParameterArena::make_tiles(Device device) {
  std::vector<Tile> tiles;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const std::vector<Tile> of_entry = tiles_of_entry(i);
    tiles.insert(tiles.end(), of_entry.begin(), of_entry.end());
  }
  tile_count_ = static_cast<std::int64_t>(tiles.size());
  tiles_ = upload(tiles, device);
  for (FlagsOnDevice* const each : {&has_grad_, &has_counted_grad_}) {
    each->flags.assign(entries_.size(), 0);
    each->on_device = upload(each->flags, device);
  }
}

const ShardExchange& ParameterArena::shard_exchange() const {
  check(exchange_.sum != nullptr,
        "parameter arena: it is sharded over {} ranks, but nothing connects it to them: expected a "
        "DataParallel of it",
        sharding_.world_size);
  return exchange_;
}

void ParameterArena::gather_values() const {
  if (values_are_current_) return;
  shard_exchange().all_gather(values_);
  values_are_current_ = true;
}

const Tile* ParameterArena::tiles() const {
  return static_cast<const Tile*>(tiles_.raw());
}

void ParameterArena::zero_grad() {
  for (const ArenaEntry& entry : entries_) entry.tensor->autograd->grad_written = false;
  clip_factor_ = nullptr;
  skip_ = nullptr;
  ++zero_grads_;
}

bool ParameterArena::has_grad(std::size_t entry) const {
  const AutogradMeta& meta = *entries_[entry].tensor->autograd;
  return meta.grad_written && meta.requires_grad;
}

bool ParameterArena::counts(std::size_t entry) const {
  return !division_ || division_->rank == 0 || entries_[entry].tensor->autograd->shard != nullptr;
}

void ParameterArena::sum_parts_of_gradients() const {
  if (!division_ || !division_->gradients_are_parts) return;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].tensor->autograd->shard != nullptr || !has_grad(i)) continue;
    for (const Tile& tile : tiles_of_entry(i)) {
      division_->sum(gradients_.alias({tile.length}, tile.offset + tile.gradient_shift));
    }
  }
}

void ParameterArena::update(FlagsOnDevice& flags, const std::function<bool(std::size_t)>& flag_of) {
  bool changed = false;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const std::uint8_t flag = flag_of(i) ? 1 : 0;
    changed = changed || flag != flags.flags[i];
    flags.flags[i] = flag;
  }
  if (changed) copy_bytes(flags.on_device.raw(), device(), flags.flags.data(), Device{}, flags.flags.size());
}

const std::uint8_t* ParameterArena::has_grad() {
  update(has_grad_, [this](std::size_t entry) { return has_grad(entry); });
  return has_grad_.on_device.data<std::uint8_t>();
}

const std::uint8_t* ParameterArena::has_counted_grad() {
  if (!division_) return has_grad();
  update(has_counted_grad_, [this](std::size_t entry) { return has_grad(entry) && counts(entry); });
  return has_counted_grad_.on_device.data<std::uint8_t>();
}

void ParameterArena::bump_versions() const {
  check(values_are_current_,
        "arena: the f32 values of other ranks' slices are out of date, and copies may not be made of them: "
        "call gather_values() before values are changed");
  bump_versions_of_values();
}

void ParameterArena::bump_versions_of_values() const {
  for (const ArenaEntry& entry : entries_) entry.tensor->bump_version();
}

void ParameterArena::refresh_copies() const {
  for (const ArenaEntry& entry : entries_) in_dtype(*entry.tensor, compute_dtype());
}

void ParameterArena::bump_versions_of_values_and_copies() const {
  if (is_sharded() && low_precision_.defined()) values_are_current_ = false;
  bump_versions_of_values();
  for (const ArenaEntry& entry : entries_) {
    AutogradMeta& meta = *entry.tensor->autograd;
    if (!meta.low_precision.defined()) continue;
    meta.low_precision.bump_version();
    // By one as well: a copy that was out of date stays so, as a step leaves out parameters without a
    // gradient.
    ++meta.low_precision_version;
  }
}

}  // namespace ringtape
