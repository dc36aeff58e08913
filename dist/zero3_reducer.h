#pragma once

#include <memory>

#include "dist/unit_values.h"
#include "dist/zero2_reducer.h"

namespace ringtape {

/// ZeRO stage 3 (Rajbhandari et al., 2020): gradients as in stage 2, with a bucket for each unit, and values
/// that are sharded too (UnitValues). Once a unit's gradients are complete, its values are freed.
///
/// As every forward and backward gathers, all ranks must run the same forwards and backwards, inside
/// no_sync() too; an exception on one rank must end the run.
class Zero3Reducer : public Zero2Reducer {
 public:
  /// For an arena of stage 3. Forwards still gather its units after the reducer is destroyed. The arena and
  /// `used` must outlive the reducer.
  Zero3Reducer(ParameterArena& arena, std::shared_ptr<Communicator> comm, UsedParameters& used);

  void promise_equal_rounds(bool /*equal*/) override {}  // they are always equal
  void begin_round(int chunk) override;
  void end_round() override;

 private:
  void launch(std::size_t bucket) override;

  std::shared_ptr<UnitValues> values_;
  int chunk_ = 0;  // of the current round
};

}  // namespace ringtape
