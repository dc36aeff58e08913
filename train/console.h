#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <utility>

namespace ringtape {

/// The output of a run: standard output on one rank, none on the others. If standard output cannot be
/// written, as on a full disk, the text is lost and the run goes on; std::ferror(stdout) tells of it, and
/// CommandLine::run() ends with an error.
class Console {
 public:
  explicit Console(bool is_open) : is_open_(is_open) {}

  template <class... Args>
  void print(fmt::format_string<Args...> text, Args&&... args) const {
    if (!is_open_) return;
    const std::string formatted = fmt::format(text, std::forward<Args>(args)...);
    std::fwrite(formatted.data(), 1, formatted.size(), stdout);
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
