#pragma once

#include <fmt/format.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

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

namespace detail {

/// NaN without its sign, which means nothing; any other value as it is.
template <class T>
decltype(auto) without_sign_of_nan(const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    return value != value ? std::numeric_limits<T>::quiet_NaN() : value;
  } else {
    return (value);
  }
}

template <class... Args>
std::string error_text(fmt::string_view text, const Args&... args) {
  return fmt::vformat(text, fmt::make_format_args(args...));
}

}  // namespace detail

/// Throws Error with a formatted text.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(detail::error_text(text, detail::without_sign_of_nan(args)...));
}

/// Throws Error with a formatted text unless `condition` holds. The arguments are evaluated either way.
template <class... Args>
void check(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) throw Error(detail::error_text(text, detail::without_sign_of_nan(args)...));
}

}  // namespace ringtape
