#include "text/tinyshakespeare.h"

#include "io/embed.h"

RINGTAPE_EMBED(ringtape_tinyshakespeare, RINGTAPE_TEXT_FOLDER "/tinyshakespeare/input.txt");

namespace ringtape {

std::string_view tinyshakespeare() {
  return {reinterpret_cast<const char*>(ringtape_tinyshakespeare_begin),
          reinterpret_cast<const char*>(ringtape_tinyshakespeare_end)};
}

}  // namespace ringtape
