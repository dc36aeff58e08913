#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dist/communicator.h"
#include "nn/arena.h"

namespace ringtape {

/// The parameters' values in ZeRO stage 3 (Rajbhandari et al., 2020, section 5.3; Zhao et al., "PyTorch FSDP:
/// Experiences on scaling fully sharded data parallel", 2023): a rank keeps its slice of every unit. A unit
/// is all-gathered when a forward of its module begins, and freed when that forward ends; it is gathered
/// again when backward first reads it, and freed by end_of(). Without ArenaSharding::reshard_after_forward, a
/// forward that records on the tape keeps the unit for backward. When a unit is needed, the gather of the
/// next one is started, so that it is in flight while the model computes with this unit. What is gathered are
/// the values that the model computes with: the 16-bit copies if there are any, else f32. In a pipeline's
/// stage a chunk takes the model's place.
///
/// All ranks must run the same forwards and backwards.
class UnitValues {
 public:
  /// For an arena of stage 3: gives every rank its slices of rank 0's values, and frees the rest. If an
  /// earlier UnitValues has done that, the slices stay as they are. The arena and its model must outlive this
  /// object.
  UnitValues(ParameterArena& arena, std::shared_ptr<Communicator> comm);
  ~UnitValues();
  UnitValues(const UnitValues&) = delete;
  UnitValues& operator=(const UnitValues&) = delete;

  /// Backward has computed all gradients of the unit: frees its values.
  void end_of(std::size_t unit);
  /// A backward of this chunk has ended: frees units that it read again after their gradients were complete,
  /// and units whose gather it started but did not use.
  void end_of_backward(int chunk);

  /// A scope in which this thread's forwards compute with zeros, and nothing is gathered: for a forward that
  /// only infers shapes, and that not all ranks run.
  class [[nodiscard]] Zeros {
   public:
    Zeros();
    ~Zeros();
    Zeros(const Zeros&) = delete;
    Zeros& operator=(const Zeros&) = delete;
  };

 private:
  enum class Direction : std::uint8_t { forward, backward };
  /// `whole` is defined from the start of a gather until it becomes the unit's memory. A unit that is in
  /// memory and has no `whole` is current if `version` is the parameters' version. A unit with neither is
  /// only sharded.
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
  std::vector<Gather> gathers_;            // of each unit
  std::vector<std::uint8_t> in_backward_;  // of each unit: the running backward has read it
};

}  // namespace ringtape
