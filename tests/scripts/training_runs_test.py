"""Tests of scripts/training_runs.py on a copy of it, with programs that replace mnist."""
import csv
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import training_runs  # noqa: E402

# Its accuracy is best near a rate of 0.1 with the linear schedule; it logs its seeds.
MNIST = """#!/usr/bin/env python3
import json, math, pathlib, sys
flags = dict(zip(sys.argv[1::2], sys.argv[2::2]))
accuracy = 0.9 - 0.01 * abs(math.log10(float(flags.get("--lr", 0.1)) / 0.1)) + 0.001 * int(flags["--seed"])
accuracy += 0.01 * (flags.get("--schedule") == "linear")
pathlib.Path(flags["--metrics"]).write_text(json.dumps({"test_accuracy": accuracy - LOWER}) + "\\n")
with open(LOG, "a") as log:
    log.write(flags["--seed"] + "\\n")
"""


class TrainingRuns(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "scripts").mkdir()
        shutil.copy(ROOT / "scripts/training_runs.py", self.root / "scripts")
        self.log = self.root / "log"
        self.results = self.root / "benchmarks/results/training"

    def program(self, text):
        path = self.root / "mnist"
        path.write_text(text)
        path.chmod(0o755)

    def mnist(self, lower=0.0):
        self.program(MNIST.replace("LOG", repr(str(self.log))).replace("LOWER", str(lower)))

    def run_script(self, *flags):
        return subprocess.run([sys.executable, self.root / "scripts/training_runs.py", "--bin", self.root, *flags],
                              capture_output=True, text=True, check=False)

    def test_each_seed_is_run_once_and_goes_on_where_it_stopped(self):
        self.mnist()
        run = self.run_script("--only", "mnist")
        self.assertIn("median 90.20% (90.00 to 90.40)", run.stdout, run.stderr)
        self.assertEqual(sorted(self.log.read_text().split()), ["0", "1", "2", "3", "4"])
        path = self.results / "mnist.csv"
        lines = path.read_text().splitlines()
        self.assertEqual(lines[0], "flags,seed,accuracy")
        path.write_text("\n".join(lines[:4]) + "\n")
        self.log.unlink()
        self.assertEqual(self.run_script("--only", "mnist").stdout, run.stdout)
        self.assertEqual(len(self.log.read_text().split()), 2)

    def test_every_competitor_tries_the_same_choices_and_other_seeds_are_shown(self):
        self.mnist()
        claim = training_runs.CLAIMS["lesson-11"]
        rates = {name: {flags.split(" --lr ")[1] for flags in claim.candidates(name, claim.rates)} for name in claim.competitors}
        self.assertEqual(len(set(map(frozenset, rates.values()))), 1)
        for claim in training_runs.CLAIMS.values():
            if isinstance(claim, training_runs.Search):
                self.assertFalse(set(claim.tuned_on) & set(claim.seeds))
            self.assertGreaterEqual(len(claim.seeds), 3)

    def test_the_search_takes_the_best_mean(self):
        claim = training_runs.Search({"a": "--optimizer a"}, {"a": ["--warmup 0", "--warmup 5"]}, tuned_on=(0, 1), seeds=(2,),
                                     rates=(0.1, 1))
        values = {"--lr 0.1 --warmup 0": (90, 96), "--lr 1 --warmup 5": (94, 94), "--lr 0.5 --warmup 5": (97, 90)}
        done = {}

        def complete(runs):
            for flags, seed in runs:
                done[flags, seed] = values.get(flags.removeprefix("--optimizer a "), (50, 50))[seed]
            return done

        self.assertEqual(claim.search(complete), {"a": "--optimizer a --lr 1 --warmup 5"})
        self.assertIn(("--optimizer a --lr 2 --warmup 0", 1), done)

    def test_a_run_that_diverges_has_guessed(self):
        self.program("#!/bin/sh\necho 'error: the loss diverged' >&2\nexit 1\n")
        self.assertIn("median 10.00%", self.run_script("--only", "mnist").stdout)

    def test_a_run_that_fails_is_an_error(self):
        self.program("#!/bin/sh\necho 'error: no such flag' >&2\nexit 2\n")
        run = self.run_script("--only", "mnist")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("no such flag", run.stderr)

    def test_again_compares_with_the_committed_runs(self):
        self.mnist()
        self.run_script("--only", "mnist")
        again = str(self.root / "again")
        self.assertEqual(self.run_script("--only", "mnist", "--again", again).returncode, 0)
        self.mnist(lower=0.01)
        run = self.run_script("--only", "mnist", "--again", again + "2")
        self.assertEqual(run.returncode, 1)
        self.assertIn("error: mnist: default: 89.20%, committed 90.00 to 90.40", run.stderr)

    def test_the_committed_files_have_no_run_twice(self):
        for path in (ROOT / training_runs.FOLDER).glob("*.csv"):
            with path.open(newline="") as file:
                runs = [(row["flags"], row["seed"]) for row in csv.DictReader(file)]
            self.assertEqual(len(runs), len(set(runs)), path)


if __name__ == "__main__":
    unittest.main()
