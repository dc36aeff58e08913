#include "dist/unit_values.h"

#include <map>
#include <utility>

#include "autograd/tape.h"
#include "core/memory.h"
#include "core/stream.h"
#include "kernels/elementwise.h"

namespace ringtape {
namespace {

thread_local bool gives_zeros = false;

}  // namespace

UnitValues::Zeros::Zeros() {
  gives_zeros = true;
}
UnitValues::Zeros::~Zeros() {
  gives_zeros = false;
}

UnitValues::UnitValues(ParameterArena& arena, std::shared_ptr<Communicator> comm)
    : arena_(arena),
      comm_(std::move(comm)),
      gathers_(arena.units().size()),
      in_backward_(arena.units().size(), 0) {
  if (!arena.units().empty() && arena.units()[0].values.defined()) shard_values_of_first();
  add_forward_hooks();
  for (std::size_t unit = 0; unit < arena.units().size(); ++unit) add_backward_hooks(unit);
}

UnitValues::~UnitValues() {
  for (const ParameterUnit& unit : arena_.units()) unit.module->set_forward_hooks({});
  for (const ArenaEntry& entry : arena_.entries()) entry.meta->fetch = nullptr;
}

void UnitValues::shard_values_of_first() {
  for (std::size_t unit = 0; unit < arena_.units().size(); ++unit) {
    const ShardSlice& slice = arena_.slices()[unit];
    const MemoryScope scope(MemoryCategory::parameters);
    const Tensor whole = copy_to(arena_.units()[unit].values, arena_.device());
    comm_->broadcast(whole, 0).wait();
    Tensor own = arena_.values().alias({slice.elements}, slice.in_shard);
    own.copy_from(whole.alias({slice.elements}, slice.offset - arena_.buckets()[unit].offset));
    arena_.set_unit(unit, {}, {});
  }
  arena_.bump_versions();
  const Tensor& low_precision = arena_.low_precision();
  if (!low_precision.defined()) return;
  cast(Stream::current(arena_.device()), DType::f32, arena_.values().raw(), low_precision.dtype(),
       low_precision.raw(), low_precision.elements(), false);
  arena_.mark_low_precision_current();
}

void UnitValues::add_forward_hooks() {
  // Tied weights are a unit of their own, of the same module.
  std::map<Module*, std::vector<std::size_t>> units;
  for (std::size_t unit = 0; unit < arena_.units().size(); ++unit)
    units[arena_.units()[unit].module].push_back(unit);
  for (const auto& [module, of_module] : units) {
    module->set_forward_hooks({.before =
                                   [this, of_module = of_module] {
                                     for (const std::size_t unit : of_module) start_gather(unit);
                                     for (const std::size_t unit : of_module)
                                       provide(unit, Direction::forward);
                                   },
                               .after =
                                   [this, of_module = of_module] {
                                     for (const std::size_t unit : of_module) end_of_forward(unit);
                                   }});
  }
}

void UnitValues::add_backward_hooks(std::size_t unit) {
  const GradientBucket& bucket = arena_.buckets()[unit];
  for (std::size_t i = bucket.first_entry; i < bucket.first_entry + bucket.entries; ++i) {
    arena_.entries()[i].meta->fetch = [this, unit] {
      in_backward_[unit] = 1;
      provide(unit, Direction::backward);
    };
  }
}

void UnitValues::provide(std::size_t unit, Direction direction) {
  const bool is_current = !gathers_[unit].whole.defined() && gathers_[unit].version == version_of(unit);
  if (is_in_memory(unit) && is_current) return;
  start_gather(unit);
  Gather own = gathers_[unit];
  gathers_[unit] = {{}, {}, own.version};
  if (const auto neighbour = next(unit, direction)) start_gather(*neighbour);
  own.work.wait();
  if (gives_zeros) {
    own.whole = elements_for(unit);
    fill(Stream::current(arena_.device()), own.whole.dtype(), own.whole.raw(), own.whole.elements(), 0.0);
  }
  const bool in_16_bits = arena_.low_precision().defined();
  arena_.set_unit(unit, in_16_bits ? Tensor() : own.whole, in_16_bits ? own.whole : Tensor());
}

/// The unit that is needed after this one, if modules run in the order of registration. Units are in the
/// reverse order. Units of the whole model or chunk come last, but are needed first, in forward and in
/// backward. If a model runs in another order, a gather is started too early, and its unit stays in memory
/// until it is needed.
std::optional<std::size_t> UnitValues::next(std::size_t unit, Direction direction) const {
  const std::vector<ParameterUnit>& units = arena_.units();
  const auto follows = [&](std::size_t other) {
    return !units[other].is_of_all && units[other].chunk == units[unit].chunk;
  };
  if (direction == Direction::forward) {
    for (std::size_t other = unit; other-- > 0;) {
      if (follows(other)) return other;
    }
    return std::nullopt;
  }
  for (std::size_t other = units[unit].is_of_all ? 0 : unit + 1; other < units.size(); ++other) {
    if (follows(other)) return other;
  }
  return std::nullopt;
}

/// Memory for a unit in the dtype that the model computes with.
Tensor UnitValues::elements_for(std::size_t unit) const {
  const Tensor& shard = arena_.low_precision().defined() ? arena_.low_precision() : arena_.values();
  const MemoryScope scope(MemoryCategory::parameters);
  return empty({arena_.buckets()[unit].elements}, shard.dtype(), arena_.device());
}

void UnitValues::start_gather(std::size_t unit) {
  Gather& gather = gathers_[unit];
  const bool is_there = is_in_memory(unit) || gather.whole.defined();
  if (gives_zeros || (is_there && gather.version == version_of(unit))) return;
  const ShardSlice& slice = arena_.slices()[unit];
  const Tensor& shard = arena_.low_precision().defined() ? arena_.low_precision() : arena_.values();
  gather.whole = elements_for(unit);
  gather.work = comm_->all_gather(shard.alias({slice.elements}, slice.in_shard), gather.whole);
  gather.version = version_of(unit);
}

bool UnitValues::is_in_memory(std::size_t unit) const {
  const ParameterUnit& held = arena_.units()[unit];
  return held.values.defined() || held.low_precision.defined();
}

/// The version of the unit's first parameter: a change of the values changes the versions of all parameters.
std::uint64_t UnitValues::version_of(std::size_t unit) const {
  return arena_.entries()[arena_.buckets()[unit].first_entry].tensor->storage()->version;
}

/// A forward within backward, of a recomputed segment, keeps the unit for the segment's backward.
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

void UnitValues::end_of_backward(int chunk) {
  for (std::size_t unit = 0; unit < in_backward_.size(); ++unit) {
    if (arena_.units()[unit].chunk == chunk) end_of(unit);
  }
}

}  // namespace ringtape
