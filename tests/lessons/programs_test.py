#!/usr/bin/env python3
"""Tests the flags of the lessons' programs: --help, the examples in it, and bad input.

  tests/lessons/programs_test.py BUILD_DIR
"""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(sys.argv.pop(1)).resolve() / "bin/lessons"
PROGRAMS = sorted(path.stem for path in (ROOT / "lessons").glob("[0-9]*/*.cpp"))


def run(program, *flags):
    return subprocess.run([BIN / program, *flags], capture_output=True, text=True, check=False, timeout=600)


class Programs(unittest.TestCase):
    def refused(self, status, text, program, *flags):
        result = run(program, *flags)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        self.assertIn(text, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_help_has_flags_and_an_example_that_works(self):
        for program in PROGRAMS:
            text = run(program, "--help").stdout
            self.assertGreater(len(re.findall(r"^  --\w", text, re.MULTILINE)), 0, f"{program} has no flag")
            example = re.search(r"^Example: (?:mpirun -n \d+ )?(.*)$", text, re.MULTILINE)[1].split()
            self.assertEqual(example[0], program)
            result = run(*example)  # with mpirun's programs as one rank, which prints how to start them
            self.assertEqual(result.returncode, 0, f"{example}: {result.stderr}")

    def test_a_wrong_flag_is_one_line(self):
        for program in PROGRAMS:
            self.refused(2, "found '--no-such-flag'", program, "--no-such-flag")

    def test_numbers_that_do_not_fit(self):
        self.refused(1, "--batch must be a multiple of --steps, found 512 and 7", "adam_accumulation", "--steps", "7")
        self.refused(1, "--batch must be a multiple of --steps, found 100 and 16", "recompute", "--batch", "100", "--steps", "16")
        self.refused(1, "--lengths: expected 0 to 8 tokens, found 9", "variable_length", "--lengths", "1,9")
        self.refused(1, "--lengths: at least one sequence must have a token", "variable_length", "--lengths", "0,0")
        self.refused(1, "--calls must divide 65,536 elements, found 100", "buckets", "--calls", "100")
        for program, flag, value in (("kernel", "--threads", "0"), ("clipping", "--limit", "-1"), ("trust_ratio", "--lr", "0"),
                                     ("mixed_precision", "--scale", "0.5"), ("zero", "--layers", "0"), ("overlap", "--layers", "x"),
                                     ("no_sync", "--steps", "0"), ("simulated_reduce", "--elements", "0")):
            self.refused(2, flag, program, flag, value)


if __name__ == "__main__":
    unittest.main()
