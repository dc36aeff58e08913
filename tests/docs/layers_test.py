"""Checks the order of the folders: a file includes only from its own folder and from the folders below it in README.md's table.
Sub-folders are not in the table: no folder may include from itself through other folders.

    tests/docs/layers_test.py            run the test
    tests/docs/layers_test.py --print    print which folders each folder includes from
"""
import re
import subprocess
import sys
import unittest
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
# The parts of kernels/, highest first. Files directly in kernels/ are the library's kernels.
PARTS_OF_KERNELS = ["kernels/ladders", "kernels/analysis", "kernels", "kernels/common", "kernels/simt"]
INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.MULTILINE)


def layers(readme):
    """The folders of README.md's table, highest first."""
    return re.findall(r"^\| `([a-z_]+)/` \|", readme, re.MULTILINE)


def part_of(path, parts):
    """The longest of `parts` that the path lies in, or None."""
    return max((part for part in parts if path.startswith(part + "/")), key=len, default=None)


def upward_includes(sources, parts):
    """Pairs (file, included file) that go against the order; `sources` are texts by path."""
    height = {part: -number for number, part in enumerate(parts)}
    wrong = []
    for path, text in sources.items():
        own = part_of(path, parts)
        for included in INCLUDE.findall(text):
            other = part_of(included, parts)
            if own and other and height[other] > height[own]:
                wrong.append((path, included))
    return wrong


def circles(sources):
    """The folders, at any depth, that include from themselves through other folders, sorted."""
    uses = {}
    for path, text in sources.items():
        for included in INCLUDE.findall(text):
            own, other = str(PurePosixPath(path).parent), str(PurePosixPath(included).parent)
            if own != other and included in sources:
                uses.setdefault(own, set()).add(other)

    def reached(folder):
        found, left = set(), [folder]
        while left:
            new = uses.get(left.pop(), set()) - found
            found |= new
            left += new
        return found

    return sorted(folder for folder in uses if folder in reached(folder))


def paths_of_code():
    """The files that Git tracks; without Git, as in an unpacked archive, the files in the folders of README.md's table."""
    patterns = ("*.h", "*.cpp", "*.cu")
    if (ROOT / ".git").exists():
        git = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=False)
        if git.returncode == 0:
            return [path for path in git.stdout.split("\0") if path and (ROOT / path).exists()]
    return [str(file.relative_to(ROOT)) for folder in layers((ROOT / "README.md").read_text())
            for pattern in patterns for file in (ROOT / folder).rglob(pattern)]


def sources():
    return {path: (ROOT / path).read_text() for path in paths_of_code() if not path.startswith("tests/")}


class Layers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.layers = layers((ROOT / "README.md").read_text())
        cls.sources = sources()

    def test_table_has_every_folder_of_code(self):
        folders = {path.split("/")[0] for path in self.sources if "/" in path}
        self.assertEqual(folders, set(self.layers))

    def test_folders_include_downwards(self):
        self.assertEqual(upward_includes(self.sources, self.layers), [])

    def test_parts_of_kernels_include_downwards(self):
        self.assertEqual(upward_includes(self.sources, PARTS_OF_KERNELS), [])

    def test_no_folders_include_in_a_circle(self):
        self.assertEqual(circles(self.sources), [])

    def test_a_circle_is_found(self):
        planted = {"a/x/1.h": '#include "b/1.h"\n', "b/1.h": '#include "a/1.h"\n', "a/1.h": '#include "a/x/1.h"\n',
                   "c/1.h": '#include "b/1.h"\n#include "c/2.h"\n', "c/2.h": ""}
        self.assertEqual(circles(planted), ["a", "a/x", "b"])

    def test_no_include_leaves_out_its_folder(self):
        bare = [(path, name) for path, text in self.sources.items() for name in INCLUDE.findall(text)
                if "/" not in name and name != "revision.h" and path != "ringtape.h"]
        self.assertEqual(bare, [])

    def test_an_upward_include_is_found(self):
        planted = {"core/tensor.h": '#include "nn/module.h"\n', "nn/module.h": '#include "core/tensor.h"\n'}
        self.assertEqual(upward_includes(planted, self.layers), [("core/tensor.h", "nn/module.h")])


def print_includes():
    order = layers((ROOT / "README.md").read_text())
    for folder in order:
        below = {part_of(name, order) for path, text in sources().items() if part_of(path, order) == folder
                 for name in INCLUDE.findall(text)}
        print(f"{folder:11} {' '.join(part for part in order if part in below and part != folder)}")


if __name__ == "__main__":
    print_includes() if sys.argv[1:] == ["--print"] else unittest.main()
