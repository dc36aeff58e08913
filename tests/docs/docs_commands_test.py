#!/usr/bin/env python3
"""Tests docs_commands.py on pages that the test writes: errors that it must find, and pages that must pass."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

import docs_commands

PROGRAM = """#!/bin/sh
if [ "$1" = --help ]; then echo "  --size N   a flag, and --no-reshard"; else echo "$@" >>said; fi
"""


class DocsCommands(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for name in ("benchmarks", "docs", "kernels", "scripts", "tests", "build/release/bin"):
            (self.root / name).mkdir(parents=True)
        (self.root / "kernels/relu.cu").write_text("__global__ void relu_forward() {}\n")
        (self.root / "tests/gpu_check.sh").write_text("docs_commands.py --gpu\n")
        program = self.root / "build/release/bin/app"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        (self.root / "CONTRIBUTING.md").write_text("")
        docs_commands.ROOT = self.root
        docs_commands.TABLE = {}

    def result(self, page):
        """What the script prints for README.md with this text."""
        (self.root / "README.md").write_text(page)
        output = io.StringIO()
        arguments, sys.argv = sys.argv, ["docs_commands.py", str(self.root / "build/release")]
        try:
            with contextlib.redirect_stdout(output):
                status = docs_commands.main()
        finally:
            sys.argv = arguments
        self.assertEqual(status, 1 if "FAILED" in output.getvalue() else 0)
        return output.getvalue()

    def block(self, *lines, kind="sh"):
        return self.result("\n".join(["```" + kind, *lines, "```"]))

    def test_what_passes(self):
        self.assertIn("1 passed, 0 failed", self.block("build/release/bin/app --size 3   # a remark"))
        self.assertIn("2 passed, 0 failed", self.block("app one", "# a remark", "", 'grep "on# e\\|one" said'))
        self.assertIn("1 passed, 0 failed", self.block('name="app one"', "$name \\", "  two && grep 'one two' said"))
        self.assertIn("1 passed, 0 failed", self.block("half() { app $1; }", "half one && grep one said"))
        self.assertIn("1 passed, 0 failed", self.block("$ app one \\", "    two && grep 'one two' said", "said", kind=""))
        self.assertIn("0 passed, 0 failed", self.block("no_program", kind="cpp"))
        self.assertIn("1 passed, 0 failed", self.result("As `build/release/bin/app --size 3` shows."))

    def test_output(self):
        (self.root / "build/release/bin/plan").symlink_to(self.root / "build/release/bin/app")
        (self.root / "build/release/bin/app").write_text("#!/bin/sh\nprintf 'one\\ntwo\\nthree\\n'\n")
        self.assertIn("1 passed, 0 failed", self.block("$ plan 1", "one", "...", "three", kind=""))
        self.assertIn("does not print 'two' as the page shows", self.block("$ plan 1", "three", "two", kind=""))
        self.assertIn("does not print '4' as the page shows", self.block("$ plan 1", "one", "4", kind=""))
        self.assertIn("1 passed, 0 failed", self.block("$ app 1", "4", kind=""))  # its output may depend on the machine

    def test_stale_commands(self):
        self.assertIn("README.md:2: no_program", self.block("no_program"))
        self.assertIn("ended with 1", self.block("app one", "grep two said"))
        self.assertIn("ended with 1", self.block("false | tail -n 1"))
        self.assertIn("no program build/release/bin/apps", self.result("As `build/release/bin/apps` shows."))
        for flag in ("--sizes", "--siz", "--no"):
            self.assertIn(f"knows no flag {flag}\n", self.result(f"As `build/release/bin/app {flag} 3` shows."))

    def test_commands_that_take_long(self):
        docs_commands.LIMIT, limit = 1, docs_commands.LIMIT
        self.assertIn("took more than 1 s. Give it a row in TABLE", self.block("sleep 30"))
        docs_commands.LIMIT = limit
        docs_commands.TABLE = {"sleep": docs_commands.Short("0")}
        self.assertIn("1 passed, 0 failed", self.block("sleep"))

    def test_ranks_without_mpi(self):
        self.assertIn("app (no MPI)\n0 passed, 0 failed", self.block("mpirun -n 2 app"))
        docs_commands.TABLE = {"mpirun *": docs_commands.Short("--size 3")}
        self.assertIn("app (no MPI)\n0 passed, 0 failed", self.block("mpirun -n 2 app"))

    def test_commands_that_are_run_elsewhere(self):
        docs_commands.TABLE = {"srun *": docs_commands.Elsewhere("tests/gpu_check.sh", "--gpu")}
        self.assertIn("1 passed, 0 failed", self.block("srun app"))
        docs_commands.TABLE = {"srun *": docs_commands.Elsewhere("tests/gpu_check.sh", "srun")}
        self.assertIn("does not hold ['srun']", self.block("srun app"))
        self.assertIn("no page has 'srun *' any more", self.block("app"))

    def test_profilers(self):
        docs_commands.TABLE = {"ncu *": docs_commands.Gpu()}
        command = "ncu --kernel-name regex:{} build/profiling/bin/app {} 3"
        self.assertIn("1 passed, 0 failed", self.block(command.format("relu_forward", "--size")))
        self.assertIn("no kernel gelu_forward", self.block(command.format("gelu_forward", "--size")))
        self.assertIn("knows no flag --sizes", self.block(command.format("relu_forward", "--sizes")))
        (self.root / "tests/gpu_check.sh").write_text("")
        self.assertIn("does not call docs_commands.py", self.block(command.format("relu_forward", "--size")))


if __name__ == "__main__":
    tests = unittest.main(exit=False).result
    failed = len(tests.failures) + len(tests.errors)
    print(f"{tests.testsRun - failed} passed, {failed} failed")
    sys.exit(failed > 0)
