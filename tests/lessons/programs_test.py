#!/usr/bin/env python3
"""Tests the flags of the lessons' programs: --help, the examples in it, and bad input.

Also tests the pictures of the pages: the line "<!-- picture: PROGRAM FLAGS -->" before a picture is the command that draws it.

  tests/lessons/programs_test.py BUILD_DIR
"""
import pathlib
import re
import subprocess
import sys
import tempfile
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
        self.refused(1, "--batch-size must be a multiple of --accumulation, found 512 and 7", "adam_accumulation", "--accumulation", "7")
        self.refused(1, "--batch-size must be a multiple of --accumulation, found 100 and 16", "recompute", "--batch-size", "100", "--accumulation", "16")
        self.refused(1, "--first and --lines: these lines are empty", "variable_length", "--first", "3", "--lines", "1")
        self.refused(1, "--first and --lines: the text has 40000 lines", "variable_length", "--first", "39990")
        self.refused(1, "--shuffle-width must be a power of two, found 12", "warps", "--shuffle-width", "12")
        self.refused(2, "down, xor, up or all", "warps", "--shuffle", "left")
        self.refused(1, "--bytes must be 4, 8 or 16, found 2", "requests", "--bytes", "2")
        self.refused(1, "--strides: expected 0 to 4096, found -1", "requests", "--strides", "1,-1")
        self.refused(1, "--rung: expected 1 to 9, found 10", "tiles", "--rung", "10")
        self.refused(1, "--size must be a multiple of 128, found 200", "tiles", "--size", "200")
        self.refused(1, "--cell must divide 128, found 48", "tiles", "--cell", "48")
        self.refused(1, "--block: rung 3 has no block 4,0 at this size", "tiles", "--block", "4,0")
        self.refused(1, "--block: expected the block's two indices", "tiles", "--block", "1")
        self.refused(1, "--thread: a block of rung 4 has 512 threads, found 512", "tiles", "--rung", "4", "--thread", "512")
        self.refused(1, "--step: rung 3 has steps 0 to 3 at this size, found 4", "tiles", "--step", "4")
        self.refused(1, "--scores and --values: expected the same number of each, found 1 and 4", "online_attention", "--scores", "1")
        self.refused(1, "--context: expected 1 to 4096, found 0", "online_attention", "--context", "0")
        self.refused(1, "expected the same number of each, at least 2, found 3, 4 and 3", "layer_norm_backward", "--x", "1,2,3")
        self.refused(2, "--without: expected nothing, host-wait or stream-wait, found 'x'", "race", "--without", "x")
        self.refused(1, "--lengths: expected 1 to 65536 tokens, found 0", "memory_kept", "--lengths", "0")
        self.refused(1, "--mlp: expected at least 2 numbers, found 1", "bottleneck", "--mlp", "10")
        self.refused(1, "--large must be a multiple of --small, found 1024 and 100", "noise_scale", "--small", "100")
        self.refused(1, "--steps: expected numbers from 0 on in ascending order, found 10,5", "noise_scale", "--steps", "10,5")
        self.refused(2, "rate, batch, neither or large", "larger_batch", "--way", "both")
        for program in ("larger_batch", "lars_biases"):  # before the training, whose output would come first
            self.refused(1, "/nowhere/x: cannot write", program, "--json", "/nowhere/x")
            self.assertEqual(run(program, "--json", "/nowhere/x").stdout, "")
        self.refused(2, "bf16 or f16", "compression", "--compress", "f32")
        self.refused(1, "--batch-size must be a multiple of --ranks, found 4 and 3", "sample_order", "--ranks", "3")
        self.refused(1, "--dataset: expected at least the batch, 4, found 3", "sample_order", "--dataset", "3")
        self.refused(1, "--consumed: expected 0 to 10, found 11", "sample_order", "--consumed", "11")
        self.refused(2, "--read", "loader_waits", "--read", "0")
        self.refused(1, "--calls must divide 65,536 elements, found 100", "buckets", "--calls", "100")
        self.refused(1, "--by-hand must add up to 8 parameters, found 4,3", "buckets", "--by-hand", "4,3")
        self.refused(2, "rate, ratio or thousandth", "lars", "--biases", "none")
        self.refused(1, "--warmup: expected fewer than the 40 updates, found 40", "lars_biases", "--warmup", "40")
        self.refused(1, "--accumulation must divide 16 samples, found 3", "fsdp", "--accumulation", "3")
        self.refused(1, "--x: expected two numbers, found 3", "divided_layers", "--x", "1,2,3")
        for program, flag, value in (("kernel", "--threads", "0"), ("clipping", "--clip-norm", "-1"), ("trust_ratio", "--lr", "0"),
                                     ("mixed_precision", "--scale", "0.5"), ("zero", "--layers", "0"), ("overlap", "--layers", "x"),
                                     ("no_sync", "--accumulation", "0"), ("fragments", "--lane", "32"), ("pipeline", "--pipeline-parallel", "1"), ("simulated_reduce", "--elements", "0")):
            self.refused(2, flag, program, flag, value)

    def test_pictures_are_those_that_the_programs_draw(self):
        pictures = 0
        with tempfile.TemporaryDirectory() as folder:
            drawn = pathlib.Path(folder) / "drawn.svg"
            for page in sorted((ROOT / "lessons").glob("[0-9]*/README.md")):
                text = page.read_text()
                marked = re.findall(r"^<!-- picture: (.*) -->\n!\[.+\]\((\S+)\)$", text, re.MULTILINE)
                self.assertEqual(len(marked), text.count("!["), f"{page}: a picture without the command that draws it")
                for command, file in marked:
                    result = run(*command.split(), "--svg", drawn)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertEqual(drawn.read_text(), (page.parent / file).read_text(), f"{page}: {command} --svg {file}")
                    pictures += 1
        self.assertGreater(pictures, 0)


if __name__ == "__main__":
    unittest.main()
