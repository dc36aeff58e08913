#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dist/communicator.h"
#include "nn/arena.h"

namespace ringtape {

/// The values of ZeRO stage 3 (Rajbhandari et al., 2020, section 5.3; Zhao et al., "PyTorch FSDP: Experiences
/// on scaling fully sharded data parallel", 2023): a rank keeps its slice of every unit. A unit is
/// all-gathered when a forward of its module begins and freed when that ends; gathered again when backward
/// first reads it, and freed by end_of(). Without ArenaSharding::reshard_after_forward a forward that records
/// keeps it for backward. Where a unit is needed, the gather of its neighbour is started, so that it is under
/// way while the model computes with this one. The gathered values are the values that the model computes
/// with: 16-bit copies, or else f32. In a pipeline's stage a chunk takes the model's place.
///
/// All ranks have to run the same forwards and backwards.
class UnitValues {
 public:
  /// Connects the units of an arena of stage 3: gives every rank its slices of rank 0's values, and frees the
  /// rest. If that has been done already, the slices stay as they are. The arena and its model must outlive
  /// it.
  UnitValues(ParameterArena& arena, std::shared_ptr<Communicator> comm);
  ~UnitValues();
  UnitValues(const UnitValues&) = delete;
  UnitValues& operator=(const UnitValues&) = delete;

  /// Backward has computed all gradients of the unit: frees its values.
  void end_of(std::size_t unit);
  /// A backward of this chunk has ended: frees units that it read again after their gradients were complete,
  /// or whose gather it has started and not used.
  void end_of_backward(int chunk);

  /// In its scope the units of this thread's forwards are zeros, and nothing is gathered: for a forward that
  /// not all ranks run, of which only shapes are wanted.
  class [[nodiscard]] Zeros {
   public:
    Zeros();
    ~Zeros();
    Zeros(const Zeros&) = delete;
    Zeros& operator=(const Zeros&) = delete;
  };

 private:
  enum class Direction : std::uint8_t { forward, backward };
  /// `whole` is defined from the start of a gather until it is placed. A unit in memory without it has been
  /// placed, and is current if `version` is the parameters'. Neither: there is only the shard.
  struct Gather {
    Tensor whole;
    Work work;
    std::uint64_t version = 0;
  };

  void shard_values_of_first();
  void add_forward_hooks();
  void add_backward_hooks(std::size_t unit);
  void provide(std::size_t unit, Direction direction);
  std::optional<std::size_t> next(std::size_t unit, Direction direction) const;
  Tensor elements_for(std::size_t unit) const;
  void start_gather(std::size_t unit);
  void end_of_forward(std::size_t unit);
  bool is_in_memory(std::size_t unit) const;
  std::uint64_t version_of(std::size_t unit) const;

  ParameterArena& arena_;
  std::shared_ptr<Communicator> comm_;
  std::vector<Gather> gathers_;            // of each unit: until it is needed
  std::vector<std::uint8_t> in_backward_;  // of each unit: backward has needed it
};

}  // namespace ringtape
