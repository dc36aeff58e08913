#pragma once

/// The state of a loss scaler: the factor of the loss, and how many updates in a row had no overflow.
struct Scaler {
  double scale;
  int good_updates;
};

constexpr int kGrowthInterval = 4;  ///< updates without an overflow after which the factor is doubled

/// Called after each backward; `overflow` says whether a gradient was infinite or NaN. Changes the state for
/// the next update. Returns whether the optimizer may take its step.
extern "C" bool update_scale(Scaler& scaler, bool overflow);
