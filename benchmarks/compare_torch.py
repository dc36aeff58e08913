#!/usr/bin/env python3
"""Runs the same work in Ringtape and in PyTorch, alternately, and prints both and their ratio.

    benchmarks/compare_torch.py [steps|busy|kernels|gemm|attention|loader|all] [--bin build/release/bin] [--device cpu|cuda] [--threads N]

steps    whole training steps of multilayer perceptrons: forward, cross-entropy, backward, gradient-norm clipping and
         Adam (PyTorch's fused one; the better of its eager and compiled modes)
busy     the smallest of these steps on an idle CPU and beside as many busy processes as there are cores, as bench_busy
         (PyTorch's eager mode)
kernels  single kernels, as bench_kernels lists them, where PyTorch has the same work
gemm     matrix products by the vendor's library, as bench_gemm lists them
attention
         causal self-attention, forward and with the backward, as bench_attention lists it
loader   shuffled batches of MNIST's size: PyTorch's DataLoader, and rows taken by a random permutation

Both sides use the same number of threads and random data. Each round runs both sides one after the other, so that a
machine whose speed drifts is the same for both; a ratio is that of the medians over the rounds. But a kernel's is the median
of the rounds' ratios, and one that memory bounds is measured beside a copy on each side, and its ratio is that of the times
over the copy's: it need not be that of the two times shown. --json writes what bench_step and the others write
(profile/result_file.h), with "torch_seconds" in each row, and "torch_ratio" in a kernel's.
"""
import argparse
import contextlib
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

STEPS = [((784, 256, 10), 64), ((784, 1024, 1024, 10), 128), ((784, 2048, 2048, 10), 512)]


def run_benchmark(options, program):
    """The content of `program --json`; its description of machine and build is kept in the options."""
    path = os.path.join(options.bin, program)
    if not os.path.exists(path):
        sys.exit(f"error: {path} was not found: build it first, or name its folder with --bin")
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        device = [] if program in ("bench_busy", "bench_loader") else ["--device", options.device]
        subprocess.run([path, *device, "--json", file.name], check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, OMP_NUM_THREADS=str(options.threads)))
        with open(file.name) as written:  # the file itself has been replaced
            result = json.load(written)
    options.described = {key: result[key] for key in ("date", "revision", "machine") if key in result}
    return result


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
        """For work that may be shorter than the clock's overhead: many calls between two readings."""
        work()
        self.synchronize()
        start = time.perf_counter()
        work()
        self.synchronize()
        repeats = min(1000, max(1, int(2e-3 / (time.perf_counter() - start))))
        return self.median(lambda: [work() for _ in range(repeats)], 11) / repeats

    def beside_copy(self, work, copy):
        """The seconds of `work`, and of `copy`, measured in turns: the medians of 15."""
        def seconds(function):
            self.synchronize()
            start = time.perf_counter()
            function()
            self.synchronize()
            return time.perf_counter() - start

        pairs = [(seconds(work), seconds(copy)) for _ in range(18)][3:]
        return statistics.median(own for own, _ in pairs), statistics.median(of_copy for _, of_copy in pairs)


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


def merged(runs):
    """The rows of several runs of one program as one list, with the medians of their seconds."""
    rows = [dict(row) for row in runs[0]["rows"]]
    for i, row in enumerate(rows):
        row["seconds"] = statistics.median(run["rows"][i]["seconds"] for run in runs)
    return rows


def table_row(row, theirs, ratio=None):
    """Prints PyTorch's measured time, and its ratio to Ringtape's: without `ratio` that of the two times."""
    if ratio:
        row = dict(row, torch_ratio=ratio)
    else:
        ratio = theirs / row["seconds"]
    print(f"{row['name']:<30} {row['size']:<22} {row['seconds'] * 1e6:>12.2f} {theirs * 1e6:>12.2f} {ratio:>17.2f}",
          flush=True)
    return dict(row, torch_seconds=theirs)


def table_head(what):
    print(f"\n{what + ', us':<30} {'size':<22} {'Ringtape':>12} {'PyTorch':>12} {'PyTorch/Ringtape':>17}")


def compare_steps(torch, timer, options):
    candidates = {}
    for sizes, batch in STEPS:
        for mode in ("eager", "compiled"):
            step = make_step(torch, sizes, batch, options.device, mode == "compiled")
            try:
                step()
                candidates[sizes, batch, mode] = step
            except Exception as error:  # torch.compile needs a compiler, which may be missing
                print(f"PyTorch {mode} does not run here: {str(error).splitlines()[0]}", file=sys.stderr)
    runs, theirs = [], {}
    for _ in range(options.rounds):
        runs.append(run_benchmark(options, "bench_step"))
        for key, step in candidates.items():
            theirs.setdefault(key, []).append(timer.median(step, 30 if key[1] > 256 else 200))

    print(f"\n{'training step, ms':<20} {'batch':>6} {'Ringtape':>10} {'eager':>10} {'compiled':>10} {'PyTorch/Ringtape':>17}")
    rows = []
    for (sizes, batch), row in zip(STEPS, merged(runs)):
        model = "-".join(map(str, sizes))
        assert (row["model"], row["batch"]) == (model, batch), row
        modes = {mode: statistics.median(theirs[sizes, batch, mode]) for mode in ("eager", "compiled")
                 if (sizes, batch, mode) in theirs}
        best = min(modes.values())
        cells = [f"{modes[mode] * 1e3:>10.3f}" if mode in modes else f"{'-':>10}" for mode in ("eager", "compiled")]
        print(f"{model:<20} {batch:>6} {row['seconds'] * 1e3:>10.3f} {cells[0]} {cells[1]} {best / row['seconds']:>17.2f}")
        rows.append(dict(row, torch_seconds=best, torch_modes=modes))
    settings = runs[-1]["settings"]
    return rows, {"large_product_gflop_per_s": settings["large_product_gflop_per_s"], "gemm": settings["gemm"]}


@contextlib.contextmanager
def busy_processes(count):
    """`count` processes that only compute, each in its own session."""
    processes = [subprocess.Popen(["sh", "-c", "while :; do :; done"], start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def compare_busy(torch, timer, options):
    def mean_step(seconds):
        start, steps = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            step()
            steps += 1
        return (time.perf_counter() - start) / steps

    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))  # a real-time process and the load would not compete
    step = make_step(torch, *STEPS[0], "cpu", False)
    mean_step(0.5)  # to warm up
    runs, theirs = [], ([], [])
    for _ in range(options.rounds):
        runs.append(run_benchmark(options, "bench_busy"))
        theirs[0].append(mean_step(1))
        with busy_processes(runs[-1]["settings"]["processes"]):
            theirs[1].append(mean_step(1))
    table_head("mean training step")
    return [table_row(row, statistics.median(of_row)) for row, of_row in zip(merged(runs), theirs)]


# PyTorch's form of the rows of bench_kernels of one size, by the rows' names: made once for the rows that follow one
# another.

@functools.lru_cache(maxsize=1)
def torch_cross_entropy(torch, size, device):
    functional = torch.nn.functional
    rows, _, classes, dtype = size.split()
    rows, classes, dtype = int(rows), int(classes), {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
    logits = torch.randn(rows, classes, device=device, dtype=dtype)
    targets = torch.randint(0, classes, (rows,), device=device)
    of_both = logits.clone().requires_grad_()

    def both():
        return torch.autograd.grad(functional.cross_entropy(of_both, targets), of_both)

    return {
        "cross_entropy_forward": lambda: functional.cross_entropy(logits, targets),
        "cross_entropy, two passes": both,
        "cross_entropy_fused": both,
        "count_correct": lambda: (logits.argmax(1) == targets).sum(),
    }


@functools.lru_cache(maxsize=1)
def torch_arena(torch, size, device):
    """Norms, clipping and optimizers over a list of parameters."""
    words = size.split()
    lengths = gpt2_lengths() if size == "148 of GPT-2" else [int(words[2])] * int(words[0])
    parameters = [torch.randn(length, device=device, requires_grad=True) for length in lengths]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    gradients = [parameter.grad for parameter in parameters]
    norm = torch.nn.utils.get_total_norm(gradients)
    largest = float(norm) * 0.99999
    return {  # PyTorch has no LARS and LAMB, and its AdamW writes no 16-bit copy
        "gradient_norm": lambda: torch.nn.utils.get_total_norm(gradients),
        "gradient_norm, largest": lambda: torch.nn.utils.get_total_norm(gradients, norm_type=float("inf")),
        "clip_gradients": lambda: torch.nn.utils.clip_grads_with_norm_(parameters, largest, norm),
        "clip_value": lambda: torch.nn.utils.clip_grad_value_(parameters, 3.0),
        "adamw_step": torch.optim.AdamW(parameters, lr=1e-3, fused=True).step,
        "sgd_momentum_step":
            torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, weight_decay=0.01, fused=True).step,
    }


def gpt2_lengths():
    """Those of bench_kernels."""
    width = 768
    lengths = [50257 * width, 1024 * width]
    for _ in range(12):
        for inputs, outputs in ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)):
            lengths += [inputs * outputs, outputs]
        lengths += [width] * 4
    return lengths + [width] * 2


@functools.lru_cache(maxsize=1)
def torch_matrix(torch, size, device):
    rows, columns = int(size.split()[0]), int(size.split()[2])
    x, y = torch.randn(rows, columns, device=device), torch.empty(rows, columns, device=device)
    bias, of_row = 1e-6 * torch.randn(columns, device=device), torch.randn(rows, 1, device=device)
    return {
        "sum_dim, rows": lambda: x.sum(1),
        "sum_dim, columns": lambda: x.sum(0),
        "broadcast_dim, along rows": lambda: y.copy_(of_row.expand_as(y)),
        "bias_add": lambda: x.add_(bias),
        "bias_gradient": lambda: x.sum(0),
    }


@functools.lru_cache(maxsize=1)
def torch_elements(torch, n, device):
    a, b = torch.randn(n, device=device), torch.randn(n, device=device)
    y, one = torch.zeros_like(a), torch.ones((), device=device)
    bf16, f16 = a.bfloat16(), a.half()
    pixels = torch.randint(0, 256, (n,), device=device, dtype=torch.uint8)
    factor = torch.full((), 0.9999999, device=device)
    aten = torch.ops.aten
    return {
        "fill": lambda: y.fill_(1.0),
        "arange": lambda: torch.arange(0, n * 0.5, 0.5, out=y),
        "scale": lambda: torch.mul(a, 0.5, out=y),
        "scale_by_device": lambda: a.mul_(factor),
        "divide_by": lambda: a.div_(1.0000001),
        "add": lambda: torch.add(a, b, out=y),
        "axpy": lambda: y.add_(a, alpha=1e-6),
        "multiply": lambda: torch.mul(a, b, out=y),
        "cast f32 to bf16": lambda: bf16.copy_(a),
        "cast f32 to f16": lambda: f16.copy_(a),
        "cast bf16 to f32": lambda: y.copy_(bf16),
        "cast f16 to f32": lambda: y.copy_(f16),
        "normalize_u8": lambda: torch.mul(pixels, 1 / (255 * 0.31), out=y).sub_(0.13 / 0.31),
        "uniform": lambda: y.uniform_(),
        "normal": lambda: y.normal_(),
        "largest_abs": lambda: torch.linalg.vector_norm(a, float("inf")),
        "relu_forward": lambda: torch.clamp_min(a, 0, out=y),
        "relu_backward": lambda: aten.threshold_backward.grad_input(b, a, 0, grad_input=y),
        "mse_forward": lambda: torch.nn.functional.mse_loss(a, b),
        "mse_backward": lambda: aten.mse_loss_backward.grad_input(one, a, b, 1, grad_input=y),
        "sum_dim, everything": lambda: a.sum(),
    }


def torch_copy_rows(torch, rows, device):
    x, y = torch.randn(rows, 1024, device=device), torch.empty(rows, 512, device=device)
    return lambda: y.copy_(x[:, :512])


def torch_kernel(torch, kernel, size, device):
    """PyTorch's form of one row of bench_kernels, or None if it has none."""
    if kernel.startswith("copy_rows"):
        return torch_copy_rows(torch, int(size.split()[0]), device)
    if kernel.startswith("cross_entropy") or kernel == "count_correct":
        return torch_cross_entropy(torch, size, device).get(kernel)
    if kernel.endswith("_step") or kernel.startswith(("gradient_norm", "clip_")):
        return torch_arena(torch, size, device).get(kernel)
    if " x " in size:
        return torch_matrix(torch, size, device).get(kernel)
    return torch_elements(torch, int(size.split()[0]), device).get(kernel)


def time_and_ratio(torch, timer, row, work, device):
    """PyTorch's seconds, and their ratio to Ringtape's. The rate of a machine's memory may double within a minute, so kernels
    that it bounds are measured beside a copy of the same bytes, as bench_kernels does, and compared by that. (Both copies take
    equal times within 5%, measured one after the other.)"""
    if row["bytes"] < 1 << 24 or row["seconds"] > 2 * row["limit_seconds"]:
        seconds = timer.kernel(work)
        return seconds, seconds / row["seconds"]
    copied = min(int(row["bytes"]), 1 << 29)
    source, target = torch.randn(copied // 8, device=device), torch.empty(copied // 8, device=device)
    limit = row["limit_seconds"] * copied / row["bytes"]
    seconds, of_copy = timer.beside_copy(work, lambda: target.copy_(source))
    return seconds, (seconds / of_copy) / (row["seconds"] / limit)


def compare_kernels(torch, timer, options):
    runs, measured = [], {}
    for _ in range(options.rounds):
        runs.append(run_benchmark(options, "bench_kernels"))
        for row in runs[-1]["rows"]:
            work = torch_kernel(torch, row["name"], row["size"], options.device)
            if work is not None:
                key = row["name"], row["size"]
                measured.setdefault(key, []).append(time_and_ratio(torch, timer, row, work, options.device))
    table_head("kernel")
    keys = [(row["name"], row["size"]) for row in runs[0]["rows"]]
    return [table_row(row, *map(statistics.median, zip(*measured[key]))) for row, key in zip(merged(runs), keys) if key in measured]


def compare_products(torch, timer, options):
    def work_of(name, size):
        m, n, k = (int(word) for word in size.split()[:5:2])
        shapes = {"Y = X W^T + b": ((m, k), (n, k)), "dX = dY W": ((m, k), (k, n)), "dW += dY^T X": ((k, m), (k, n)),
                  "C = A B": ((m, k), (k, n))}[name]
        a, b = (torch.rand(shape, device=options.device) * 2 - 1 for shape in shapes)
        c, bias = torch.zeros(m, n, device=options.device), torch.randn(n, device=options.device)
        if name == "Y = X W^T + b":
            return lambda: torch.nn.functional.linear(a, b, bias)
        if name == "dW += dY^T X":
            return lambda: c.addmm_(a.t(), b)
        return lambda: torch.mm(a, b, out=c)

    runs, theirs = [], {}
    for _ in range(options.rounds):
        runs.append(run_benchmark(options, "bench_gemm"))
        for row in runs[0]["rows"]:
            way, name = row["name"].split(": ")
            if way == "vendor":
                theirs.setdefault((row["name"], row["size"]), []).append(timer.kernel(work_of(name, row["size"])))
    table_head("product")
    return [table_row(row, statistics.median(theirs[row["name"], row["size"]])) for row in merged(runs)
            if row["name"].startswith("vendor")]


def compare_attention(torch, timer, options):
    def work_of(row):
        batch, tokens, heads, width = (row[key] for key in ("batch", "tokens", "heads", "width"))
        qkv = torch.randn(batch, tokens, 3 * heads * width, device=options.device, requires_grad=True)
        gradient = torch.randn(batch, tokens, heads * width, device=options.device)

        def forward():
            q, k, v = (x.view(batch, tokens, heads, width).transpose(1, 2) for x in qkv.split(heads * width, 2))
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return y.transpose(1, 2).reshape(batch, tokens, heads * width)

        if row["name"] == "forward":
            return torch.no_grad()(forward)
        return lambda: torch.autograd.grad(forward(), qkv, gradient)

    runs, theirs = [], {}
    for _ in range(options.rounds):
        runs.append(run_benchmark(options, "bench_attention"))
        for row in runs[0]["rows"]:
            calls = 3 if row["tokens"] > 1024 else 21
            theirs.setdefault((row["name"], row["size"]), []).append(timer.median(work_of(row), calls))
    table_head("attention")
    return [table_row(row, statistics.median(theirs[row["name"], row["size"]])) for row in merged(runs)]


def compare_loader(torch, timer, options):
    batch, samples = 64, 60000
    pixels = torch.randint(0, 256, (samples, 784), dtype=torch.uint8)
    classes = torch.randint(0, 10, (samples,))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(pixels, classes), batch_size=batch,
                                         shuffle=True, drop_last=True)
    batches = samples // batch

    def by_permutation():
        order = torch.randperm(samples)
        for i in range(batches):
            rows = order[i * batch:(i + 1) * batch]
            pixels[rows], classes[rows]

    runs = [run_benchmark(options, "bench_loader") for _ in range(options.rounds)]
    row = next(row for row in merged(runs) if row["name"] == "batch, 0 prefetch threads, alone")
    table_head("loader")
    return [table_row(dict(row, name="batch, DataLoader"), timer.median(lambda: [None for _ in loader], 3) / batches),
            table_row(dict(row, name="batch, rows by a permutation"), timer.median(by_permutation, 5) / batches)]


WORK = {"steps": compare_steps, "busy": compare_busy, "kernels": compare_kernels, "gemm": compare_products,
        "attention": compare_attention, "loader": compare_loader}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", nargs="?", default="all", choices=[*WORK, "all"])
    parser.add_argument("--bin", default="build/release/bin", help="folder of the benchmark programs")
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
        sys.exit("error: found no PyTorch: pip install torch, or Debian's "
                 "python3-torch")
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("error: PyTorch sees no GPU here: expected one for --device cuda")
    torch.set_num_threads(options.threads)
    timer = Timer(torch, options.device)

    print(f"{options.threads} threads; PyTorch {torch.__version__}; medians of {options.rounds} rounds")
    settings = {"torch": torch.__version__, "rounds": options.rounds}
    rows = []
    for work in WORK if options.work == "all" else [options.work]:
        if work == "busy" and options.device != "cpu":
            continue  # measures a CPU's threads
        found = WORK[work](torch, timer, options)
        if work == "steps":
            found, of_steps = found
            settings.update(of_steps)
        rows += found
    if options.json:
        result = dict(options.described, program="compare_torch", settings=settings, rows=rows)
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
