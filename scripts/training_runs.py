#!/usr/bin/env python3
"""Does the training runs behind every claim in the docs and lessons about how well something trains.

  scripts/training_runs.py --bin build/release/bin                        does the missing runs, prints the results
  scripts/training_runs.py --bin build/release/bin --only lesson-11       the same for one claim
  scripts/training_runs.py --bin build/release/bin --again FOLDER         repeats the runs that tables show, and compares
  scripts/training_runs.py --bin build/release/bin --search --again FOLDER    repeats the searches too, about two hours of one core

Every run is a line of benchmarks/results/training/CLAIM.csv: the program's flags, the seed, and the measure of the claim: the
test accuracy in percent, the test loss, bytes sent, or a curvature. An interrupted search continues where it stopped.
scripts/readme_figures.py makes the tables of the pages from these files, and --check fails if a page differs.

A comparison gives every competitor the same choices: each rate of a grid with each of the other settings, then a few rates from
half to twice the best. The settings with the best mean over the seeds of the search are taken; the table shows other seeds.
"""
import argparse
import collections.abc
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
TRAINING_SAMPLES = 60000
FINE = (0.5, 0.7, 1, 1.4, 2)  # for comparisons that a factor below 2 in the rate can decide
RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)


def updates(batch, epochs):
    return epochs * math.ceil(TRAINING_SAMPLES / batch)


@dataclasses.dataclass(frozen=True)
class Measure:
    """The measure by which the runs of a claim are compared."""
    name: str  # of the column
    of: collections.abc.Callable  # from the records of --metrics, or the one record of --json
    digits: int
    unit: str
    diverged: float  # the value for a run that diverges
    tolerance: float  # by which a median may be outside of the committed range, for machines that add in another order

    def text(self, value):
        return f"{value:.{self.digits}f}{self.unit}"


# A run that diverges counts as guessing.
ACCURACY = Measure("accuracy", lambda records: 100 * records[-1]["test_accuracy"], 2, "%", diverged=10.0, tolerance=0.3)
LOSS = Measure("loss", lambda records: records[-1]["test_loss"], 5, "", diverged=math.inf, tolerance=0.01)
# The bytes that each rank sends in the first step, by the formulas of docs/distributed.md.
BYTES_SENT = Measure("bytes_sent", lambda records: records[0]["bytes_sent"], 0, "", diverged=math.nan, tolerance=0)

# The largest eigenvalue of the Hessian at the end of training.
CURVATURE = Measure("curvature", lambda records: records[-1]["curvature"], 2, "", diverged=math.inf, tolerance=0.1)


@dataclasses.dataclass(frozen=True)
class Rows:
    """Settings that are compared without a search."""
    rows: dict  # the flags by label
    seeds: tuple
    measure: Measure = ACCURACY
    ranks: int = 0  # for mpirun; 0: without mpirun
    program: str = "mnist"

    def chosen(self, values):
        return dict(self.rows)

    def search(self, complete):
        return self.chosen({})


@dataclasses.dataclass(frozen=True)
class Search:
    """Competitors, each with the best of the same choices."""
    competitors: dict  # the flags by label
    choices: dict  # by label, the flags among which the search chooses, besides the rate
    tuned_on: tuple  # the seeds of the search
    seeds: tuple  # the seeds that the table shows
    rates: tuple = RATES
    factors: tuple = (0.5, 1, 2)  # times the best rate, tried last
    measure: Measure = ACCURACY
    ranks: int = 0
    program: str = "mnist"

    def candidates(self, competitor, rates):
        return [f"{self.competitors[competitor]} --lr {rate:g} {choice}"
                for rate, choice in itertools.product(rates, self.choices[competitor])]

    def best(self, competitor, rates, values):
        return max(self.candidates(competitor, rates),
                   key=lambda flags: statistics.mean(values[flags, seed] for seed in self.tuned_on))

    def finer(self, competitor, values):
        rate = rate_of(self.best(competitor, self.rates, values))
        return [rate * factor for factor in self.factors]

    def chosen(self, values):
        return {name: self.best(name, self.finer(name, values), values) for name in self.competitors}

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
    """784-256-10, 15 epochs, linear decay of the rate; without warm-up and with a warm-up of 10% of the updates."""
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
    return Search(cells, {cell: choices for cell in cells}, tuned_on=(0, 1, 2), seeds=(3, 4, 5, 6, 7), factors=FINE)


def lesson_10():
    """The scaling rules for the rate, each without and with warm-up, and the small batch."""
    large = "--hidden 64 --epochs 4 --batch-size 4096 --lr 0.001"
    rows = {("64", "0"): "--hidden 64 --epochs 4 --batch-size 64 --lr 0.001"}
    for rule, warmup in itertools.product(("none", "sqrt", "linear"), (0, 15)):
        rows[rule, str(warmup)] = f"{large} --lr-scaling {rule} --warmup {warmup}"
    return Rows(rows, seeds=(0, 1, 2, 3, 4))


GPT_RATES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064)


def lesson_10_gpt():
    """A small GPT on 327,680 characters, in 640 and in 40 updates; every rate without warm-up and with a quarter of the
    updates."""
    model = "train --layers 2 --heads 4 --width 64 --epochs 1 --sample-tokens 0 --eval-batch-size 256"
    return Rows({(batch, rate, warmup): f"{model} --batch-size {batch} --steps-per-epoch {steps} --lr {rate:g} --warmup {warmup}"
                 for batch, steps in ((8, 640), (128, 40)) for warmup in (0, steps // 4) for rate in GPT_RATES},
                seeds=(0, 1, 2), measure=LOSS, program="gpt")


WAYS = ("rate", "batch", "neither", "large")


def lesson_32():
    """A rate that falls, a batch that grows instead, neither, and the large batch from the start."""
    return Search({way: f"--way {way}" for way in WAYS}, {way: ("--momentum 0", "--momentum 0.9") for way in WAYS}, tuned_on=(0, 1, 2),
                  seeds=(3, 4, 5, 6, 7), rates=(0.003, 0.01, 0.03, 0.1, 0.3, 1), program="lessons/larger_batch")


def lesson_32_curvature():
    """The final curvature with the settings that the search of lesson 32 chose."""
    rates = {"rate": 0.03, "batch": 0.03, "neither": 0.01, "large": 0.1}
    return Rows({way: f"--way {way} --lr {rates[way]} --momentum 0.9 --curvature" for way in WAYS}, seeds=lesson_32().seeds,
                measure=CURVATURE, program="lessons/larger_batch")


def lesson_32_one_rate():
    """The final curvature with both batches at the same rates."""
    return Rows({(way, rate): f"--way {way} --lr {rate:g} --momentum 0.9 --curvature" for way in ("neither", "large") for rate in (0.03, 0.1)},
                seeds=(0, 1, 2), measure=CURVATURE, program="lessons/larger_batch")


BIASES = ("ratio", "thousandth")


def lesson_38():
    """LARS as in lesson 11, except for its biases, with that lesson's rates from 1 on."""
    return Search({way: f"--biases {way}" for way in BIASES}, {way: lesson_11().choices["lars"] for way in BIASES}, tuned_on=(0, 1, 2),
                  seeds=(3, 4, 5, 6, 7), rates=tuple(rate for rate in RATES if rate >= 1), factors=FINE, program="lessons/lars_biases")


def adam_with_warmup():
    """Adam with choices that the table of batches did not offer: long warm-ups with each schedule."""
    batches = (8192, 16384)
    choices = {batch: [f"--schedule {schedule} --warmup {round(share * updates(batch, 15))}"
                       for schedule, share in itertools.product(("constant", "linear", "cosine"), (0.2, 0.4))] for batch in batches}
    return Search({batch: f"--optimizer adam --batch-size {batch} --epochs 15 --weight-decay 0" for batch in batches}, choices,
                  tuned_on=(0,), seeds=(1, 2, 3), rates=(0.01, 0.02, 0.03), factors=(1,))


COMPRESSIONS = ("none", "bf16", "f16")


def compressed(flags, **settings):
    """Training on four ranks, with gradients reduced in f32 and in 16 bits."""
    return Rows({dtype: f"{flags} --compress {dtype}" for dtype in COMPRESSIONS}, ranks=4, **settings)


GPT_IN_SHORT = ("train --layers 2 --heads 4 --width 64 --batch-size 12 --steps-per-epoch 400 --epochs 1 --warmup 40 --sample-tokens 0 "
                "--eval-batch-size 256")
CLAIMS = {
    "batch-table": batch_table(),
    "adam-warmup": adam_with_warmup(),
    "lesson-10": lesson_10(),
    "lesson-10-gpt": lesson_10_gpt(),
    "lesson-11": lesson_11(),
    "lesson-32": lesson_32(),
    "lesson-32-curvature": lesson_32_curvature(),
    "lesson-32-one-rate": lesson_32_one_rate(),
    "lesson-38": lesson_38(),
    "compress-mnist": compressed("--epochs 3", seeds=(0, 1, 2), measure=LOSS),
    "compress-gpt": compressed(GPT_IN_SHORT, seeds=(0, 1, 2), measure=LOSS, program="gpt"),
    "compress-mnist-bytes": compressed("--max-steps 1", seeds=(0, 1, 2), measure=BYTES_SENT),
    "compress-gpt-bytes": compressed(GPT_IN_SHORT + " --max-steps 100", seeds=(0, 1, 2), measure=BYTES_SENT, program="gpt"),
    "mnist": Rows({"default": "--epochs 3"}, seeds=(0, 1, 2, 3, 4)),
    "recipes": Rows({name: f"--recipe {name}" for name in ("lamb-8192", "lamb-16384")}, seeds=(0, 1, 2, 3, 4)),
}


def read(path, measure=ACCURACY):
    """The measured values of the runs in a file, by (flags, seed)."""
    with path.open(newline="") as file:
        return {(row["flags"], int(row["seed"])): float(row[measure.name]) for row in csv.DictReader(file)}


@dataclasses.dataclass(frozen=True)
class Shown:
    """The settings and values of one competitor that a table shows."""
    flags: str
    values: tuple
    measure: Measure = ACCURACY

    @property
    def median(self):
        return statistics.median(self.values)

    def range_text(self):
        digits = self.measure.digits
        return f"{min(self.values):.{digits}f} to {max(self.values):.{digits}f}"


def rows_of(claim, settings, values):
    return {name: Shown(flags, tuple(values[flags, seed] for seed in claim.seeds), claim.measure)
            for name, flags in settings.items()}


def shown(name, folder=ROOT / FOLDER):
    """For each competitor of a claim, its settings and the values for the seeds that the table shows."""
    values = read(folder / f"{name}.csv", CLAIMS[name].measure)
    return rows_of(CLAIMS[name], CLAIMS[name].chosen(values), values)


def train(claim, folder, run):
    """The value of one run."""
    flags, seed = run
    program = str(folder / claim.program)
    # Allows more ranks than cores, and root in a container.
    ranks = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(claim.ranks)] if claim.ranks else []
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    with tempfile.TemporaryDirectory() as temporary:
        metrics = pathlib.Path(temporary) / "metrics.jsonl"
        flag = "--json" if claim.program.startswith("lessons/") else "--metrics"
        result = subprocess.run([*ranks, program, *flags.split(), "--seed", str(seed), flag, str(metrics)],
                                env=environment, capture_output=True, text=True, check=False)
        if "diverged" in result.stderr:
            return claim.measure.diverged
        if result.returncode != 0:
            sys.exit(f"{program} {flags} ended with {result.returncode}: {result.stderr.strip()}")
        records = [json.loads(line) for line in metrics.read_text().splitlines()]
        return round(claim.measure.of(records), claim.measure.digits)


def complete(path, claim, folder, jobs, runs):
    """Does the runs that the file lacks and writes each when it is done; returns the values of all runs in the file."""
    measure = claim.measure
    values = read(path, measure) if path.exists() else {}
    missing = [run for run in dict.fromkeys(runs) if run not in values]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        writer = csv.writer(file, lineterminator="\n")
        if file.tell() == 0:
            writer.writerow(["flags", "seed", measure.name])
        for number, (run, found) in enumerate(zip(missing, pool.map(lambda r: train(claim, folder, r), missing)), 1):
            values[run] = found
            writer.writerow([*run, f"{found:.{measure.digits}f}"])
            file.flush()
            print(f"{number}/{len(missing)}  {run[0]} --seed {run[1]}: {measure.text(found)}", file=sys.stderr)
    return values


def outside(committed, fresh):
    """A text for each competitor whose new median is outside of the committed range."""
    return [f"{name}: {new.measure.text(new.median)}, committed {committed[name].range_text()}" for name, new in fresh.items()
            if not (min(committed[name].values) - new.measure.tolerance <= new.median
                    <= max(committed[name].values) + new.measure.tolerance)]


def runs_of(claim, settings):
    return [(flags, seed) for flags in settings.values() for seed in claim.seeds]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder with the programs")
    parser.add_argument("--only", choices=CLAIMS, help="only this claim")
    parser.add_argument("--again", type=pathlib.Path, help="repeat runs, with results in this folder; those that it has already are not repeated")
    parser.add_argument("--search", action="store_true", help="with --again: repeat the searches too")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="number of runs at the same time")
    options = parser.parse_args()

    failures = []
    for name, claim in CLAIMS.items():
        if options.only not in (None, name):
            continue
        folder = options.again or ROOT / FOLDER
        do_missing = functools.partial(complete, folder / f"{name}.csv", claim, options.bin,
                                       options.jobs if claim.ranks == 0 else 1)
        if options.again and not options.search:
            settings = {key: row.flags for key, row in shown(name).items()}
        else:
            settings = claim.search(do_missing)
        fresh = rows_of(claim, settings, do_missing(runs_of(claim, settings)))
        for key, row in fresh.items():
            print(f"{name}  {key}: median {row.measure.text(row.median)} ({row.range_text()})  {row.flags}")
        if options.again:
            failures += [f"{name}: {text}" for text in outside(shown(name), fresh)]
    if failures:
        sys.exit("\n".join(f"error: {text}" for text in failures))


if __name__ == "__main__":
    main()
