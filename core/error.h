#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace ringtape {

/// Ringtape's exception type. Its text is one line that names the operation, what was found and what was
/// expected.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thrown when a device has no room for an allocation, so that a caller can retry with a smaller batch.
class OutOfMemoryError : public Error {
 public:
  using Error::Error;
};

/// Throws Error with a formatted text.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(fmt::format(text, std::forward<Args>(args)...));
}

/// Throws Error with a formatted text unless `condition` holds. The arguments are evaluated either way.
template <class... Args>
void check(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) throw Error(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace ringtape
