"""Applies CONTRIBUTING.md's steps for a new operation and a new optimizer to a copy of the tree, and tests the result.

    tests/docs/walkthrough_test.py BUILD_DIR [MPIRUN [ARGUMENTS...]]

A block of code is a new file after <!-- new: path -->; after <!-- insert: path after "text" --> it goes below the only
line of that file that contains the text. The copy's build takes the objects of BUILD_DIR, which has to be up to
date, for all source files that the walk-throughs do not change (reuse_objects.sh).
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from removal import ROOT, copy_tree  # noqa: E402

BLOCK = re.compile(r'^<!-- (?:new: (?P<new>\S+)|insert: (?P<into>\S+) after "(?P<text>[^\n]*)") -->\n```cpp\n(?P<code>.*?)^```$',
                   re.MULTILINE | re.DOTALL)
BUILD, MPIRUN = None, []  # set by main


def insert_after(text, anchor, code):
    """`text` with `code` below its only line that contains `anchor`."""
    lines = text.splitlines(keepends=True)
    places = [number for number, line in enumerate(lines) if anchor in line]
    if len(places) != 1:
        raise ValueError(f"'{anchor}' stands in {len(places)} lines, expected one")
    return "".join(lines[:places[0] + 1]) + code + "".join(lines[places[0] + 1:])


def apply_blocks(page, tree):
    """Applies the page's blocks to the folder `tree`; returns the paths, in order."""
    paths = []
    for block in BLOCK.finditer(page):
        path = block["new"] or block["into"]
        file = tree / path
        if block["new"]:
            if file.exists():
                raise ValueError(f"{path} is to be new, and exists")
            file.write_text(block["code"])
        else:
            try:
                file.write_text(insert_after(file.read_text(), block["text"], block["code"]))
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None
        paths.append(path)
    return paths


def cache_of(build):
    """{name: (type, value)} of CMakeCache.txt."""
    entries = re.findall(r"^([\w.-]+):(\w+)=(.*)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
    return {name: (kind, value) for name, kind, value in entries}


class Copy:
    """A copy of the tree, and its build."""

    def __init__(self, folder):
        self.source, self.build = folder / "tree", folder / "build"
        copy_tree(self.source)

    def configure(self):
        cache = cache_of(BUILD)
        self.environment = {**os.environ, "ORIGINAL_SOURCE": str(ROOT), "ORIGINAL_BUILD": str(BUILD),
                            "COPY_SOURCE": str(self.source)}
        command = ["cmake", "-S", self.source, "-B", self.build, "-G", cache["CMAKE_GENERATOR"][1], "-Wno-dev"]
        for name, (kind, value) in cache.items():
            if kind not in ("INTERNAL", "STATIC") and not name.endswith("_COMPILER_LAUNCHER"):
                command.append(f"-D{name}:{kind}={value}")
        for language in ("CXX", "CUDA"):
            own = cache.get(f"CMAKE_{language}_COMPILER_LAUNCHER", ("", ""))[1]
            launcher = str(HERE / "reuse_objects.sh") + (";" + own if own else "")
            command.append(f"-DCMAKE_{language}_COMPILER_LAUNCHER={launcher}")
        self.run(*command)

    def make(self, *targets):
        self.run("cmake", "--build", self.build, "--target", *targets)

    def program(self, name, *arguments):
        """What the program prints."""
        return self.run(self.build / "bin" / name, *arguments)

    def run(self, *command):
        done = subprocess.run([str(word) for word in command], cwd=self.source, env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, command[:8]))}: exit status {done.returncode}\n{done.stdout[-6000:]}")
        return done.stdout


def mflop_and_mb(profile, operation):
    """MFLOP and MB that the table of --profile has for an operation."""
    number = r"([\d.]+)"
    row = re.search(rf"^{operation} +\d+ +{number} +{number}% +{number} +{number} +{number} ", profile, re.MULTILINE)
    if row is None:
        raise AssertionError(f"no row '{operation}' in\n{profile}")
    return float(row[5]), float(row[4])


class WalkThroughs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.copy = Copy(Path(cls.folder.name))
        page = (ROOT / "CONTRIBUTING.md").read_text()
        cls.paths = apply_blocks(page, cls.copy.source)
        # Changed and thus compiled again, this test finds the kernels of the copy.
        with (cls.copy.source / "tests/analysis/kernels_test.cpp").open("a") as file:
            file.write("\n")
        cls.copy.configure()
        cls.copy.make("ringtape_tests", "dist_tests", "mnist", "ringtape_analysis_tests", "lens")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_both_walk_throughs_were_found(self):
        for path in ("kernels/pointwise.cu", "autograd/pointwise.cpp", "kernels/lion.cu", "optim/registry.cpp"):
            self.assertIn(path, self.paths)

    def test_a_pointwise_operation_is_at_most_12_lines_and_a_row(self):
        page = (ROOT / "CONTRIBUTING.md").read_text()
        operation = [block for block in BLOCK.finditer(page[:page.index("## Adding an optimizer")])
                     if not block["into"].startswith("tests/")]
        lines = [line for block in operation for line in block["code"].splitlines() if line.strip()]
        self.assertLessEqual(len(lines), 12)

    def test_the_operation_passes_the_tests_of_operations(self):
        self.assertIn("tanh [257]", self.copy.program("ringtape_tests", "operations: the gradient*", "-s"))
        self.copy.program("ringtape_tests", "[ops]")

    def test_the_operation_is_in_the_profile_with_its_flops_and_bytes(self):
        layers = self.copy.source / "nn/layers.cpp"  # where tanh replaces relu
        text = layers.read_text()
        changed = re.sub(r"return linear_relu\((.*)\);", r"return tanh(linear(\1));", text)
        self.assertNotEqual(changed, text)
        layers.write_text(changed)
        self.copy.make("mnist")
        profile = self.copy.program("mnist", "--device", "cpu", "--hidden", "1000", "--max-steps", "4", "--profile")
        values = 64 * 1000
        self.assertEqual(mflop_and_mb(profile, "tanh"), (values / 1e6, 2 * 4 * values / 1e6))
        self.assertEqual(mflop_and_mb(profile, "tanh backward"), (3 * values / 1e6, 3 * 4 * values / 1e6))

    def test_the_optimizer_passes_the_tests_of_optimizers(self):
        self.assertIn("Lion agrees", self.copy.program("ringtape_tests", "Lion*", "-s"))
        self.copy.program("ringtape_tests", "[optim],[resume],[mixed]")

    def test_zero_takes_the_steps_of_the_optimizer(self):
        if not MPIRUN:
            self.skipTest("no MPI was found")
        tests = self.copy.build / "bin/dist_tests"
        self.assertIn(", lion, ", self.copy.run(*MPIRUN, "-n", "2", tests, "ZeRO: training gives the weights*", "-s"))

    def test_the_optimizer_trains(self):
        shown = self.copy.program("mnist", "--device", "cpu", "--optimizer", "lion", "--max-steps", "300")
        self.assertIn("lion at 0.0003", shown)
        self.assertGreater(float(re.search(r"^test accuracy ([\d.]+)%", shown, re.MULTILINE)[1]), 80)

    def test_the_analysis_sees_the_new_kernels(self):
        for kernel in ("tanh", "tanh_backward_a", "lion"):
            self.assertIn(f"{kernel}: every byte once, no waiting", self.copy.program("lens", kernel))
        self.copy.program("ringtape_analysis_tests", "analysis: the library's kernels*")


class Blocks(unittest.TestCase):
    def test_insert_after_the_only_line(self):
        self.assertEqual(insert_after("a\nb x\nc\n", "x", "new\n"), "a\nb x\nnew\nc\n")
        for text, count in (("a\nb\n", 0), ("x\nx\n", 2)):
            with self.assertRaisesRegex(ValueError, f"'x' stands in {count} lines, expected one"):
                insert_after(text, "x", "new\n")

    def test_blocks_are_applied_in_order(self):
        page = ('<!-- new: one.h -->\n```cpp\nint a;\n```\n\n<!-- source: other.h -->\n```cpp\nint c;\n```\n'
                '<!-- insert: one.h after "int a" -->\n```cpp\nint b;\n```\n')
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(apply_blocks(page, Path(folder)), ["one.h", "one.h"])
            self.assertEqual((Path(folder) / "one.h").read_text(), "int a;\nint b;\n")
            with self.assertRaisesRegex(ValueError, "one.h is to be new, and exists"):
                apply_blocks(page, Path(folder))


if __name__ == "__main__":
    if len(sys.argv) < 2 or not (Path(sys.argv[1]) / "CMakeCache.txt").exists():
        sys.exit("usage: walkthrough_test.py BUILD_DIR [MPIRUN [ARGUMENTS...]]; BUILD_DIR: a folder that CMake has configured")
    BUILD, MPIRUN = Path(sys.argv[1]).resolve(), sys.argv[2:]
    unittest.main(argv=sys.argv[:1])
