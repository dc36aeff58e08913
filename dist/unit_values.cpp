#include "dist/unit_values.h"

#include <utility>

#include "autograd/tape.h"
#include "core/memory.h"
#include "core/stream.h"
#include "kernels/elementwise.h"

namespace ringtape {

UnitValues::UnitValues(ParameterArena& arena, std::shared_ptr<Communicator> comm)
    : arena_(arena),
      comm_(std::move(comm)),
      gathers_(arena.units().size()),
      in_backward_(arena.units().size(), 0) {
  if (!arena.units().empty() && arena.units()[0].values.defined()) shard_values_of_first();
  for (std::size_t unit = 0; unit < arena.units().size(); ++unit) add_hooks(unit);
}

UnitValues::~UnitValues() {
  for (const ParameterUnit& unit : arena_.units()) unit.module->set_forward_hooks({});
  for (const ArenaEntry& entry : arena_.entries()) entry.tensor->autograd->fetch = nullptr;
}

void UnitValues::shard_values_of_first() {
  for (std::size_t unit = 0; unit < arena_.units().size(); ++unit) {
    const ShardSlice& slice = arena_.slices()[unit];
    const Tensor& whole = arena_.units()[unit].values;
    comm_->broadcast(whole, 0).wait();
    Tensor own = arena_.values().alias({slice.elements}, slice.in_shard);
    own.copy_from(whole.alias({slice.elements}, slice.offset - arena_.buckets()[unit].offset));
    arena_.set_unit(unit, {}, {});
  }
  arena_.bump_versions();
  const Tensor& copies = arena_.low_precision();
  if (!copies.defined()) return;
  cast(Stream::current(arena_.device()), DType::f32, arena_.values().raw(), copies.dtype(), copies.raw(),
       copies.elements(), false);
  arena_.mark_copies_current();
}

void UnitValues::add_hooks(std::size_t unit) {
  arena_.units()[unit].module->set_forward_hooks(
      {.before = [this, unit] { provide(unit, Direction::forward); },
       .after = [this, unit] { end_of_forward(unit); }});
  const GradientBucket& bucket = arena_.buckets()[unit];
  for (std::size_t i = bucket.first_entry; i < bucket.first_entry + bucket.entries; ++i) {
    arena_.entries()[i].tensor->autograd->fetch = [this, unit] {
      in_backward_[unit] = 1;
      provide(unit, Direction::backward);
    };
  }
}

void UnitValues::provide(std::size_t unit, Direction direction) {
  if (is_in_memory(unit) && gathers_[unit].version == version_of(unit)) return;
  start_gather(unit);
  const Gather own = gathers_[unit];
  gathers_[unit] = {{}, {}, own.version};
  if (const auto neighbour = next(unit, direction)) start_gather(*neighbour);
  own.work.wait();
  const bool in_16_bits = arena_.low_precision().defined();
  arena_.set_unit(unit, in_16_bits ? Tensor() : own.whole, in_16_bits ? own.whole : Tensor());
}

/// The unit that is needed after this one, if modules run in the order of registration: units are in the
/// reverse order, and the model's own, the last, is needed through the whole forward and backward. Where a
/// model runs in another order a gather is started too early, and its unit stays until it is needed.
std::optional<std::size_t> UnitValues::next(std::size_t unit, Direction direction) const {
  const std::size_t units = arena_.units().size();
  const bool is_own = arena_.units()[unit].module == &arena_.model();
  if (direction == Direction::forward) return unit == 0 ? std::nullopt : std::optional(unit - 1);
  const std::size_t following = is_own ? 0 : unit + 1;
  const bool is_last = following == units || arena_.units()[following].module == &arena_.model();
  return is_last ? std::nullopt : std::optional(following);
}

void UnitValues::start_gather(std::size_t unit) {
  Gather& gather = gathers_[unit];
  const bool is_there = is_in_memory(unit) || gather.whole.defined();
  if (is_there && gather.version == version_of(unit)) return;
  const ShardSlice& slice = arena_.slices()[unit];
  const Tensor& shard = arena_.low_precision().defined() ? arena_.low_precision() : arena_.values();
  const MemoryScope scope(MemoryCategory::parameters);
  gather.whole = empty({arena_.buckets()[unit].elements}, shard.dtype(), arena_.device());
  gather.work = comm_->all_gather(shard.alias({slice.elements}, slice.in_shard), gather.whole);
  gather.version = version_of(unit);
}

bool UnitValues::is_in_memory(std::size_t unit) const {
  const ParameterUnit& held = arena_.units()[unit];
  return held.values.defined() || held.copies.defined();
}

/// Of the unit's first parameter; whoever changes parameters changes the version of all.
std::uint64_t UnitValues::version_of(std::size_t unit) const {
  return arena_.entries()[arena_.buckets()[unit].first_entry].tensor->storage()->version;
}

/// A forward within backward, of a recomputed segment, is followed by its backward.
void UnitValues::end_of_forward(std::size_t unit) {
  const bool is_kept = !arena_.sharding().reshard_after_forward && Tape::is_recording();
  if (in_backward_[unit] == 0 && !is_kept) arena_.set_unit(unit, {}, {});
}

void UnitValues::end_of(std::size_t unit) {
  in_backward_[unit] = 0;
  gathers_[unit].work.wait();  // one that was not needed reads the shard, which a step may now change
  gathers_[unit] = {};
  arena_.set_unit(unit, {}, {});
}

void UnitValues::end_of_backward() {
  for (std::size_t unit = 0; unit < in_backward_.size(); ++unit) end_of(unit);
}

}  // namespace ringtape
