#include "apps/plan/bytes.h"

#include <optional>

#include "core/error.h"
#include "core/quote.h"
#include "io/parse.h"
#include "planner/numbers.h"

namespace ringtape::planner {

OptionValue option_value(Bytes& bytes) {
  return {"SIZE",
          [&bytes](const std::string& text) {
            const std::optional<std::uint64_t> number = parse_bytes(text);
            check(number.has_value(), "expected a whole number with a unit, such as 1500MB, found {}",
                  quote(text));
            bytes = {*number, text};
          },
          [&bytes] { return bytes.text; }};
}

std::int64_t bytes_of(const char* flag, const Bytes& given) {
  const std::uint64_t bytes = given.number;
  check(bytes >= 1 && bytes <= static_cast<std::uint64_t>(kMaxSize) << 10,
        "{} must be from 1 byte to {}, found {} bytes", flag, bytes_text(kMaxSize << 10), bytes);
  return static_cast<std::int64_t>(bytes);
}

}  // namespace ringtape::planner
