#include "nn/arena.h"

#include <algorithm>
#include <map>

#include "autograd/creation.h"
#include "autograd/low_precision.h"
#include "autograd/tape.h"
#include "core/ceil_div.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/stream.h"
#include "kernels/clip.h"
#include "kernels/elementwise.h"
#include "nn/parameter_shard.h"
#include "nn/parameter_units.h"
#include "nn/shard_range.h"

namespace ringtape {
namespace {

/// Elements from the beginning of a parameter to the next one. Tensor-parallel ranks all have room for the
/// largest part, so that their arenas have one layout, and the same slices of the parameters that all have.
std::int64_t room_of(const Tensor& parameter) {
  return round_up(largest_part(parameter), kTileAlignment);
}

Tensor zeros_of(MemoryCategory category, std::int64_t elements, Device device) {
  const MemoryScope scope(category);
  return zeros({elements}, DType::f32, device);
}

/// A tensor with its own storage, and so its own version count, whose elements are a range of `buffer`.
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
    : sharding_(sharding), written_(std::make_shared<ArenaGradients>()) {
  check(compute_dtype == DType::f32 || compute_dtype == DType::bf16 || compute_dtype == DType::f16,
        "parameter arena: a model computes in f32, bf16 or f16, not in {}", name_of(compute_dtype));
  check(sharding.zero_stage >= 0 && sharding.zero_stage <= 3,
        "parameter arena: ZeRO stage {}, expected 0 to 3", sharding.zero_stage);
  check(sharding.rank >= 0 && sharding.rank < sharding.world_size,
        "parameter arena: the shard of rank {} of {}, expected rank 0 to {}", sharding.rank,
        sharding.world_size, sharding.world_size - 1);
  std::vector<NamedParameter> parameters = model.named_parameters();
  check(!parameters.empty(), "parameter arena: the model has no parameters");
  std::reverse(parameters.begin(), parameters.end());
  check_parameters(parameters);
  const auto frozen = std::stable_partition(
      parameters.begin(), parameters.end(),
      [](const NamedParameter& parameter) { return parameter.tensor->requires_grad(); });
  const auto trainable = static_cast<std::size_t>(frozen - parameters.begin());
  std::map<const Tensor*, std::size_t> numbers;
  for (std::size_t i = 0; i < trainable; ++i) numbers[parameters[i].tensor] = i;
  const Device before = parameters.front().tensor->device();
  make_buckets(model, std::span(parameters).first(trainable));
  lay_out(parameters, trainable, device, compute_dtype);
  for (ArenaEntry& entry : entries_) entry.number = numbers.at(entry.tensor);
  // The CPU's cache keeps memory by size: the parameters' former blocks, together as large as the model,
  // would stay unused.
  if (before.is_cpu()) empty_cache(before);
  make_tiles(device);
  norm_result_ = zeros({static_cast<std::int64_t>(sizeof(GradientNorm) / sizeof(float))}, DType::f32, device);
}

void ParameterArena::check_parameters(const std::vector<NamedParameter>& parameters) {
  for (const NamedParameter& parameter : parameters) {
    check(parameter.tensor->dtype() == DType::f32, "parameter arena: {} must be f32, found {}",
          parameter.name, describe(*parameter.tensor));
    check(parameter.tensor->autograd == nullptr || parameter.tensor->autograd->arena.expired(),
          "parameter arena: {} is in another arena, whose optimizer would not move it any more: expected one "
          "arena for a parameter",
          parameter.name);
    parameter_elements_ += parameter.tensor->elements();
  }
}

void ParameterArena::make_buckets(Module& model, std::span<NamedParameter> trainable) {
  if (has_all_values()) {
    runs_ = runs_of_stages(trainable, sharding_.stages);
  } else {
    for (const UnitPlace& unit : order_by_units(model, trainable, sharding_.stages)) {
      runs_.push_back(unit.entries);
      units_.push_back({.module = unit.module,
                        .is_of_all = unit.is_of_all,
                        .chunk = unit.chunk,
                        .values = {},
                        .low_precision = {}});
    }
  }
  if (!is_sharded()) return;
  std::vector<std::int64_t> sizes;
  for (const NamedParameter& parameter : trainable) sizes.push_back(room_of(*parameter.tensor));
  buckets_ =
      arena_layout(sizes, runs_, sharding_.zero_stage, sharding_.world_size, sharding_.bucket_sizes).buckets;
  slices_ = slices_of_rank(buckets_, sharding_.rank, sharding_.world_size);
}

std::vector<std::int64_t> ParameterArena::offsets_of(const std::vector<NamedParameter>& parameters) const {
  std::vector<std::int64_t> offsets = {0};
  auto bucket = buckets_.begin();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    std::int64_t end = offsets.back() + room_of(*parameters[i].tensor);
    if (bucket != buckets_.end() && i + 1 == bucket->first_entry + bucket->entries) {
      end = bucket->offset + bucket->elements;
      ++bucket;
    }
    offsets.push_back(end);
  }
  return offsets;
}

/// Memory for elements 0 to `total`: one buffer, or in stage 3 one for each unit, in host memory until a
/// DataParallel keeps a slice of it, and one for the frozen parameters.
std::vector<ParameterArena::Buffer> ParameterArena::make_buffers(std::int64_t total, Device device,
                                                                 DType compute_dtype) const {
  std::vector<std::int64_t> ends;
  if (!has_all_values()) {
    for (const GradientBucket& bucket : buckets_) ends.push_back(bucket.offset + bucket.elements);
  }
  if (ends.empty() || ends.back() < total) ends.push_back(total);
  std::vector<Buffer> buffers;
  const MemoryScope scope(MemoryCategory::parameters);
  for (const std::int64_t end : ends) {
    const std::int64_t first = buffers.empty() ? 0 : buffers.back().end;
    const bool is_unit = !has_all_values() && buffers.size() < buckets_.size();
    const Device place = is_unit ? Device() : device;
    buffers.push_back({.first = first,
                       .end = end,
                       .values = zeros({end - first}, DType::f32, place),
                       .low_precision = compute_dtype == DType::f32
                                            ? Tensor()
                                            : empty({end - first}, compute_dtype, place)});
  }
  return buffers;
}

void ParameterArena::lay_out(const std::vector<NamedParameter>& parameters, std::size_t trainable,
                             Device device, DType compute_dtype) {
  const std::vector<std::int64_t> offsets = offsets_of(parameters);
  size_ = offsets[trainable];
  const std::vector<Buffer> buffers = make_buffers(offsets.back(), device, compute_dtype);
  make_flat_tensors(buffers, device, compute_dtype);
  auto buffer = buffers.begin();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    // A parameter without elements may begin at the end of the last buffer.
    while (offsets[i] >= buffer->end && buffer + 1 != buffers.end()) ++buffer;
    const std::int64_t offset = offsets[i] - buffer->first;
    Tensor& tensor = *parameters[i].tensor;
    Tensor moved = part_of(buffer->values, offset, tensor.shape());
    moved.copy_from(tensor);
    moved.autograd = tensor.autograd;
    moved.autograd->arena = written_;
    moved.autograd->is_frozen_in_arena = !tensor.requires_grad();
    moved.autograd->name = parameters[i].name;
    if (tensor.requires_grad()) {
      moved.autograd->grad =
          sharding_.zero_stage >= 2 ? Tensor() : part_of(gradients_, offsets[i], tensor.shape());
      moved.autograd->grad_written = false;
      entries_.push_back(
          {.name = parameters[i].name,
           .tensor = &tensor,
           .meta = tensor.autograd,
           .offset = offsets[i],
           .elements = tensor.elements(),
           .chunk = sharding_.stages == nullptr ? 0 : sharding_.stages->chunk_of(parameters[i].name)});
      trained_elements_ += tensor.elements();
    }
    moved.autograd->low_precision =
        buffer->low_precision.defined() ? part_of(buffer->low_precision, offset, tensor.shape()) : Tensor();
    moved.autograd->low_precision_version = moved.storage()->version;
    tensor = moved;
  }
  for (const Buffer& each : buffers) {
    if (!each.low_precision.defined()) continue;
    cast(Stream::current(each.values.device()), DType::f32, each.values.raw(), compute_dtype,
         each.low_precision.raw(), each.values.elements(), false);
  }
}

/// values(), gradients(), low_precision(), and in stage 3 the units.
void ParameterArena::make_flat_tensors(const std::vector<Buffer>& buffers, Device device,
                                       DType compute_dtype) {
  gradients_ = zeros_of(MemoryCategory::gradients, sharding_.zero_stage >= 2 ? shard_size() : size_, device);
  if (has_all_values()) {
    values_ = buffers[0].values.alias({size_});
    if (buffers[0].low_precision.defined()) low_precision_ = buffers[0].low_precision.alias({size_});
    return;
  }
  values_ = zeros_of(MemoryCategory::parameters, shard_size(), device);
  const MemoryScope scope(MemoryCategory::parameters);
  if (compute_dtype != DType::f32) low_precision_ = empty({shard_size()}, compute_dtype, device);
  for (std::size_t i = 0; i < units_.size(); ++i) {
    units_[i].values = buffers[i].values;
    units_[i].low_precision = buffers[i].low_precision;
  }
}

void ParameterArena::set_unit(std::size_t unit, const Tensor& values, const Tensor& low_precision) {
  units_[unit].values = values;
  units_[unit].low_precision = low_precision;
  const GradientBucket& bucket = buckets_[unit];
  const auto place = [&](const Tensor& parameter, const Tensor& elements, std::int64_t offset) {
    Storage& storage = *parameter.storage();
    storage.device = device();
    storage.data = elements.defined()
                       ? std::shared_ptr<void>(elements.storage()->data, elements.alias({1}, offset).raw())
                       : nullptr;
  };
  for (std::size_t i = bucket.first_entry; i < bucket.first_entry + bucket.entries; ++i) {
    const ArenaEntry& entry = entries_[i];
    const Tensor& copy = entry.meta->low_precision;
    place(*entry.tensor, values, entry.offset - bucket.offset);
    if (copy.defined()) place(copy, low_precision, entry.offset - bucket.offset);
  }
}

void ParameterArena::mark_low_precision_current() const {
  for (const ArenaEntry& entry : entries_) {
    entry.meta->low_precision_version = entry.tensor->storage()->version;
  }
}

std::int64_t ParameterArena::max_unit_elements() const {
  struct OfChunk {
    std::int64_t of_all = 0;
    std::vector<GradientBucket> others;
  };
  std::map<int, OfChunk> chunks;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    OfChunk& chunk = chunks[units_[i].chunk];
    if (units_[i].is_of_all) {
      chunk.of_all += buckets_[i].elements;
    } else {
      chunk.others.push_back(buckets_[i]);
    }
  }
  std::int64_t most = 0;
  for (const auto& [number, chunk] : chunks)
    most = std::max(most, chunk.of_all + max_of_neighbours(chunk.others));
  return most;
}

Tensor ParameterArena::gradient_of_single(const Tensor& parameter) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const ArenaEntry& entry) { return entry.tensor == &parameter; });
  const auto entry = static_cast<std::size_t>(found - entries_.begin());
  if (!has_grad(entry)) return {};
  if (!is_sharded()) return parameter.grad();
  const auto bucket = std::find_if(buckets_.begin(), buckets_.end(), [&](const GradientBucket& each) {
    return each.first_entry == entry && each.entries == 1;
  });
  check(bucket != buckets_.end(),
        "parameter arena: {} has no bucket of its own, expected an arena that knows the stages",
        entries_[entry].name);
  const ShardSlice& slice = slices_[static_cast<std::size_t>(bucket - buckets_.begin())];
  return gradients_.alias({slice.elements}, sharding_.zero_stage >= 2 ? slice.in_shard : slice.offset);
}

std::vector<Tile> ParameterArena::tiles_of_entry(std::size_t entry) const {
  const std::int64_t offset = entries_[entry].offset, elements = entries_[entry].elements;
  auto [first, end, shift] = is_sharded() ? range_in_shard(buckets_, slices_, entry, offset, elements)
                                          : ShardRange{offset, offset + elements, 0};
  // In stage 3 the values are in a shard too, at the offsets of the state.
  const std::int64_t value_shift = has_all_values() ? 0 : shift;
  std::vector<Tile> tiles;
  for (; first < end; first += kTileElements) {
    tiles.push_back({.offset = first + value_shift,
                     .length = static_cast<std::int32_t>(std::min<std::int64_t>(kTileElements, end - first)),
                     .parameter = static_cast<std::int32_t>(entry),
                     .gradient_shift = sharding_.zero_stage >= 2 ? shift - value_shift : 0,
                     .state_shift = shift - value_shift});
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
  for (const ArenaEntry& entry : entries_) meta_of(entry).grad_written = false;
  written_->are_scaled = false;
  set_clip_factor(nullptr);
  skip_ = nullptr;
  ++zero_grads_;
}

void ParameterArena::check_gradients() const {
  check(!gradients_are_final() || *final_contributions_ == written_->contributions,
        "optimizer: a backward() has added to the gradients since clip_grad_norm() measured them: expected "
        "clip_grad_norm() after the last backward()");
  check(!written_->are_scaled || written_->loss_scale != nullptr,
        "optimizer: the gradients are scaled by a LossScaler that is gone: expected it to live until step()");
}

AutogradMeta& ParameterArena::meta_of(const ArenaEntry& entry) const {
  check(entry.tensor->autograd == entry.meta,
        "parameter arena: another tensor was assigned to {} after the arena was made, which would not be "
        "trained: expected copy_from()",
        entry.name);
  return *entry.meta;
}

bool ParameterArena::has_grad(std::size_t entry) const {
  const AutogradMeta& meta = meta_of(entries_[entry]);
  return meta.grad_written && meta.requires_grad;
}

bool ParameterArena::counts(std::size_t entry) const {
  return !division_ || division_->rank == 0 || entries_[entry].meta->shard != nullptr;
}

void ParameterArena::sum_parts_of_gradients() const {
  if (!division_ || !division_->gradients_are_parts) return;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].meta->shard != nullptr || !has_grad(i)) continue;
    const std::vector<Tile> tiles = tiles_of_entry(i);  // one after another
    if (tiles.empty()) continue;
    const std::int64_t length = tiles.back().offset + tiles.back().length - tiles.front().offset;
    division_->sum(gradients_.alias({length}, tiles.front().offset + tiles.front().gradient_shift));
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
  if (!division_ && !stages_) return has_grad();
  update(has_counted_grad_, [this](std::size_t entry) {
    const auto is_of_another = [&](const ModelStages::TiedParameter& copy) {
      return copy.name == entries_[entry].name && !copy.is_counted;
    };
    const bool is_copy =
        stages_ && std::any_of(stages_->copies.begin(), stages_->copies.end(), is_of_another);
    return has_grad(entry) && counts(entry) && !is_copy;
  });
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

void ParameterArena::refresh_low_precision() const {
  for (const ArenaEntry& entry : entries_) in_dtype(*entry.tensor, compute_dtype());
}

void ParameterArena::bump_versions_with_low_precision() const {
  if (is_sharded() && has_all_values() && low_precision_.defined()) values_are_current_ = false;
  bump_versions_of_values();
  for (const ArenaEntry& entry : entries_) {
    AutogradMeta& meta = *entry.meta;
    if (!meta.low_precision.defined()) continue;
    meta.low_precision.bump_version();
    // Also by one: a copy that was out of date stays out of date, since a step skips parameters without a
    // gradient.
    ++meta.low_precision_version;
  }
}

}  // namespace ringtape
