#include "train/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "dist/rank_environment.h"
#include "plot/terminal.h"

namespace ringtape {
namespace {

/// Epoch, a bar that fills the remaining width, and figures: at most `columns` characters.
std::string progress_line(const std::string& epoch, const std::string& figures, double done, int columns) {
  const int room = columns - static_cast<int>(epoch.size() + figures.size()) - 3;
  std::string bar;
  if (room > 0) {
    const auto width = static_cast<std::size_t>(std::min(room, 20));
    const auto filled = static_cast<std::size_t>(done * static_cast<double>(width));
    bar = "[" + std::string(filled, '=') + std::string(width - filled, ' ') + "] ";
  }
  return (epoch + bar + figures).substr(0, static_cast<std::size_t>(columns));
}

}  // namespace

using Clock = std::chrono::steady_clock;

Progress::Progress(Console console)
    : console_(console),
      is_terminal_(console.is_open() && isatty(STDOUT_FILENO) == 1 &&
                   detect_rank_environment(process_environment()).launcher == Launcher::none) {}

void Progress::begin(std::int64_t first_step, std::int64_t total_steps) {
  first_step_ = first_step;
  total_steps_ = total_steps;
  start_ = Clock::now();
}

void Progress::update(const State& state) {
  const Clock::time_point now = Clock::now();
  if (!is_terminal_ || now - last_drawn_ < std::chrono::milliseconds(100)) return;
  last_drawn_ = now;
  const double done = static_cast<double>(state.step) / static_cast<double>(total_steps_);
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const auto steps_left = static_cast<double>(total_steps_ - state.step);
  const auto left =
      static_cast<long>(elapsed * steps_left / static_cast<double>(state.step - first_step_) + 0.5);
  const std::string accuracy =
      state.accuracy < 0 ? "" : fmt::format("  accuracy {:5.2f}%", state.accuracy * 100);
  const std::string epoch = fmt::format("epoch {}/{} ", state.epoch, state.epochs);
  const std::string figures =
      fmt::format("step {}/{}  loss {:.4f}{}  {}  {}:{:02} left", state.step, total_steps_, state.loss,
                  accuracy, state.rate, left / 60, left % 60);
  console_.print("\r\033[K{}", progress_line(epoch, figures, done, standard_output().columns - 1));
  std::fflush(stdout);
}

void Progress::line(const std::string& text) {
  console_.print("{}{}\n", is_terminal_ ? "\r\033[K" : "", text);
  std::fflush(stdout);
}

}  // namespace ringtape
