#pragma once

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/error.h"

/// The tests of the course's tasks: each loads what a learner has written and says what is wrong with it.
namespace ringtape::tasks {

/// A learner's file, compiled to a shared library.
class LearnersFile {
 public:
  /// Throws Error for a file that is not a shared library.
  explicit LearnersFile(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    check(handle_ != nullptr, "{}", handle_ == nullptr ? dlerror() : "");
  }
  /// The function of that name; `Function` is its type, from the task's task.h. Throws Error where the file
  /// has none.
  template <class Function>
  Function* function(const char* name) const {
    void* const found = dlsym(handle_, name);
    check(found != nullptr, "there is no function {} in the file any more", name);
    return reinterpret_cast<Function*>(found);
  }

 private:
  void* handle_;
};

/// A task: its test throws Error with what is wrong; its run puts the learner's code into a real training run
/// in place of the library's, prints what comes of it, and throws Error where that is not what the library
/// does.
struct Task {
  const char* name;
  void (*test)(const LearnersFile&);
  void (*run)(const LearnersFile&);
};

const std::vector<Task>& all_tasks();

/// Throws Error with this text.
template <class... Arguments>
[[noreturn]] void wrong(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw Error(fmt::format(text, std::forward<Arguments>(arguments)...));
}

/// True if the two differ by at most `tolerance` times the larger of |expected| and 1; false for NaN.
inline bool close(double found, double expected, double tolerance) {
  const double size = expected < 0 ? -expected : expected;
  const double difference = found < expected ? expected - found : found - expected;
  return difference <= tolerance * (size > 1 ? size : 1);
}

}  // namespace ringtape::tasks
