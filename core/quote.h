#pragma once

#include <string>
#include <string_view>

namespace ringtape {

/// Text that came from a file or a user, fit for a one-line error: in single quotes, bytes outside printable
/// ASCII as \xNN, shortened after 60 bytes.
std::string quote(std::string_view text);

}  // namespace ringtape
