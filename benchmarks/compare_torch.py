#!/usr/bin/env python3
"""Runs the same training steps by Ringtape and by PyTorch, in turn, and prints both and their ratio.

    benchmarks/compare_torch.py [--bench build/bin/bench_step] [--device cpu|cuda] [--rounds 3] [--threads N]

A step is forward, cross-entropy, backward, gradient-norm clipping and Adam (PyTorch's fused one, and the better of its
eager and compiled modes). Both sides use the same number of threads and random data. Each round runs both sides one
after the other, so that a machine whose speed drifts is the same for both; the ratio is that of the medians.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

PROBLEMS = [((784, 256, 10), 64), ((784, 1024, 1024, 10), 128), ((784, 2048, 2048, 10), 512)]


def ringtape_round(bench, device, threads):
    """Milliseconds by (model, batch), as bench_step measures them."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
        subprocess.run([bench, "--device", device, "--json", file.name], check=True, env=environment,
                       stdout=subprocess.DEVNULL)
        result = json.load(open(file.name))
    return result["description"], {(row["model"], row["batch"]): row["milliseconds"] for row in result["steps"]}


class TorchStep:
    """One model with its training step, eager or compiled."""

    def __init__(self, torch, sizes, batch, device, compiled):
        torch.manual_seed(1)
        layers = []
        for i, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
            if i > 0:
                layers.append(torch.nn.ReLU())
            layers.append(torch.nn.Linear(inputs, outputs))
        self.torch = torch
        self.device = device
        self.model = torch.nn.Sequential(*layers).to(device)
        self.forward = torch.compile(self.model) if compiled else self.model
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, fused=True)
        self.x = torch.randn(batch, sizes[0], device=device)
        self.y = torch.randint(0, sizes[-1], (batch,), device=device)
        self.repeats = 30 if batch > 256 else 200

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.torch.nn.functional.cross_entropy(self.forward(self.x), self.y)
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()

    def synchronize(self):
        if self.device != "cpu":
            self.torch.cuda.synchronize()

    def milliseconds(self):
        for _ in range(self.repeats // 10):
            self.step()
        times = []
        for _ in range(self.repeats):
            self.synchronize()
            start = time.perf_counter()
            self.step()
            self.synchronize()
            times.append(time.perf_counter() - start)
        return statistics.median(times) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build/bin/bench_step")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", help="also write the rows to this file")
    options = parser.parse_args()
    if not os.path.exists(options.bench):
        sys.exit(f"error: {options.bench} was not found: build it first, or name it with --bench")
    try:
        import torch
    except ImportError:
        sys.exit("error: PyTorch is missing, so there is nothing to compare with: pip install torch, or Debian's "
                 "python3-torch")
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("error: PyTorch sees no GPU here: expected one for --device cuda")
    torch.set_num_threads(options.threads)

    candidates = {}
    for sizes, batch in PROBLEMS:
        for mode in ("eager", "compiled"):
            step = TorchStep(torch, sizes, batch, options.device, mode == "compiled")
            try:
                step.step()
                candidates[sizes, batch, mode] = step
            except Exception as error:  # torch.compile needs a compiler of its own, which may be missing
                print(f"PyTorch {mode} does not run here: {str(error).splitlines()[0]}", file=sys.stderr)

    ours, theirs = {}, {}
    for _ in range(options.rounds):
        machine, times = ringtape_round(options.bench, options.device, options.threads)
        for key, value in times.items():
            ours.setdefault(key, []).append(value)
        for key, step in candidates.items():
            theirs.setdefault(key, []).append(step.milliseconds())

    print(f"{machine}; {options.threads} threads; PyTorch {torch.__version__}; median of {options.rounds} rounds, ms a step\n")
    print(f"{'model':<20} {'batch':>6} {'Ringtape':>10} {'eager':>10} {'compiled':>10} {'best/ours':>10}")
    rows = []
    for sizes, batch in PROBLEMS:
        model = "-".join(map(str, sizes))
        own = statistics.median(ours[model, batch])
        torch_times = {mode: statistics.median(theirs[sizes, batch, mode]) for mode in ("eager", "compiled")
                       if (sizes, batch, mode) in theirs}
        best = min(torch_times.values())
        cells = [f"{torch_times[mode]:>10.3f}" if mode in torch_times else f"{'-':>10}" for mode in ("eager", "compiled")]
        print(f"{model:<20} {batch:>6} {own:>10.3f} {cells[0]} {cells[1]} {best / own:>10.2f}")
        rows.append({"model": model, "batch": batch, "ringtape_ms": own, "torch_ms": torch_times, "ratio": best / own})
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"machine": machine, "threads": options.threads, "torch": torch.__version__, "rows": rows}, file,
                      indent=2)


if __name__ == "__main__":
    main()
