#!/usr/bin/env python3
"""Trains MNIST with every optimizer at every batch size over one grid of learning rates and warm-ups, and
prints which accuracy each reaches.

  scripts/batch_table.py --bin build/release/bin --out table.csv

The model is 784-256-10, 15 epochs, momentum 0.9, no weight decay, the rate falling linearly to 0 after the
warm-up. The search is the same for all optimizers: the grid, then half and twice the best rate of each cell. The
cell's rate and warm-up are those with the best test accuracy of seed 0; what the table shows are seeds 1, 2 and 3. Every run is a line of the CSV file; runs that
are in it already are not repeated, so that an interrupted search goes on where it stopped.
"""
import argparse
import concurrent.futures
import csv
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading

OPTIMIZERS = ["sgd", "adam", "lamb", "lars"]
BATCHES = [64, 512, 4096, 8192, 16384]
RATES = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100]
WARMUP_SHARES = [0.0, 0.1]  # of all updates
EPOCHS = 15
TRAINING_SAMPLES = 60000
SEARCH_SEED = 0
SHOWN_SEEDS = [1, 2, 3]
FIELDS = ["optimizer", "batch", "rate", "warmup", "seed", "accuracy"]


def warmup_updates(batch, share):
    return round(share * EPOCHS * math.ceil(TRAINING_SAMPLES / batch))


def train(program, threads, run):
    """Test accuracy of one run in percent; a run that diverges has guessed: 10."""
    optimizer, batch, rate, warmup, seed = run
    with tempfile.TemporaryDirectory() as folder:
        metrics = pathlib.Path(folder) / "metrics.jsonl"
        result = subprocess.run(
            [program, "--optimizer", optimizer, "--batch-size", str(batch), "--lr", str(rate), "--warmup",
             str(warmup), "--epochs", str(EPOCHS), "--weight-decay", "0", "--seed", str(seed), "--metrics",
             str(metrics)],
            env=dict(os.environ, OMP_NUM_THREADS=str(threads)), capture_output=True, text=True, check=False)
        if "diverged" in result.stderr:
            return 10.0
        if result.returncode != 0:
            sys.exit(f"{program} ended with {result.returncode}: {result.stderr.strip()}")
        return round(100 * json.loads(metrics.read_text().splitlines()[-1])["test_accuracy"], 2)


class Results:
    """The runs so far, each in a line of a CSV file."""

    def __init__(self, path):
        self.accuracy = {}
        self.lock = threading.Lock()
        is_new = not path.exists()
        if not is_new:
            with path.open(newline="") as file:
                for row in csv.DictReader(file):
                    key = (row["optimizer"], int(row["batch"]), float(row["rate"]), int(row["warmup"]),
                           int(row["seed"]))
                    self.accuracy[key] = float(row["accuracy"])
        self.file = path.open("a", newline="")
        self.writer = csv.writer(self.file)
        if is_new:
            self.writer.writerow(FIELDS)

    def add(self, run, accuracy):
        with self.lock:
            self.accuracy[run] = accuracy
            self.writer.writerow([*run, accuracy])
            self.file.flush()

    def complete(self, runs, program, threads, jobs):
        """Does the missing runs; returns the accuracy of all."""
        missing = [run for run in runs if run not in self.accuracy]
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for number, (run, accuracy) in enumerate(
                    zip(missing, pool.map(lambda r: train(program, threads, r), missing)), 1):
                self.add(run, accuracy)
                print(f"{number}/{len(missing)}  {run}: {accuracy:.2f}%", file=sys.stderr)
        return self.accuracy


def candidates(cell, rates):
    optimizer, batch = cell
    warmups = sorted({warmup_updates(batch, share) for share in WARMUP_SHARES})
    return [(optimizer, batch, float(rate), warmup) for rate in rates for warmup in warmups]


def search(cells, rates_of, complete):
    """Trains every cell at each of its rates; returns the best candidate of each cell."""
    accuracy = complete([(*candidate, SEARCH_SEED) for cell in cells for candidate in candidates(cell, rates_of(cell))])
    return {cell: max(candidates(cell, rates_of(cell)), key=lambda c: accuracy[(*c, SEARCH_SEED)]) for cell in cells}


def print_table(results, chosen):
    print("| batch | " + " | ".join(OPTIMIZERS) + " |")
    print("|---" * (len(OPTIMIZERS) + 1) + "|")
    for batch in BATCHES:
        row = [f"{batch:,}"]
        medians = {o: statistics.median(results.accuracy[(*chosen[o, batch], s)] for s in SHOWN_SEEDS)
                   for o in OPTIMIZERS}
        for optimizer in OPTIMIZERS:
            _, _, rate, warmup = chosen[optimizer, batch]
            values = [results.accuracy[(*chosen[optimizer, batch], seed)] for seed in SHOWN_SEEDS]
            best = "**" if medians[optimizer] == max(medians.values()) else ""
            row.append(f"{best}{medians[optimizer]:.2f}%{best} ({min(values):.2f} to {max(values):.2f}), "
                       f"rate {rate:g}, warm-up {warmup}")
        print("| " + " | ".join(row) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder with the program mnist")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="CSV file with all runs")
    parser.add_argument("--threads", type=int, default=1, help="OpenMP threads of a run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at a time")
    arguments = parser.parse_args()
    program = str(arguments.bin / "mnist")
    results = Results(arguments.out)

    def complete(runs):
        return results.complete(runs, program, arguments.threads, arguments.jobs)

    cells = [(optimizer, batch) for batch in reversed(BATCHES) for optimizer in OPTIMIZERS]
    coarse = search(cells, lambda cell: RATES, complete)
    chosen = search(cells, lambda cell: [coarse[cell][2] * factor for factor in (0.5, 1, 2)], complete)
    complete([(*chosen[cell], seed) for cell in cells for seed in SHOWN_SEEDS])
    print_table(results, chosen)


if __name__ == "__main__":
    main()
