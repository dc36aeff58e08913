#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include "core/error.h"
#include "core/memory.h"

namespace ringtape::fuzz {

/// Throws std::logic_error, which readers do not throw: it shows that the reader is wrong.
inline void expect(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

/// The text of the Error that `read` throws, or nothing. A malformed file must not make the reader run out of
/// memory, and an error is one line.
template <class Read>
std::optional<std::string> error_of(const Read& read) {
  try {
    read();
  } catch (const OutOfMemoryError&) {
    throw std::logic_error("a reader asked for more memory than there is");
  } catch (const Error& error) {
    const std::string text = error.what();
    expect(text.find('\n') == std::string::npos, "an error has more than one line");
    return text;
  }
  return std::nullopt;
}

}  // namespace ringtape::fuzz
