#pragma once

#include <string>
#include <string_view>

namespace ringtape {

/// Formats text from a file or a user for a one-line error: in single quotes, bytes outside printable ASCII
/// as \xNN, shortened after 60 bytes.
std::string quote(std::string_view text);

}  // namespace ringtape
