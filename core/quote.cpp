#include "core/quote.h"

#include <fmt/format.h>

namespace ringtape {

std::string quote(std::string_view text) {
  constexpr std::size_t kMaxLength = 60;
  std::string result = "'";
  for (char c : text.substr(0, kMaxLength)) {
    if (c >= ' ' && c <= '~') {
      result += c;
    } else {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return result + (text.size() > kMaxLength ? "...'" : "'");
}

}  // namespace ringtape
