#include "train/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "dist/rank_environment.h"

namespace ringtape {

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
  const auto filled = static_cast<std::size_t>(done * 20);
  const std::string accuracy =
      state.accuracy < 0 ? "" : fmt::format("  accuracy {:5.2f}%", state.accuracy * 100);
  console_.print("\r\033[Kepoch {}/{} [{}{}] step {}/{}  loss {:.4f}{}  {:.0f} samples/s  {}:{:02} left",
                 state.epoch, state.epochs, std::string(filled, '='), std::string(20 - filled, ' '),
                 state.step, total_steps_, state.loss, accuracy, state.samples_per_second, left / 60,
                 left % 60);
  std::fflush(stdout);
}

void Progress::line(const std::string& text) {
  console_.print("{}{}\n", is_terminal_ ? "\r\033[K" : "", text);
  std::fflush(stdout);
}

}  // namespace ringtape
