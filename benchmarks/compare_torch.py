#!/usr/bin/env python3
"""Runs the same work by Ringtape and by PyTorch, in turn, and prints both and their ratio.

    benchmarks/compare_torch.py [steps|kernels|all] [--bin build/release/bin] [--device cpu|cuda] [--threads N]

steps    whole training steps of multilayer perceptrons: forward, cross-entropy, backward, gradient-norm clipping and
         Adam (PyTorch's fused one; the better of its eager and compiled modes)
kernels  single kernels, as bench_kernels lists them, where PyTorch has the same work

Both sides use the same number of threads and random data. Each round runs both sides one after the other, so that a
machine whose speed drifts is the same for both; a ratio is that of the medians over the rounds.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

STEPS = [((784, 256, 10), 64), ((784, 1024, 1024, 10), 128), ((784, 2048, 2048, 10), 512)]


def run_benchmark(options, program):
    """What `program --json` writes."""
    path = os.path.join(options.bin, program)
    if not os.path.exists(path):
        sys.exit(f"error: {path} was not found: build it first, or name its folder with --bin")
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([path, "--device", options.device, "--json", file.name], check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, OMP_NUM_THREADS=str(options.threads)))
        return json.load(open(file.name))


class Timer:
    """Times a function of PyTorch's: the median of many calls, in seconds."""

    def __init__(self, torch, device):
        self.synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None

    def median(self, work, calls):
        for _ in range(max(3, calls // 10)):
            work()
        times = []
        for _ in range(calls):
            self.synchronize()
            start = time.perf_counter()
            work()
            self.synchronize()
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    def kernel(self, work):
        """For work that may be shorter than the clock's own cost: many calls between two looks at it."""
        work()
        self.synchronize()
        start = time.perf_counter()
        work()
        self.synchronize()
        repeats = min(1000, max(1, int(2e-3 / (time.perf_counter() - start))))
        return self.median(lambda: [work() for _ in range(repeats)], 11) / repeats


def make_step(torch, sizes, batch, device, compiled):
    """A training step as a function without arguments."""
    torch.manual_seed(1)
    layers = []
    for i, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
        if i > 0:
            layers.append(torch.nn.ReLU())
        layers.append(torch.nn.Linear(inputs, outputs))
    model = torch.nn.Sequential(*layers).to(device)
    forward = torch.compile(model) if compiled else model
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    x = torch.randn(batch, sizes[0], device=device)
    y = torch.randint(0, sizes[-1], (batch,), device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(forward(x), y).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def compare_steps(torch, timer, options):
    candidates = {}
    for sizes, batch in STEPS:
        for mode in ("eager", "compiled"):
            step = make_step(torch, sizes, batch, options.device, mode == "compiled")
            try:
                step()
                candidates[sizes, batch, mode] = step
            except Exception as error:  # torch.compile needs a compiler of its own, which may be missing
                print(f"PyTorch {mode} does not run here: {str(error).splitlines()[0]}", file=sys.stderr)
    ours, theirs = {}, {}
    for _ in range(options.rounds):
        for row in run_benchmark(options, "bench_step")["steps"]:
            ours.setdefault((row["model"], row["batch"]), []).append(row["milliseconds"])
        for key, step in candidates.items():
            theirs.setdefault(key, []).append(timer.median(step, 30 if key[1] > 256 else 200) * 1e3)

    print(f"\n{'training step, ms':<20} {'batch':>6} {'Ringtape':>10} {'eager':>10} {'compiled':>10} {'PyTorch/Ringtape':>17}")
    rows = []
    for sizes, batch in STEPS:
        model = "-".join(map(str, sizes))
        own = statistics.median(ours[model, batch])
        torch_times = {mode: statistics.median(theirs[sizes, batch, mode]) for mode in ("eager", "compiled")
                       if (sizes, batch, mode) in theirs}
        ratio = min(torch_times.values()) / own
        cells = [f"{torch_times[mode]:>10.3f}" if mode in torch_times else f"{'-':>10}" for mode in ("eager", "compiled")]
        print(f"{model:<20} {batch:>6} {own:>10.3f} {cells[0]} {cells[1]} {ratio:>17.2f}")
        rows.append({"model": model, "batch": batch, "ringtape_ms": own, "torch_ms": torch_times, "ratio": ratio})
    return rows


def torch_kernel(torch, kernel, size, device):
    """PyTorch's form of one row of bench_kernels, or None where it has none."""
    functional = torch.nn.functional
    words = size.split()
    if kernel.startswith("cross_entropy, two passes") or kernel.startswith("cross_entropy_fused"):
        rows, classes = int(words[0]), int(words[2])
        dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[words[3]]
        logits = torch.randn(rows, classes, device=device, dtype=dtype, requires_grad=True)
        targets = torch.randint(0, classes, (rows,), device=device)
        return lambda: torch.autograd.grad(functional.cross_entropy(logits, targets), logits)
    if kernel.startswith(("adam_step", "gradient_norm")):
        parameters = [torch.randn(int(words[2]), device=device, requires_grad=True) for _ in range(int(words[0]))]
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        if kernel.startswith("gradient_norm"):
            return lambda: torch.nn.utils.get_total_norm([parameter.grad for parameter in parameters])
        return torch.optim.AdamW(parameters, lr=1e-3, fused=True).step
    if len(words) != 2 or words[1] != "f32":
        return None
    a, b = torch.randn(int(words[0]), device=device), torch.randn(int(words[0]), device=device)
    y = torch.zeros_like(a)
    work = {
        "scale": lambda: torch.mul(a, 0.5, out=y),
        "add": lambda: torch.add(a, b, out=y),
        "axpy": lambda: y.add_(a, alpha=1e-6),
        "multiply": lambda: torch.mul(a, b, out=y),
        "cast to bf16": lambda: a.to(torch.bfloat16),
        "relu_forward": lambda: torch.clamp_min(a, 0, out=y),
        "relu_backward": lambda: torch.ops.aten.threshold_backward(b, a, 0),
        "mse_forward": lambda: functional.mse_loss(a, b),
        "sum_dim, everything": lambda: a.sum(),
    }
    return work.get(kernel)


def compare_kernels(torch, timer, options):
    measured = [run_benchmark(options, "bench_kernels")["kernels"] for _ in range(options.rounds)]
    print(f"\n{'kernel, us':<28} {'size':<20} {'Ringtape':>12} {'PyTorch':>12} {'PyTorch/Ringtape':>17}")
    rows = []
    for i, row in enumerate(measured[0]):
        work = torch_kernel(torch, row["kernel"], row["size"], options.device)
        if work is None:
            continue
        own = statistics.median(run[i]["microseconds"] for run in measured)
        theirs = statistics.median(timer.kernel(work) for _ in range(options.rounds)) * 1e6
        print(f"{row['kernel']:<28} {row['size']:<20} {own:>12.2f} {theirs:>12.2f} {theirs / own:>17.2f}", flush=True)
        rows.append({"kernel": row["kernel"], "size": row["size"], "ringtape_us": own, "torch_us": theirs,
                     "ratio": theirs / own})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", nargs="?", default="all", choices=["steps", "kernels", "all"])
    parser.add_argument("--bin", default="build/release/bin", help="where bench_step and bench_kernels are")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", help="also write the rows to this file")
    options = parser.parse_args()
    if options.rounds < 1 or options.threads < 1:
        parser.error("--rounds and --threads must be at least 1")
    try:
        import torch
    except ImportError:
        sys.exit("error: PyTorch is missing, so there is nothing to compare with: pip install torch, or Debian's "
                 "python3-torch")
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("error: PyTorch sees no GPU here: expected one for --device cuda")
    torch.set_num_threads(options.threads)
    timer = Timer(torch, options.device)

    machine = run_benchmark(options, "bench_step")["description"]
    print(f"{machine}; {options.threads} threads; PyTorch {torch.__version__}; medians of {options.rounds} rounds")
    result = {"machine": machine, "threads": options.threads, "torch": torch.__version__}
    if options.work != "kernels":
        result["steps"] = compare_steps(torch, timer, options)
    if options.work != "steps":
        result["kernels"] = compare_kernels(torch, timer, options)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=2)


if __name__ == "__main__":
    main()
