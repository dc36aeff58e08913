#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "train/console.h"

namespace ringtape {

/// Shows the progress of training: on a terminal one line that is redrawn up to ten times a second, otherwise
/// (a pipe, a file) only the lines of line(). Under a launcher also only these lines: mpirun gives ranks a
/// terminal even if its own output is not one.
class Progress {
 public:
  explicit Progress(Console console);
  /// Training begins after step `first_step` of `total_steps`.
  void begin(std::int64_t first_step, std::int64_t total_steps);

  struct State {
    std::int64_t epoch, epochs;
    std::int64_t step;  ///< completed steps in total
    double loss;        ///< recent mean
    double accuracy;    ///< recent fraction of correct predictions, in [0, 1]; negative: not counted
    std::string rate;   ///< "1234 samples/s"
  };
  void update(const State& state);
  /// Prints a permanent line, which replaces the redrawn line.
  void line(const std::string& text);

 private:
  std::int64_t first_step_ = 0;
  std::int64_t total_steps_ = 0;
  Console console_;
  bool is_terminal_;
  std::chrono::steady_clock::time_point start_, last_drawn_;
};

}  // namespace ringtape
