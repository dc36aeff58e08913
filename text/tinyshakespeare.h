#pragma once

#include <string_view>

namespace ringtape {

/// 1,115,394 characters of Shakespeare's plays, the usual text for small language models:
/// text/tinyshakespeare. It is part of the program. Programs that use this header link
/// ringtape::ringtape_gpt.
std::string_view tinyshakespeare();

}  // namespace ringtape
