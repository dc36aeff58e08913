#!/usr/bin/env python3
"""Runs tests and programs on the GPU model (docs/gpu-model.md) under random schedules: any order of a GPU's work that
streams and events allow. There must be no failure and no report.

    tests/gpu_model/random_schedules.py --bin build/model/bin [--seeds 0:100] [--jobs 2] [--result FILE]

Tests that use no GPU, call one kernel at a time, or repeat a long computation on the host are left out. Prints a line for
each run, with the seed and, after a failure, the report or the line that failed; --result writes a summary as Markdown.
Exit status 1 after a failure.
"""
import argparse
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HOST_ONLY = ("fuzz text json svg plot csv idx schedule simt math chrome_trace docs mnist model_file").split()
ONE_KERNEL = "gemm matvec cross_entropy ladders elementwise reduce relu mse bias embedding".split()
LIBRARY = "".join(f"~[{tag}]" for tag in HOST_ONLY + ONE_KERNEL) + '~"bf16 and f16 train MNIST*"'
RANKS = '~"ring_all_reduce: sums and means*"~"slow link*"~"planner:*"'
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n"]
ON_GPU = {"RINGTAPE_DIST_DEVICE": "cuda"}
SHORT = ["--device", "cuda", "--max-steps", "10"]


def runs(binaries):
    """(name, command, variables) of each program."""
    return [
        ("ringtape_tests", [f"{binaries}/ringtape_tests", LIBRARY], {"RINGTAPE_MODEL_GPUS": "2"}),
        ("dist_tests on 2 GPUs", [*MPIRUN, "2", f"{binaries}/dist_tests", RANKS], {**ON_GPU, "RINGTAPE_MODEL_GPUS": "2"}),
        ("mnist", [f"{binaries}/mnist", *SHORT], {}),
        ("mnist --graph", [f"{binaries}/mnist", *SHORT, "--graph"], {}),
        ("mnist on 2 GPUs, ZeRO 2", [*MPIRUN, "2", f"{binaries}/mnist", *SHORT, "--zero", "2", "--micro-batch", "16"],
         {"RINGTAPE_MODEL_GPUS": "2"}),
    ]


def try_run(seed, name, command, variables):
    """(name, seed, seconds, what went wrong or "", cases)."""
    start = time.monotonic()
    environment = {**os.environ, **variables, "OMP_NUM_THREADS": "1", "RINGTAPE_MODEL_SCHEDULE": f"random:{seed}"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    cases = re.search(r"in (\d+) test cases", done.stdout)
    wrong = ""
    if done.returncode != 0 or "gpu model:" in done.stdout:
        told = re.findall(r"^gpu model: .*$|^error: .*$|^\S+\.(?:cpp|h):\d+: FAILED:$", done.stdout, re.MULTILINE)
        wrong = f"exit status {done.returncode}: {told[0] if told else done.stdout.strip()[-300:]}"
    return name, seed, time.monotonic() - start, wrong, int(cases.group(1)) if cases else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", required=True, help="the model build's bin/")
    parser.add_argument("--seeds", default="0:100", help="FROM:TO, the last one excluded [0:100]")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once [2]")
    parser.add_argument("--result", help="Markdown file to write")
    options = parser.parse_args()
    first, last = map(int, options.seeds.split(":"))
    work = [(seed, *run) for seed in range(first, last) for run in runs(options.bin)]
    with ThreadPoolExecutor(options.jobs) as pool:
        results = []
        for result in pool.map(lambda each: try_run(*each), work):
            results.append(result)
            name, seed, seconds, wrong, _ = result
            print(f"random:{seed}  {name}  {seconds:.0f} s  {wrong or 'passed'}", flush=True)
    lines = ["| program | schedules | test cases in each | failures |", "|---|---|---|---|"]
    for name, _, _ in runs(options.bin):
        of = [result for result in results if result[0] == name]
        failures = [f"`random:{seed}`: {wrong}" for _, seed, _, wrong, _ in of if wrong]
        lines.append(f"| {name} | {len(of)} | {max(cases for *_, cases in of) or ''} | {'; '.join(failures) or 'none'} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if options.result:
        head = f"By `tests/gpu_model/random_schedules.py`, schedules `random:{first}` to `random:{last - 1}`.\n\n"
        Path(options.result).write_text(head + text, encoding="utf-8")
    sys.exit(1 if any(wrong for *_, wrong, _ in results) else 0)


if __name__ == "__main__":
    main()
