#!/usr/bin/env python3
"""Compares every excerpt of code in the docs with its source.

Pages are README.md, CONTRIBUTING.md and all below docs/ and lessons/. Each of their ```cpp, ```cmake and ```html blocks has a
marker on the line before it:

    <!-- source: kernels/relu.cu -->             the lines are in that file, in this order and without a gap;
                                                 a line "..." stands for lines that are left out
    <!-- new: kernels/tanh.h -->                 a walk-through's new file, which the tree must not have
    <!-- insert: autograd/ops.h after "text" --> lines that a walk-through adds to a file, below the only line that
                                                 contains the text

Indentation common to all lines does not count.

    tests/docs/excerpts_test.py            compares
    tests/docs/excerpts_test.py --self     runs the tests of the comparison itself
"""
import pathlib
import re
import sys
import textwrap
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(cpp|cmake|html)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MARKER = re.compile(r'^<!-- (source|new|insert): (\S+?)(?: after "(.*)")? -->$')
LEFT_OUT = "..."


def pages(root):
    return [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md")),
            *sorted((root / "lessons").rglob("*.md"))]


def pieces(excerpt):
    """The runs of lines between the lines "..."."""
    found = [[]]
    for line in textwrap.dedent(excerpt).splitlines():
        if line.strip() == LEFT_OUT:
            found.append([])
        else:
            found[-1].append(line.rstrip())
    return [piece for piece in found if piece]


def find(piece, lines, start):
    """The index behind the piece in `lines[start:]`; None if the piece is not there."""
    for first in range(start, len(lines) - len(piece) + 1):
        window = lines[first:first + len(piece)]
        if textwrap.dedent("\n".join(window)) == textwrap.dedent("\n".join(piece)):
            return first + len(piece)
    return None


def stands_in(excerpt, source):
    """None, or the first line of the piece of the excerpt that the source lacks."""
    lines, end = [line.rstrip() for line in source.splitlines()], 0
    for piece in pieces(excerpt):
        end = find(piece, lines, end)
        if end is None:
            return piece[0].strip()
    return None


def failures_of(page, text, root):
    for block in FENCE.finditer(text):
        number = text.count("\n", 0, block.start())  # of the line before the fence, counted from 1
        where = f"{page}:{number + 1}"
        before = text.splitlines()[number - 1] if number else ""
        marker = MARKER.match(before)
        if not marker:
            yield f"{where}: expected a line '<!-- source: FILE -->' before the excerpt, found '{before}'"
            continue
        kind, name, anchor = marker.groups()
        file = root / name
        if kind == "new":
            if file.exists():
                yield f"{where}: {name} is there already: expected '<!-- source: {name} -->'"
            continue
        if not file.is_file():
            yield f"{where}: there is no file {name}"
        elif kind == "insert":
            if not anchor or sum(anchor in line for line in file.read_text().splitlines()) != 1:
                yield f"{where}: expected one line of {name} to hold '{anchor}'"
        else:
            missing = stands_in(block.group(2), file.read_text())
            if missing is not None:
                yield f"{where}: {name} does not hold these lines, which begin with '{missing}'"


def main():
    failures, excerpts = [], 0
    for page in pages(ROOT):
        text = page.read_text()
        excerpts += len(FENCE.findall(text))
        failures += failures_of(page.relative_to(ROOT), text, ROOT)
    for failure in failures:
        print(f"FAILED: {failure}")
    print(f"{excerpts - len(failures)} passed, {len(failures)} failed")
    return 1 if failures or not excerpts else 0


class ComparisonTest(unittest.TestCase):
    SOURCE = "int f() {\n  a();\n\n  b();\n  c();\n}\n"

    def test_what_stands_there(self):
        for excerpt in ("a();\n\nb();\n", "  a();\n\n  b();\n", "int f() {\n...\n  c();\n}\n", "a();\n...\nc();\n"):
            self.assertIsNone(stands_in(excerpt, self.SOURCE), excerpt)

    def test_what_does_not(self):
        for excerpt, missing in (("a();\nb();\n", "a();"), ("c();\n...\na();\n", "a();"), ("a();  // why\n", "a();  // why"),
                                 ("int f() {\na();\n", "int f() {")):
            self.assertEqual(stands_in(excerpt, self.SOURCE), missing)

    def test_markers(self):
        def failures(text):
            return list(failures_of("page.md", text, ROOT))

        block = "```cpp\n#pragma once\n```\n"
        self.assertEqual(failures("<!-- source: core/error.h -->\n" + block), [])
        self.assertEqual(failures("<!-- new: core/none.h -->\n" + block), [])
        self.assertEqual(failures('<!-- insert: core/error.h after "#pragma once" -->\n' + block), [])
        for text, reason in ((block, "expected a line"), ("text\n" + block, "found 'text'"),
                             ("<!-- source: core/none.h -->\n" + block, "no file core/none.h"),
                             ("<!-- source: CMakeLists.txt -->\n" + block, "begin with '#pragma once'"),
                             ("<!-- new: core/error.h -->\n" + block, "is there already"),
                             ('<!-- insert: core/error.h after "class" -->\n' + block, "expected one line")):
            self.assertEqual(len(failures(text)), 1, text)
            self.assertIn(reason, failures(text)[0])


if __name__ == "__main__":
    if sys.argv[1:] == ["--self"]:
        sys.argv.pop()
        unittest.main()
    sys.exit(main())
