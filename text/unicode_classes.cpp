#include "text/unicode_classes.h"

#include <algorithm>
#include <iterator>

#include "text/unicode_ranges.h"

namespace ringtape {

CharacterClass class_of(char32_t code_point) {
  const auto* const range =
      std::lower_bound(std::begin(kClassRanges), std::end(kClassRanges), code_point,
                       [](const ClassRange& candidate, char32_t value) { return candidate.last < value; });
  if (range == std::end(kClassRanges) || range->first > code_point) return CharacterClass::other;
  if (range->kind == 'L') return CharacterClass::letter;
  return range->kind == 'N' ? CharacterClass::number : CharacterClass::space;
}

}  // namespace ringtape
