#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <utility>

namespace ringtape {

/// Where a run reports on itself: standard output on one rank, and nowhere on the others.
class Console {
 public:
  explicit Console(bool is_open) : is_open_(is_open) {}

  template <class... Args>
  void print(fmt::format_string<Args...> text, Args&&... args) const {
    if (is_open_) fmt::print(text, std::forward<Args>(args)...);
  }
  bool is_open() const { return is_open_; }

 private:
  bool is_open_;
};

/// A line on standard error that does not end the run.
template <class... Args>
void warn(fmt::format_string<Args...> text, Args&&... args) {
  std::fflush(stdout);
  fmt::print(stderr, "warning: {}\n", fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace ringtape
