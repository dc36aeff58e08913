#!/usr/bin/env python3
"""The trainings behind every claim of the docs and lessons about how well something trains.

  scripts/training_runs.py --bin build/release/bin                        does the runs that are missing, prints the tables
  scripts/training_runs.py --bin build/release/bin --only lesson-11       of one claim
  scripts/training_runs.py --bin build/release/bin --again FOLDER         does the shown runs again, and compares
  scripts/training_runs.py --bin build/release/bin --search --again FOLDER    the searches too, about two hours of one core

Every run is a line of benchmarks/results/training/CLAIM.csv: the flags of mnist, the seed, the test accuracy in percent. A
search that was interrupted goes on where it stopped. scripts/readme_figures.py makes the tables of the pages from these files,
and fails where a page says something else.

A comparison gives every competitor the same choices: each rate of one grid with each of the same other settings, then half and
twice the best rate. The settings with the best mean over the seeds of the search are taken, and the table shows other seeds.
"""
import argparse
import concurrent.futures
import csv
import dataclasses
import functools
import itertools
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = pathlib.Path("benchmarks/results/training")
FIELDS = ["flags", "seed", "accuracy"]
TRAINING_SAMPLES = 60000
RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)
DIVERGED = 10.0  # percent: a run that diverges has guessed
TOLERANCE = 0.3  # points by which a median may leave the committed range on a machine that adds in another order


def updates(batch, epochs):
    return epochs * math.ceil(TRAINING_SAMPLES / batch)


@dataclasses.dataclass(frozen=True)
class Rows:
    """Settings that are compared as they stand: a label and the flags of each, and the seeds."""
    rows: dict
    seeds: tuple

    def chosen(self, accuracy):
        return dict(self.rows)

    def search(self, complete):
        return self.chosen({})


@dataclasses.dataclass(frozen=True)
class Search:
    """Competitors, each with the best of the same choices."""
    competitors: dict  # a label, and the flags
    choices: dict  # a label, and the flags that each competitor may take, beside the rate
    tuned_on: tuple  # seeds
    seeds: tuple  # that the table shows
    rates: tuple = RATES
    factors: tuple = (0.5, 1, 2)  # of the best rate, tried at last

    def candidates(self, competitor, rates):
        return [f"{self.competitors[competitor]} --lr {rate:g} {choice}"
                for rate, choice in itertools.product(rates, self.choices[competitor])]

    def best(self, competitor, rates, accuracy):
        return max(self.candidates(competitor, rates),
                   key=lambda flags: statistics.mean(accuracy[flags, seed] for seed in self.tuned_on))

    def finer(self, competitor, accuracy):
        rate = rate_of(self.best(competitor, self.rates, accuracy))
        return [rate * factor for factor in self.factors]

    def chosen(self, accuracy):
        return {name: self.best(name, self.finer(name, accuracy), accuracy) for name in self.competitors}

    def search(self, complete):
        for rates in (lambda name: self.rates, lambda name: self.finer(name, complete([]))):
            complete([(flags, seed) for name in self.competitors for flags in self.candidates(name, rates(name))
                      for seed in self.tuned_on])
        return self.chosen(complete([]))


def setting(flags, name):
    words = flags.split()
    return words[words.index(name) + 1]


def rate_of(flags):
    return float(setting(flags, "--lr"))


def warmup_of(flags):
    return int(setting(flags, "--warmup"))


OPTIMIZERS = ["sgd", "adam", "lamb", "lars"]
BATCHES = [64, 512, 4096, 8192, 16384]


def batch_table():
    """784-256-10, 15 epochs, the rate falling linearly; without warm-up and with one of 10% of the updates."""
    cells = {(batch, optimizer): f"--optimizer {optimizer} --batch-size {batch} --epochs 15 --weight-decay 0"
             for batch in BATCHES for optimizer in OPTIMIZERS}
    warmups = {batch: [f"--warmup {w}" for w in sorted({0, round(0.1 * updates(batch, 15))})] for batch in BATCHES}
    return Search(cells, {cell: warmups[cell[0]] for cell in cells}, tuned_on=(0,), seeds=(1, 2, 3))


def lesson_11():
    """784-64-10, 5 epochs in batches of 8192: 40 updates. Each schedule with each warm-up."""
    cells = {optimizer: f"--hidden 64 --epochs 5 --batch-size 8192 --weight-decay 0 --optimizer {optimizer}"
             for optimizer in OPTIMIZERS}
    choices = [f"--schedule {schedule} --warmup {warmup}"
               for schedule, warmup in itertools.product(("constant", "linear", "cosine"), (0, 4, 8, 16))]
    return Search(cells, {cell: choices for cell in cells}, tuned_on=(0, 1, 2), seeds=(3, 4, 5, 6, 7))


def lesson_10():
    """The rules for the rate, each without warm-up and with one, beside the small batch."""
    large = "--hidden 64 --epochs 4 --batch-size 4096 --lr 0.001"
    rows = {("64", "0"): "--hidden 64 --epochs 4 --batch-size 64 --lr 0.001"}
    for rule, warmup in itertools.product(("none", "sqrt", "linear"), (0, 15)):
        rows[rule, str(warmup)] = f"{large} --lr-scaling {rule} --warmup {warmup}"
    return Rows(rows, seeds=(0, 1, 2, 3, 4))


def adam_with_warmup():
    """Adam with choices that the table of batches did not offer: long warm-ups, each with each schedule."""
    batches = (8192, 16384)
    choices = {batch: [f"--schedule {schedule} --warmup {round(share * updates(batch, 15))}"
                       for schedule, share in itertools.product(("constant", "linear", "cosine"), (0.2, 0.4))] for batch in batches}
    return Search({batch: f"--optimizer adam --batch-size {batch} --epochs 15 --weight-decay 0" for batch in batches}, choices,
                  tuned_on=(0,), seeds=(1, 2, 3), rates=(0.01, 0.02, 0.03), factors=(1,))


CLAIMS = {
    "batch-table": batch_table(),
    "adam-warmup": adam_with_warmup(),
    "lesson-10": lesson_10(),
    "lesson-11": lesson_11(),
    "mnist": Rows({"default": "--epochs 3"}, seeds=(0, 1, 2, 3, 4)),
    "recipes": Rows({name: f"--recipe {name}" for name in ("lamb-8192", "lamb-16384")}, seeds=(0, 1, 2, 3, 4)),
}


def read(path):
    """(flags, seed): accuracy, of the runs in a file."""
    with path.open(newline="") as file:
        return {(row["flags"], int(row["seed"])): float(row["accuracy"]) for row in csv.DictReader(file)}


@dataclasses.dataclass(frozen=True)
class Shown:
    """What a table shows of one competitor."""
    flags: str
    accuracy: tuple

    @property
    def median(self):
        return statistics.median(self.accuracy)

    def range_text(self):
        return f"{min(self.accuracy):.2f} to {max(self.accuracy):.2f}"


def rows_of(claim, settings, accuracy):
    return {name: Shown(flags, tuple(accuracy[flags, seed] for seed in claim.seeds)) for name, flags in settings.items()}


def shown(name, folder=ROOT / FOLDER):
    """For each competitor of a claim its settings and its accuracies over the seeds shown."""
    accuracy = read(folder / f"{name}.csv")
    return rows_of(CLAIMS[name], CLAIMS[name].chosen(accuracy), accuracy)


def train(program, run):
    """Test accuracy of one run in percent."""
    flags, seed = run
    with tempfile.TemporaryDirectory() as folder:
        metrics = pathlib.Path(folder) / "metrics.jsonl"
        result = subprocess.run([program, *flags.split(), "--seed", str(seed), "--metrics", str(metrics)],
                                env=dict(os.environ, OMP_NUM_THREADS="1"), capture_output=True, text=True, check=False)
        if "diverged" in result.stderr:
            return DIVERGED
        if result.returncode != 0:
            sys.exit(f"{program} {flags} ended with {result.returncode}: {result.stderr.strip()}")
        return round(100 * json.loads(metrics.read_text().splitlines()[-1])["test_accuracy"], 2)


def complete(path, program, jobs, runs):
    """Does the runs that the file lacks, each written when it is done; returns the accuracy of all in the file."""
    accuracy = read(path) if path.exists() else {}
    missing = [run for run in dict.fromkeys(runs) if run not in accuracy]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        writer = csv.writer(file, lineterminator="\n")
        if not accuracy:
            writer.writerow(FIELDS)
        for number, (run, found) in enumerate(zip(missing, pool.map(lambda r: train(program, r), missing)), 1):
            accuracy[run] = found
            writer.writerow([*run, f"{found:.2f}"])
            file.flush()
            print(f"{number}/{len(missing)}  {run[0]} --seed {run[1]}: {found:.2f}%", file=sys.stderr)
    return accuracy


def outside(committed, fresh):
    """The competitors whose new median is outside of the committed range, in words."""
    return [f"{name}: {new.median:.2f}%, committed {committed[name].range_text()}" for name, new in fresh.items()
            if not min(committed[name].accuracy) - TOLERANCE <= new.median <= max(committed[name].accuracy) + TOLERANCE]


def runs_of(claim, settings):
    return [(flags, seed) for flags in settings.values() for seed in claim.seeds]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder with the program mnist")
    parser.add_argument("--only", choices=CLAIMS, help="this claim, not all")
    parser.add_argument("--again", type=pathlib.Path, help="do runs again, with results in this folder")
    parser.add_argument("--search", action="store_true", help="with --again: the searches too")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at a time")
    options = parser.parse_args()

    failures = []
    for name, claim in CLAIMS.items():
        if options.only not in (None, name):
            continue
        folder = options.again or ROOT / FOLDER
        do_missing = functools.partial(complete, folder / f"{name}.csv", str(options.bin / "mnist"), options.jobs)
        if options.again and not options.search:
            settings = {key: row.flags for key, row in shown(name).items()}
        else:
            settings = claim.search(do_missing)
        fresh = rows_of(claim, settings, do_missing(runs_of(claim, settings)))
        for key, row in fresh.items():
            print(f"{name}  {key}: median {row.median:.2f}% ({row.range_text()})  {row.flags}")
        if options.again:
            failures += [f"{name}: {text}" for text in outside(shown(name), fresh)]
    if failures:
        sys.exit("\n".join(f"error: {text}" for text in failures))


if __name__ == "__main__":
    main()
