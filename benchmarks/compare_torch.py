#!/usr/bin/env python3
"""Runs the same work in Ringtape and in PyTorch, alternately, and prints both times and their ratio.

    benchmarks/compare_torch.py [steps|busy|kernels|gemm|attention|loader|all] [--bin build/release/bin]
                                [--device cpu|cuda] [--threads N]

steps    whole training steps of multilayer perceptrons: forward, cross-entropy, backward, gradient-norm clipping and
         Adam (PyTorch's fused one; the better of its eager and compiled modes)
busy     the smallest of these steps on an idle CPU and beside one busy process per core, as in bench_busy (PyTorch's eager
         mode)
kernels  the kernels of bench_kernels for which PyTorch has the same work
gemm     the matrix products of bench_gemm, by the vendor's library
attention
         the causal self-attention of bench_attention, forward and with the backward
loader   shuffled batches of MNIST's size: PyTorch's DataLoader, and rows taken by a random permutation

Both sides use the same number of threads and random data. Each round runs both sides one after the other, so that changes of
the machine's speed affect both; a ratio is the ratio of the medians over the rounds. A kernel that is bound by memory on both
sides is measured in turn with a copy on each side, and its ratio is the median over the rounds of the ratio of its times, each
relative to its copy's; it may differ from the ratio of the two times shown. --json writes a result file as bench_step does
(profile/result_file.h), with "torch_seconds" in each row, and "torch_ratio" in a kernel's row.
"""
import argparse
import contextlib
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "scripts"))
import result_files  # noqa: E402

# Rounds and the least seconds of a round, as in bench_kernels and bench_gemm.
KERNEL_ROUNDS, PRODUCT_ROUNDS = (15, 2e-3), (21, 3e-3)
STEPS = [((784, 256, 10), 64), ((784, 1024, 1024, 10), 128), ((784, 2048, 2048, 10), 512)]


def run_benchmark(options, program):
    """The content of the file that `program --json` writes. `options` keeps the description of machine and build, and the share
    of its time that each run waited for a core."""
    path = os.path.join(options.bin, program)
    if not os.path.exists(path):
        sys.exit(f"error: {path} was not found: build it first, or name its folder with --bin")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / f"{program}.json"
        device = [] if program in ("bench_busy", "bench_loader") else ["--device", options.device]
        run = subprocess.run([path, *device, "--json", file], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                             env=dict(os.environ, OMP_NUM_THREADS=str(options.threads)), check=False)
        if run.returncode != 0:
            said = run.stderr.strip().splitlines() or ["nothing on standard error"]
            sys.exit(f"error: {path} ended with {run.returncode}: {said[-1].removeprefix('error: ')}")
        try:
            result = result_files.read(file)
        except result_files.ResultsError as error:
            sys.exit(f"error: {path} wrote no result file: {error}")
    described = {key: result[key] for key in ("date", "revision", "machine") if key in result}
    if described["machine"] != options.described.setdefault("machine", described["machine"]):
        sys.exit(f"error: {path} describes another machine or device than the program before: expected one for all")
    options.described.update(described)
    options.waited.append(result.get("waited_for_core"))
    return result


class Timer:
    """Times PyTorch's functions as trace/timing.h times Ringtape's: on a GPU by events on its stream."""

    LONG_RUN, ROUNDS_OF_LONG_RUNS, MOST_RUNS = 0.25, 3, 1000

    def __init__(self, torch, device):
        self.torch, self.is_on_gpu = torch, device == "cuda"

    def seconds(self, work, runs):
        """Seconds of a run: the mean of `runs` in a row."""
        if self.is_on_gpu:
            start, stop = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(runs):
                work()
            stop.record()
            stop.synchronize()
            return start.elapsed_time(stop) * 1e-3 / runs
        start = time.perf_counter()
        for _ in range(runs):
            work()
        return (time.perf_counter() - start) / runs

    def in_turn(self, works, rounds, round_seconds):
        """The median seconds of a run of each work. The works take turns; a round has enough runs to take `round_seconds`."""
        runs, longest = [], 0
        for work in works:
            work()
            once = max(self.seconds(work, 1), 1e-9)
            longest = max(longest, once)
            runs.append(int(min(max(round_seconds / once, 1), self.MOST_RUNS)))
        rounds = min(rounds, self.ROUNDS_OF_LONG_RUNS) if longest > self.LONG_RUN else rounds
        times = [[self.seconds(work, n) for work, n in zip(works, runs)] for _ in range(rounds)]
        return [statistics.median(of_work) for of_work in zip(*times)]


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
    """Merges several runs of one program: the medians of their numbers, but the minimum of "least_seconds" and the maximum of
    "most_seconds"; rates follow from the medians."""
    for run in runs:
        for difference in result_files.differing_settings(runs[0], run):
            sys.exit(f"error: two runs of {run['program']} have different settings: {difference}")
        if [(row["name"], row["size"]) for row in run["rows"]] != [(row["name"], row["size"]) for row in runs[0]["rows"]]:
            sys.exit(f"error: two runs of {run['program']} have different rows")

    def of_runs(values, name):
        if any(isinstance(value, str) for value in values):
            return values[0]
        return (min if name == "least_seconds" else max if name == "most_seconds" else statistics.median)(values)

    rows = []
    for of_row in zip(*(run["rows"] for run in runs)):
        row = {name: of_runs([one[name] for one in of_row if name in one], name) for name in of_row[0]}
        for rate, amount in (("gflop_per_s", "flops"), ("gb_per_s", "bytes")):
            if rate in row:
                row[rate] = row[amount] / row["seconds"] * 1e-9
        rows.append(row)
    return rows


def median_setting(runs, name):
    return statistics.median(run["settings"][name] for run in runs)


def table_row(row, theirs, ratio=None):
    """Prints PyTorch's measured time and `ratio`, or else the ratio of the two times. Returns the row with both."""
    if ratio is None:
        ratio = theirs / row["seconds"]
    else:
        row = dict(row, torch_ratio=ratio)
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
            theirs.setdefault(key, []).extend(timer.in_turn([step], 30 if key[1] > 256 else 200, 0))

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
    return rows, {"limit_gflop_per_s": median_setting(runs, "limit_gflop_per_s"), "gemm": runs[0]["settings"]["gemm"]}


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

    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))  # with a real-time policy the load would not compete
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


# PyTorch's counterparts of the rows of bench_kernels with one size, by the names of the rows. Made once for consecutive rows
# of one size.

@functools.lru_cache(maxsize=1)
def torch_cross_entropy(torch, size, device):
    functional, aten = torch.nn.functional, torch.ops.aten
    rows, _, classes, dtype = size.split()
    rows, classes, dtype = int(rows), int(classes), {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
    logits = torch.randn(rows, classes, device=device, dtype=dtype)
    targets = torch.randint(0, classes, (rows,), device=device)
    log_probabilities = torch.empty_like(logits)
    of_both = logits.clone().requires_grad_()

    def forward():  # functional.cross_entropy(logits, targets) without new memory for the intermediate result
        return functional.nll_loss(aten._log_softmax.out(logits, 1, False, out=log_probabilities), targets)

    def both():
        return torch.autograd.grad(functional.cross_entropy(of_both, targets), of_both)

    return {
        "cross_entropy_forward": forward,
        "cross_entropy, two passes": both,
        "cross_entropy_fused": both,
        "count_correct": lambda: (logits.argmax(1) == targets).sum(),
    }


@functools.lru_cache(maxsize=1)
def torch_arena(torch, size, device):
    """Norms, clipping and optimizers over a list of parameters, as rows of an arena have them."""
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
    """The lengths of GPT-2's parameters, as in bench_kernels."""
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
    factor, shift = (torch.full((), value, device=device) for value in (0.9999999, -0.13 / 0.31))
    aten = torch.ops.aten

    def largest_abs():
        least, largest = torch.aminmax(a)
        return torch.maximum(largest, -least)

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
        "normalize_u8": lambda: torch.add(shift, y.copy_(pixels), alpha=1 / (255 * 0.31), out=y),
        "uniform": lambda: y.uniform_(),
        "normal": lambda: y.normal_(),
        "largest_abs": largest_abs,
        "relu_forward": lambda: torch.clamp_min(a, 0, out=y),
        "relu_backward": lambda: aten.threshold_backward.grad_input(b, a, 0, grad_input=y),
        "mse_forward": lambda: aten.mse_loss.out(a, b, 0, out=y).mean(),
        "mse_backward": lambda: aten.mse_loss_backward.grad_input(one, a, b, 1, grad_input=y),
        "sum_dim, everything": lambda: a.sum(),
    }


def torch_copy_rows(torch, rows, device):
    x, y = torch.randn(rows, 1024, device=device), torch.empty(rows, 512, device=device)
    return lambda: y.copy_(x[:, :512])


def torch_kernel(torch, kernel, size, device):
    """PyTorch's counterpart of one row of bench_kernels; None if there is none."""
    if kernel.startswith("copy_rows"):
        return torch_copy_rows(torch, int(size.split()[0]), device)
    if kernel.startswith("cross_entropy") or kernel == "count_correct":
        return torch_cross_entropy(torch, size, device).get(kernel)
    if kernel.endswith("_step") or kernel.startswith(("gradient_norm", "clip_")):
        return torch_arena(torch, size, device).get(kernel)
    if " x " in size:
        return torch_matrix(torch, size, device).get(kernel)
    return torch_elements(torch, int(size.split()[0]), device).get(kernel)


def times_of_round(torch, timer, row, work, device):
    """The times of a kernel in one round, as {own, own_copy, torch, torch_copy}. Each copy has as many bytes as its kernel and
    is measured in turn with it. Without the copies if a cache may hold the bytes."""
    if row["bytes"] < 1 << 24:
        return {"own": row["seconds"], "torch": timer.in_turn([work], *KERNEL_ROUNDS)[0]}
    copied = min(int(row["bytes"]), 1 << 29)
    source, target = torch.randn(copied // 8, device=device), torch.empty(copied // 8, device=device)
    seconds, of_copy = timer.in_turn([work, lambda: target.copy_(source)], *KERNEL_ROUNDS)
    return {"own": row["seconds"], "own_copy": row["limit_seconds"], "torch": seconds,
            "torch_copy": of_copy * row["bytes"] / copied}


def time_and_ratio(rounds):
    """PyTorch's seconds, and their ratio to Ringtape's, from the times of all rounds. The rate of a machine's memory may double
    within a minute, so a kernel that takes at most twice its copy's time on both sides is compared by the copies. (Measured one
    after the other, the two copies take the same time within 5%.)"""
    median = {name: statistics.median(times[name] for times in rounds) for name in rounds[0]}
    if "own_copy" not in median or any(median[side] > 2 * median[f"{side}_copy"] for side in ("own", "torch")):
        return median["torch"], median["torch"] / median["own"]
    return median["torch"], statistics.median((times["torch"] / times["torch_copy"]) / (times["own"] / times["own_copy"])
                                              for times in rounds)


def check_lengths(row):
    """Checks that both sides have GPT-2's parameters: the Euclidean norm reads each f32 element once."""
    if (row["name"], row["size"]) == ("gradient_norm", "148 of GPT-2") and row["bytes"] != 4 * sum(gpt2_lengths()):
        sys.exit(f"error: bench_kernels has {row['bytes'] / 4:.0f} elements in {row['size']}, expected {sum(gpt2_lengths())}")


def compare_kernels(torch, timer, options):
    runs, measured = [], {}
    for _ in range(options.rounds):
        runs.append(run_benchmark(options, "bench_kernels"))
        for row in runs[-1]["rows"]:
            check_lengths(row)
            work = torch_kernel(torch, row["name"], row["size"], options.device)
            if work is not None:
                key = row["name"], row["size"]
                measured.setdefault(key, []).append(times_of_round(torch, timer, row, work, options.device))
    table_head("kernel")
    rows = [row for row in merged(runs) if (row["name"], row["size"]) in measured]
    return [table_row(row, *time_and_ratio(measured[row["name"], row["size"]])) for row in rows]


def compare_products(torch, timer, options):
    def work_of(name, size):
        m, n, k = (int(word) for word in size.split()[:5:2])
        shapes = {"Y = X W^T + b": ((m, k), (n, k)), "dX = dY W": ((m, k), (k, n)), "dW += dY^T X": ((k, m), (k, n)),
                  "C = A B": ((m, k), (k, n))}[name]
        a, b = (torch.rand(shape, device=options.device) * 2 - 1 for shape in shapes)
        c, bias = torch.zeros(m, n, device=options.device), torch.randn(n, device=options.device)
        if name == "Y = X W^T + b":
            return lambda: torch.addmm(bias, a, b.t(), out=c)
        if name == "dW += dY^T X":
            return lambda: c.addmm_(a.t(), b)
        return lambda: torch.mm(a, b, out=c)

    runs, theirs = [], {}
    for _ in range(options.rounds):
        runs.append(run_benchmark(options, "bench_gemm"))
        for row in runs[0]["rows"]:
            way, name = row["name"].split(": ")
            if way == "vendor":
                theirs.setdefault((row["name"], row["size"]), []).extend(
                    timer.in_turn([work_of(name, row["size"])], *PRODUCT_ROUNDS))
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
            rounds = 5 if row["tokens"] > 1024 else 21
            theirs.setdefault((row["name"], row["size"]), []).extend(timer.in_turn([work_of(row)], rounds, 5e-3))
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

    def by_loader():
        for _ in loader:
            pass

    ways = {"batch, DataLoader": by_loader, "batch, rows by a permutation": by_permutation}
    runs, theirs = [], {name: [] for name in ways}
    for _ in range(options.rounds):
        runs.append(run_benchmark(options, "bench_loader"))
        for name, epoch in ways.items():
            theirs[name] += timer.in_turn([epoch], 5, 0)
    row = next(row for row in merged(runs) if row["name"] == "batch, 0 prefetch threads, alone")
    table_head("loader")
    return [table_row(dict(row, name=name), statistics.median(seconds) / batches) for name, seconds in theirs.items()]


WORK = {"steps": compare_steps, "busy": compare_busy, "kernels": compare_kernels, "gemm": compare_products,
        "attention": compare_attention, "loader": compare_loader}
OF_A_CPU = ("busy", "loader")  # these measure a CPU's threads


def check_writable(path):
    """Ends the program with an error, before anything is measured, if the file cannot be written."""
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path) or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        sys.exit(f"error: {path} cannot be written: expected a file in a folder that can be written")


def write_whole(path, text):
    """Replaces the file atomically, so that no reader sees half of it."""
    with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(path) or ".", delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def build_of_torch(torch):
    """PyTorch's compiler, libraries and instruction set; without its flags, which name folders of the machine that built it."""
    return torch.__config__.show().split("  - Build settings:")[0]


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
    if options.work in OF_A_CPU and options.device != "cpu":
        parser.error(f"{options.work} measures a CPU's threads: expected --device cpu")
    if options.json is not None:
        check_writable(options.json)
    options.described, options.waited = {}, []
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
    settings = {"torch": torch.__version__, "torch_build": build_of_torch(torch),
                "torch_cpu_capability": torch.backends.cpu.get_cpu_capability(), "rounds": options.rounds}
    rows = []
    for work in WORK if options.work == "all" else [options.work]:
        if work in OF_A_CPU and options.device != "cpu":
            continue
        found = WORK[work](torch, timer, options)
        if work == "steps":
            found, of_steps = found
            settings.update(of_steps)
        rows += found
    if options.json is not None:
        if None not in options.waited:  # None: the system does not count it
            options.described["waited_for_core"] = max(options.waited)
        result = dict(options.described, program="compare_torch", settings=settings, rows=rows)
        write_whole(options.json, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
