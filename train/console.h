#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <utility>

namespace ringtape {

/// The output of a run: standard output on one rank, none on the others.
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

/// A warning on standard error.
template <class... Args>
void warn(fmt::format_string<Args...> text, Args&&... args) {
  std::fflush(stdout);
  fmt::print(stderr, "warning: {}\n", fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace ringtape
