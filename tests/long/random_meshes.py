#!/usr/bin/env python3
"""Trains random models of random sizes under random meshes, and compares each run with one rank.

    tests/long/random_meshes.py N [--seed 1] [--first 0] [--bin build/release/bin] [--ranks 8] [--jobs 2] [--list]

N runs, from number --first on; a run depends on its number and the seed alone. Some begin under the mesh and are resumed on one
rank, or the other way round. tests/long/meshes.py tries every mesh with one GPT and one MLP; here layers, heads, key-value heads,
widths, context, vocabulary, batches, micro-batches, recomputation, buckets, optimizers and schedules are drawn, GPT-2 and Llama,
with dropout if there is one data rank (several have different masks). A mesh that the program refuses for one of the REFUSALS
counts as refused, which is printed; any other error is a failure.

Losses, gradient norms and the last evaluation must be one rank's within 1e-4 of their value, and after SGD, momentum and LARS
weights within 1e-5 of each tensor's largest. Adam, AdamW and LAMB divide by the square root of a second moment: if a gradient is 0
but for rounding, such as that of a key's bias, rounding becomes a step. With them losses and norms must be within 1e-4 for three
steps and then within 1e-2, and weights are not compared. 16 bits as in meshes.py, but the distance from f32 may be larger by the
number of ranks that divide each sum, each of which rounds its part; for an MLP only losses are compared, as a ReLU's gradient
jumps if rounding changes a sign.
"""
import argparse
import math
import random
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from meshes import PLAYS, ROOT, difference, train

STEPS = 12
# Errors for combinations that can be drawn and that a mesh cannot do: parts of the program's line.
REFUSALS = ["expected a multiple of the", "expected no more parts than units, the nearest is", "dropout of attention needs chunks of a multiple",
            "a part of a sequence: expected multiples of 4 elements", "--zero 3: expected the same number of forwards on every rank"]


def divisors(number):
    return [d for d in range(1, number + 1) if number % d == 0]


def mesh(draw, most, heads, program):
    """Ranks, and the flags of a mesh for which some of the sizes were chosen."""
    while True:
        tensor = draw.choice(divisors(heads)) if draw.random() < 0.6 else 1
        context = draw.choice([1, 1, 1, 2, 3]) if program == "gpt" else 1
        stages, data = draw.choice([1, 1, 2, 2, 3, 4]), draw.choice([1, 1, 2, 2, 3, 4, 5])
        if 2 <= tensor * context * stages * data <= most:
            return tensor, context, stages, data


def gpt(draw, most):
    heads = draw.choice([1, 2, 3, 4, 6, 8])
    tensor, context, stages, data = mesh(draw, most, heads, "gpt")
    kv_heads = draw.choice([k for k in divisors(heads) if k % tensor == 0])
    tokens = 2 * context * draw.randint(1, 6) * draw.choice([1, 2])
    layers = draw.randint(max(1, stages - 2), 6)
    batch = data * draw.randint(1, 6) if draw.random() < 0.97 else draw.randint(data, 6 * data)
    model = ["--architecture", draw.choice(["gpt2", "llama"]), "--layers", layers, "--heads", heads, "--kv-heads", kv_heads,
             "--width", heads * draw.choice([2, 4, 6, 10]), "--ffn-hidden-size", draw.choice([0, tensor * draw.randint(1, 40)]),
             "--context", tokens, "--batch-size", batch, "--eval-batch-size", draw.randint(1, 300), "--sample-tokens", 0,
             "--epochs", 2, "--steps-per-epoch", STEPS // 2]
    if data == 1 and draw.random() < 0.4:
        model += ["--dropout", draw.choice([0.1, 0.3])]
    if draw.random() < 0.4:
        model += ["--recompute", draw.randint(1, layers)]
    flags = []
    if tensor > 1 and tokens // context % tensor == 0 and draw.random() < 0.5:
        flags += ["--sequence-parallel"]
    if context > 1:
        flags += ["--context-parallel", context]
    return model, flags, (tensor, context, stages, data), batch, layers + 2


def mlp(draw, most):
    tensor, context, stages, data = mesh(draw, most, draw.choice([1, 2, 3, 4]), "mlp")
    hidden = [draw.randint(tensor, 50) for _ in range(draw.randint(max(1, 2 * stages - 1), 9))]
    batch = data * draw.randint(1, 20) if draw.random() < 0.97 else draw.randint(data, 20 * data)
    model = ["--hidden", ",".join(map(str, hidden)), "--batch-size", batch, "--eval-batch-size", draw.randint(1, 300)]
    return model, [], (tensor, context, stages, data), batch, len(hidden) // 2 + 1


def run_of(number, seed, most):
    """(program, flags of the model, ranks, flags of the mesh, whether the run and its resumption are on the mesh or one rank)"""
    draw = random.Random(f"{seed} {number}")
    program = draw.choice(["gpt", "gpt", "gpt", "mlp"])
    model, flags, (tensor, context, stages, data), batch, units = {"gpt": gpt, "mlp": mlp}[program](draw, most)
    optimizer = draw.choice(["sgd", "sgd", "sgd", "lars", "adam", "adamw", "lamb"])
    model += ["--optimizer", optimizer, "--lr", {"sgd": 0.05, "lars": 0.5}.get(optimizer, 0.002), "--seed", draw.randint(1, 1000)]
    if optimizer == "sgd" and draw.random() < 0.5:
        model += ["--momentum", draw.choice([0, 0.5])]
    schedule = draw.choice(["constant", "cosine", "linear"])
    model += ["--warmup", draw.choice([0, 3]), "--schedule", schedule] + ["--clip-value", 0.03] * (draw.random() < 0.1)
    if draw.random() < 0.5:
        model += ["--clip-norm", draw.choice([0.05, 0.5])] + ["--clip-norm-type", draw.choice([1, 3, "inf"])] * (draw.random() < 0.2)
    else:
        model += ["--clip-norm", 0]
    if draw.random() < 0.2:
        model += ["--weight-decay", 0.1] + ["--decay-biases"] * (draw.random() < 0.5)
    if optimizer == "sgd" and draw.random() < 0.2:
        model += ["--dtype", draw.choice(["bf16", "f16"])]
    if draw.random() < 0.6:
        model += ["--micro-batch", draw.randint(1, max(1, batch // data))]
    if tensor > 1:
        flags += ["--tensor-parallel", tensor]
    if stages > 1:
        flags += ["--pipeline-parallel", stages]
        order = draw.choice(["1f1b", "afab", "interleaved"])
        flags += ["--pipeline-schedule", order]
        if order == "interleaved":
            flags += ["--pipeline-chunks", draw.randint(2, max(2, units // stages))]
    zero = draw.randint(0, 3)
    flags += ["--zero", zero] + ["--no-reshard"] * (zero == 3 and draw.random() < 0.3)
    if draw.random() < 0.5:
        flags += ["--bucket-mib", draw.choice([0.0005, 0.004, 0.03])]
    flags += ["--no-overlap"] * (zero < 2 and draw.random() < 0.2) + ["--check-replicas"] * ((zero < 3 or tensor > 1) and draw.random() < 0.3)
    parts = draw.choice(["mesh", "mesh", "mesh", "one, mesh", "mesh, one"]) if schedule == "constant" else "mesh"
    return program, list(map(str, model)), tensor * context * stages * data, list(map(str, flags)), parts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("number", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--bin", type=Path, default=Path("build/release/bin"))
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--list", action="store_true", help="only list the runs")
    options = parser.parse_args()
    runs = [run_of(number, options.seed, options.ranks) for number in range(options.first, options.first + options.number)]
    text_of = lambda run: f"{run[0]} on {run[2]} ranks: {' '.join(run[1])} | {' '.join(run[3])} | {run[4]}"
    if options.list:
        print("\n".join(map(text_of, runs)))
        return
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        data = Path(folder)
        subprocess.run([ROOT / "tests/support/digits.sh", data, "1200", "100"], check=True)

        def compare(number, run):
            program, model, ranks, flags, parts = run
            draw = random.Random(f"text {options.seed} {number}")
            text, start = data / f"{number}.txt", draw.randrange(1000000)
            text.write_bytes(PLAYS.read_bytes()[start:start + draw.randint(3000, 20000)])
            name = {"gpt": ["gpt", "train", "--text", text], "mlp": ["mnist", "--data", data]}[program]
            arguments = [*map(str, name), "--device", "cpu", "--quiet", *model]
            ways, until = {"one": (1, []), "mesh": (ranks, flags)}, lambda steps: ["--max-steps", str(steps)]
            first, *second = [ways[part] for part in parts.split(", ")]
            halves = [(of_ranks, [*of_mesh, *until(STEPS)]) for of_ranks, of_mesh in second]
            halves.insert(0, (first[0], [*first[1], *until(STEPS // 2 + 1 if second else STEPS)]))
            alone = (1, until(STEPS))
            one = train(options.bin, arguments, alone)
            found = train(options.bin, arguments, *halves)
            exact = None
            if "--dtype" in model:
                exact = train(options.bin, [flag for flag in arguments if flag not in ("--dtype", "bf16", "f16")], alone)
            text.unlink()
            for each in one, exact:
                if isinstance(each, str):
                    return f"one rank alone {each}"
            if isinstance(found, str):
                is_known = any(text in found for text in REFUSALS)
                return f"refused, {found}" if is_known else found
            is_smooth = "sgd" in model or "lars" in model
            divided = [int(flags[flags.index(flag) + 1]) for flag in ("--tensor-parallel", "--context-parallel") if flag in flags]
            compares_weights = is_smooth and (program == "gpt" or exact is None)
            return difference(found, one, exact, exact_steps=math.inf if is_smooth else 3, with_weights=compares_weights,
                              roundings=math.prod(divided))

        failed = refused = 0
        for number, run, future in [(number, run, pool.submit(compare, number, run)) for number, run in enumerate(runs, options.first)]:
            wrong = future.result()
            is_refused = wrong.startswith("refused, ")
            refused += is_refused
            failed += wrong != "" and not is_refused
            print(f"{number}: {text_of(run)}: {wrong or 'as one rank'}", flush=True)
    passed = len(runs) - failed - refused
    print(f"{passed} passed, {refused} refused, {failed} failed")
    if passed + failed == 0:
        sys.exit("error: no run was compared")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
