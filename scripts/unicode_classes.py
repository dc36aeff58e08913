"""Writes text/unicode_ranges.h: the code points that are letters, numbers and white space for GPT-2's tokenizer.

    pip install unicodedata2==16.0.0
    scripts/unicode_classes.py > text/unicode_ranges.h

unicodedata2 has the Unicode character database of that version. Letters are the general categories L*, numbers N*. White
space is the property White_Space, which unicodedata2 lacks: the separators Z* and the control characters below. It has not
changed since Unicode 6.3.
"""
import unicodedata2

VERSION = "16.0.0"
CONTROLS = {0x9, 0xA, 0xB, 0xC, 0xD, 0x85}
WIDTH = 110


def class_of(code_point):
    category = unicodedata2.category(chr(code_point))
    if code_point in CONTROLS or category[0] == "Z":
        return "space"
    return {"L": "letter", "N": "number"}.get(category[0])


def ranges():
    """Triples (first, last, class) in order."""
    found = []
    for code_point in range(0x110000):
        name = class_of(code_point)
        if name and found and found[-1][1] == code_point - 1 and found[-1][2] == name:
            found[-1][1] = code_point
        elif name:
            found.append([code_point, code_point, name])
    return found


def rows(items):
    line = "   "
    for item in items:
        if len(line) + 1 + len(item) > WIDTH:
            yield line
            line = "   "
        line += " " + item
    yield line


def main():
    assert unicodedata2.unidata_version == VERSION, f"found Unicode {unicodedata2.unidata_version}, expected {VERSION}"
    items = [f"{{0x{first:X}, 0x{last:X}, '{name[0].upper()}'}}," for first, last, name in ranges()]
    print(f"""\
// Written by scripts/unicode_classes.py from Unicode {VERSION}.
#pragma once

namespace ringtape {{

/// The code points first to last are of one kind.
struct ClassRange {{
  char32_t first, last;
  char kind;  // Letter, Number, Space
}};

// clang-format off
inline constexpr ClassRange kClassRanges[] = {{""")
    print("\n".join(rows(items)))
    print("""\
};
// clang-format on

}  // namespace ringtape""")


if __name__ == "__main__":
    main()
