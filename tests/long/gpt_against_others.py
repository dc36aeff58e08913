#!/usr/bin/env python3
"""Times GPT-2 124M with random weights: training steps against PyTorch (eager and compiled) and llm.c, tokens against transformers.

    tests/long/gpt_against_others.py [--llmc LLM.C] [--bin build/release/bin] [--rounds 3] [--threads 2] [--dtypes f32,bf16]
                                     [--cases 4x64,1x1024,token] [--json FILE]

A step is zeroing the gradients, forward, cross-entropy, backward and AdamW; a token is one at batch 1 after a prompt of 16, with a
cache of keys and values. The programs take turns, each in a separate process, for some rounds, since other work changes the
machine's speed. Prints the median of the rounds' medians, its spread, and the most memory that a process held;
--json writes a result file for docs/gpt.md (benchmarks/results/FOLDER/gpt_steps.json).
LLM.C is a checkout of github.com/karpathy/llm.c; its train_gpt2.c is built with its own flags, in f32, and has no bf16.
"""
import argparse
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COUNTS = {"4x64": 8, "1x1024": 4, "token": 40}
LLMC_STEPS = 2  # slower, and the times hardly differ

TORCH = """
import sys, time, torch, torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel
case, dtype, mode, count, threads = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
torch.set_num_threads(threads)
torch.manual_seed(1)
none = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
model = GPT2LMHeadModel(GPT2Config(attn_implementation="sdpa", use_cache=case == "token", **none))
times = []

def timed(work, warm_up):
    for i in range(-warm_up, count):
        start = time.perf_counter()
        work()
        if i >= 0:
            times.append(time.perf_counter() - start)

if case == "token":
    model = model.to(torch.bfloat16 if dtype == "bf16" else torch.float32).eval()
    state = {}
    with torch.inference_mode():
        state["cache"] = model(torch.randint(50257, (1, 16))).past_key_values
        token = torch.randint(50257, (1, 1))
        def step():
            state["cache"] = model(token, past_key_values=state["cache"]).past_key_values
        timed(step, 2)
else:
    batch, length = map(int, case.split("x"))
    x, y = torch.randint(50257, (batch, length)), torch.randint(50257, (batch, length))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    forward = torch.compile(model) if mode == "compiled" else model
    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16"):
            logits = forward(x).logits
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))
        loss.backward()
        optimizer.step()
    timed(step, 3)
print("times", *times)
"""

# train_gpt2.c leaves out its main() if TESTING is defined, for programs such as this one.
LLMC = """
#define TESTING
#include "train_gpt2.c"

int main(int argc, char** argv) {
  GPT2 model;
  gpt2_build_from_checkpoint(&model, argv[1]);
  int batch = atoi(argv[2]), length = atoi(argv[3]), count = atoi(argv[4]);
  int* tokens = malloc(sizeof(int) * (batch * length + 1));
  for (int i = 0; i <= batch * length; ++i) tokens[i] = rand() % 50257;
  double* times = malloc(sizeof(double) * count);
  for (int step = -1; step < count; ++step) {
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    gpt2_forward(&model, tokens, tokens + 1, batch, length);
    gpt2_zero_grad(&model);
    gpt2_backward(&model);
    gpt2_update(&model, 1e-4f, 0.9f, 0.999f, 1e-8f, 0.1f, step + 2);
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (step >= 0) times[step] = end.tv_sec - start.tv_sec + 1e-9 * (end.tv_nsec - start.tv_nsec);
  }
  printf("\\ntimes");
  for (int step = 0; step < count; ++step) printf(" %f", times[step]);
  printf("\\n");
  return 0;
}
"""


def run(command, environment, folder):
    """The output of a program and the most bytes of memory that it held."""
    with open(folder / "out", "w+") as out, open(folder / "errors", "w+") as errors:
        process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=errors, env=environment, cwd=folder)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), errors.seek(0)
        if process.returncode != 0:
            sys.exit(f"error: {command[0]} ended with {process.returncode}: {errors.read()[-2000:]}")
        return out.read(), usage.ru_maxrss * 1024


def median_of(output):
    line = next(line for line in output.splitlines() if line.startswith("times"))
    return statistics.median(float(word) for word in line.split()[1:])


def run_ringtape(options, environment, folder, case, dtype):
    result = folder / "ringtape.json"
    if case == "token":
        work = ["--steps", 0, "--tokens", COUNTS[case]]
    else:
        batch, length = case.split("x")
        work = ["--batch-size", batch, "--context", length, "--steps", COUNTS[case]]
    _, memory = run([options.bin.resolve() / "bench_gpt", "--device", "cpu", "--dtype", dtype, *work, "--json", result],
                    environment, folder)
    file = json.loads(result.read_text())
    options.described = {key: file[key] for key in ("date", "revision", "machine") if key in file}
    row = file["rows"][0]
    limit = row["limit_seconds"] if case == "token" else None
    return row["seconds"], memory, limit


def run_torch(mode, options, environment, folder, case, dtype):
    out, memory = run([sys.executable, "-c", TORCH, case, dtype, mode, COUNTS[case], options.threads], environment, folder)
    return median_of(out), memory, None


def prepare_llmc(source, folder):
    """Builds the program above, and writes a checkpoint of random weights in train_gpt2.c's format."""
    import numpy
    (folder / "steps.c").write_text(LLMC)
    subprocess.run(["gcc", "-Ofast", "-march=native", "-fopenmp", "-DOMP", "-Wno-unused-result", "-Wno-ignored-pragmas",
                    "-Wno-unknown-attributes", "-I", source, folder / "steps.c", "-o", folder / "llmc", "-lm"], check=True)
    layers, width, padded = 12, 768, 50304
    header = numpy.zeros(256, numpy.int32)
    header[:8] = [20240326, 3, 1024, 50257, layers, 12, width, padded]
    random = numpy.random.default_rng(1)
    ones, zeros = (lambda n: numpy.ones(n, numpy.float32)), (lambda n: numpy.zeros(n, numpy.float32))
    normal = lambda n: random.standard_normal(n, numpy.float32) * numpy.float32(0.02)  # noqa: E731
    square, all_widths = layers * width * width, layers * width
    with open(folder / "gpt2_124M.bin", "wb") as file:
        for part in [header, normal(padded * width), normal(1024 * width),      # wte, wpe
                     ones(all_widths), zeros(all_widths),                       # ln1
                     normal(3 * square), zeros(3 * all_widths),                 # qkv
                     normal(square), zeros(all_widths),                         # attproj
                     ones(all_widths), zeros(all_widths),                       # ln2
                     normal(4 * square), zeros(4 * all_widths),                 # fc
                     normal(4 * square), zeros(all_widths),                     # fcproj
                     ones(width), zeros(width)]:                                # lnf
            part.tofile(file)


def run_llmc(options, environment, folder, case, dtype):
    out, memory = run([folder / "llmc", folder / "gpt2_124M.bin", *case.split("x"), LLMC_STEPS], environment, folder)
    return median_of(out), memory, None


def programs_for(options, case, dtype):
    programs = {"Ringtape": run_ringtape}
    for mode in ["eager"] if case == "token" else ["eager", "compiled"]:
        programs[f"PyTorch, {mode}"] = lambda *a, mode=mode: run_torch(mode, *a)
    if options.llmc and dtype == "f32" and case != "token":
        programs["llm.c"] = run_llmc
    return programs


def measure(options, environment, folder, case, dtype):
    programs = programs_for(options, case, dtype)
    medians, memories, limits = {p: [] for p in programs}, {p: 0 for p in programs}, []
    for _ in range(options.rounds):
        for name, program in programs.items():
            seconds, memory, limit = program(options, environment, folder, case, dtype)
            medians[name].append(seconds)
            memories[name] = max(memories[name], memory)
            if limit:
                limits.append(limit)
    ours = statistics.median(medians["Ringtape"])
    rows = []
    for name, seconds in medians.items():
        row = {"name": name, "size": f"{case} {dtype}", "seconds": statistics.median(seconds), "lowest_seconds": min(seconds),
               "highest_seconds": max(seconds), "peak_bytes": memories[name]}
        if name == "Ringtape" and limits:
            row["limit_seconds"] = statistics.median(limits)
        rows.append(row)
        of_limit = f", {row['seconds'] / row['limit_seconds']:.2f} times the weights' bytes at the rate of a copy" \
            if "limit_seconds" in row else ""
        print(f"{case} {dtype}, {name}: {1e3 * row['seconds']:.1f} ms ({1e3 * min(seconds):.1f} to {1e3 * max(seconds):.1f}), "
              f"{row['seconds'] / ours:.2f} times ours, {row['peak_bytes'] / 2**30:.2f} GiB{of_limit}", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--llmc", type=Path)
    parser.add_argument("--bin", type=Path, default=ROOT / "build/release/bin")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--cases", default=",".join(COUNTS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.llmc:
            prepare_llmc(options.llmc.resolve(), folder)
        for dtype in options.dtypes.split(","):
            for case in options.cases.split(","):
                rows += measure(options, environment, folder, case, dtype)
    if options.json:
        versions = {name: importlib.metadata.version(name) for name in ("torch", "transformers")}
        if options.llmc:
            versions["llm.c"] = subprocess.run(["git", "-C", options.llmc, "rev-parse", "--short", "HEAD"], check=True, capture_output=True,
                                               text=True).stdout.strip()
        result = {"program": "gpt_against_others.py", **options.described,
                  "settings": {"threads": options.threads, "rounds": options.rounds, **versions}, "rows": rows}
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
