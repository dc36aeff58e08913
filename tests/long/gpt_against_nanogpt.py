#!/usr/bin/env python3
"""Trains nanoGPT's CPU configuration on tinyshakespeare with nanoGPT and with `gpt train`, alternating, for several seeds.

    tests/long/gpt_against_nanogpt.py NANOGPT [--bin build/release/bin] [--seeds 3] [--steps 2000] [--json FILE]
    tests/long/gpt_against_nanogpt.py NANOGPT --curve 100 [...]      the first 100 steps of its GPU configuration: training losses

NANOGPT is a checkout of github.com/karpathy/nanoGPT; a copy is trained, whose only change is the seed. Both models are
evaluated on the same split, all of the last 10% in windows of 64, and timed over the steps alone, without evaluation or
startup. Prints each run, the means, and the medians of the times; --json writes a result file for docs/gpt.md
(benchmarks/results/FOLDER/gpt_shakespeare.json). Exits with 1 if Ringtape's mean loss is more than 0.02 above nanoGPT's.
"""
import argparse
import importlib.metadata
import json
import math
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = ROOT / "text" / "tinyshakespeare" / "input.txt"
CONTEXT, BATCH = 64, 12


def prepare(nanogpt, folder):
    shutil.copytree(nanogpt, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git"))
    data = folder / "data" / "shakespeare_char"
    shutil.copy(TEXT, data / "input.txt")
    subprocess.run([sys.executable, "prepare.py"], cwd=data, check=True, capture_output=True)


def write_seeded(folder, seed):
    """train_seed.py: nanoGPT's program with another seed."""
    source = (folder / "train.py").read_text()
    (folder / "train_seed.py").write_text(re.sub(r"manual_seed\(\d+", f"manual_seed({seed}", source))


def train_nanogpt(folder, seed, steps):
    write_seeded(folder, seed)
    flags = dict(device="cpu", compile=False, eval_iters=1, eval_interval=steps, log_interval=1, block_size=CONTEXT,
                 batch_size=BATCH, n_layer=4, n_head=4, n_embd=128, max_iters=steps, lr_decay_iters=steps, dropout=0.0,
                 always_save_checkpoint=True)
    command = [sys.executable, "train_seed.py", "config/train_shakespeare_char.py"]
    result = subprocess.run(command + [f"--{name}={value}" for name, value in flags.items()], cwd=folder, check=True,
                            capture_output=True, text=True)
    times = [float(t) for t in re.findall(r"iter \d+: loss [\d.]+, time ([\d.]+)ms", result.stdout)]
    return evaluate_nanogpt(folder), statistics.median(times) / 1e3


def curve_nanogpt(folder, seed, steps):
    """The training losses of the first steps of its GPU configuration."""
    write_seeded(folder, seed)
    command = [sys.executable, "train_seed.py", "config/train_shakespeare_char.py", "--device=cpu", "--compile=False", "--eval_iters=1",
               "--eval_interval=1000000", "--log_interval=1", f"--max_iters={steps - 1}"]
    result = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return [float(loss) for loss in re.findall(r"iter \d+: loss ([\d.]+), time", result.stdout)]


def curve_ringtape(binary, folder, seed, steps):
    metrics = folder / f"curve{seed}.jsonl"
    command = [binary / "gpt", "train", "--recipe", "shakespeare-gpu", "--device", "cpu", "--seed", str(seed), "--sample-tokens", "0",
               "--metrics", metrics, "--quiet"]
    # The whole run, stopped after these steps: --max-steps would shorten the schedule too.
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    lines = []
    while len(lines) < steps:
        if run.poll() is not None:
            sys.exit(f"error: gpt ended after {len(lines)} steps: {run.stderr.read().decode()}")
        time.sleep(1)
        lines = metrics.read_text().splitlines()[:-1] if metrics.exists() else []  # the last may be incomplete
    run.terminate()
    run.wait()
    return [json.loads(line)["loss"] for line in lines[:steps]]


def compare_curves(options, folder):
    """Prints the mean losses of each ten steps of both programs, over the seeds."""
    curves = {"nanoGPT": [], "Ringtape": []}
    for seed in range(options.seeds):
        curves["nanoGPT"].append(curve_nanogpt(folder / "nanogpt", seed, options.curve))
        curves["Ringtape"].append(curve_ringtape(options.bin.resolve(), folder, seed, options.curve))
    for first in range(0, options.curve, 10):
        print(f"steps {first + 1} to {first + 10}: " + ", ".join(
            f"{program} {statistics.mean(means):.4f} ({min(means):.4f} to {max(means):.4f})"
            for program, of_seeds in curves.items()
            for means in [[statistics.mean(losses[first:first + 10]) for losses in of_seeds]]), flush=True)


def evaluate_nanogpt(folder):
    code = f"""
import math, pickle, sys, torch
sys.path.insert(0, ".")
from model import GPT, GPTConfig
checkpoint = torch.load("out-shakespeare-char/ckpt.pt", weights_only=False)
model = GPT(GPTConfig(**checkpoint["model_args"]))
model.load_state_dict(checkpoint["model"])
model.eval()
import numpy
ids = torch.from_numpy(numpy.fromfile("data/shakespeare_char/val.bin", dtype=numpy.uint16).astype(numpy.int64))
total, count = 0.0, len(ids) - 1
with torch.no_grad():
    for first in range(0, count, {CONTEXT}):
        x = ids[first:min(first + {CONTEXT}, count)]
        y = ids[first + 1:first + 1 + len(x)]
        _, loss = model(x[None], y[None])
        total += loss.item() * len(x)
print(total / count)
"""
    result = subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True, text=True)
    return float(result.stdout.splitlines()[-1])  # GPT prints its size first


def train_ringtape(binary, folder, seed, steps):
    metrics = folder / "metrics.jsonl"
    # One evaluation, at the end.
    command = [binary / "gpt", "train", "--seed", str(seed), "--epochs", "1", "--steps-per-epoch", str(steps), "--sample-tokens", "0",
               "--metrics", metrics, "--quiet", "--save-model", folder / "model"]
    subprocess.run(command, check=True, capture_output=True)
    result = subprocess.run([binary / "gpt", "evaluate", "--model", folder / "model"], check=True, capture_output=True,
                            text=True)
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    times = [BATCH / row["samples_per_s"] for row in rows if "samples_per_s" in row]
    return float(re.search(r"loss ([\d.]+)", result.stdout)[1]), statistics.median(times)


def result_file(options, runs):
    commit = subprocess.run(["git", "-C", options.nanogpt, "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True)
    with tempfile.TemporaryDirectory() as name:  # bench_gpt describes the machine and the build
        described = Path(name) / "described.json"
        subprocess.run([options.bin / "bench_gpt", "--steps", "0", "--tokens", "1", "--json", described], check=True, capture_output=True)
        file = json.loads(described.read_text())
    return {"program": "gpt_against_nanogpt.py", **{key: file[key] for key in ("date", "revision", "machine") if key in file},
            "settings": {"steps": options.steps, "torch": importlib.metadata.version("torch"), "nanoGPT": commit.stdout.strip()},
            "rows": [{"name": program, "size": f"seed {run['seed']}", "loss": run["loss"], "seconds": run["step_seconds"]}
                     for program, results in runs.items() for run in results]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("nanogpt", type=Path)
    parser.add_argument("--bin", type=Path, default=ROOT / "build/release/bin")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--curve", type=int, default=0, metavar="STEPS")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    runs = {"nanoGPT": [], "Ringtape": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(options.nanogpt, folder / "nanogpt")
        if options.curve:
            compare_curves(options, folder)
            return 0
        for seed in range(options.seeds):
            for program, train in [("nanoGPT", lambda: train_nanogpt(folder / "nanogpt", seed, options.steps)),
                                   ("Ringtape", lambda: train_ringtape(options.bin.resolve(), folder, seed, options.steps))]:
                start = time.monotonic()
                loss, step = train()
                runs[program].append({"seed": seed, "loss": loss, "step_seconds": step})
                print(f"{program}, seed {seed}: loss {loss:.4f}, {1e3 * step:.2f} ms a step, "
                      f"{time.monotonic() - start:.0f} s in all", flush=True)
    for program, results in runs.items():
        losses = [run["loss"] for run in results]
        print(f"{program}: loss {statistics.mean(losses):.4f} ({min(losses):.4f} to {max(losses):.4f}), "
              f"{1e3 * statistics.median(run['step_seconds'] for run in results):.2f} ms a step")
    if options.json:
        options.json.write_text(json.dumps(result_file(options, runs), indent=1) + "\n")
    difference = statistics.mean(r["loss"] for r in runs["Ringtape"]) - statistics.mean(r["loss"] for r in runs["nanoGPT"])
    return 0 if math.isfinite(difference) and difference <= 0.02 else 1


if __name__ == "__main__":
    sys.exit(main())
