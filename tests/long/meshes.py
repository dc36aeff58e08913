#!/usr/bin/env python3
"""Trains a small GPT and an MLP under every mesh of up to 8 ranks, and compares each run with one rank.

    tests/long/meshes.py [--bin build/release/bin] [--ranks 8] [--every 1 [--offset 0]] [--only TEXT] [--jobs 2] [--list]

Meshes: tensor x context x pipeline x data ranks, ZeRO 0 to 3 if there are several data or context ranks, sequence parallelism on
and off, each schedule of a pipeline. If ranks do not divide the usual sizes (such as 3, 5, 6 and 7 tensor or context ranks, and 5
and 7 data ranks), heads, tokens and samples are rounded up to what they divide, also for one rank; these runs come last, and
--only "of other sizes" takes them alone.
Ways: with and without micro-batches, recomputation, bfloat16, clipping: all 16, of other sizes 4. --every 7 takes each seventh run
from --offset on (an even number takes the same ways of each mesh), --only the runs whose line contains the text.

Twenty steps of SGD. In f32 losses, the last evaluation and gradient norms must be one rank's within 1e-4 of their value, and weights within 1e-5
of each tensor's largest. In bfloat16, sums that ranks divide are rounded at other places, so that two runs differ as much as each
differs from f32: the weights' distance from those in f32, over all elements, must be at most twice one rank's, and losses may
differ by 2^-8 of their value, one rounding. Prints a line for each run; exits with 1 if one fails.
"""
import argparse
import array
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

STEPS = 20
UNITS = 8  # of the GPT; the MLP has as many layers
ROOT = Path(__file__).resolve().parents[2]
PLAYS = ROOT / "text/tinyshakespeare/input.txt"
PART = slice(40000, 50000)  # of the plays: 59 different characters, which no number of tensor ranks divides
# With the messaging layer (pml) given, Open MPI does not look for network cards.
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1"]
PROGRAMS = {
    "gpt": ["gpt", "train", "--layers", "6", "--eval-batch-size", "256", "--sample-tokens", "0", "--epochs", "1",
            "--steps-per-epoch", str(STEPS)],
    "mlp": ["mnist", "--max-steps", str(STEPS), "--hidden", "40,36,33,28,24,20,16"],
}
COMMON = ["--device", "cpu", "--quiet", "--optimizer", "sgd", "--lr", "0.05", "--warmup", "0"]
MICRO_BATCH = {"gpt": "2", "mlp": "7"}
CLIP_NORM = {"gpt": "0.5", "mlp": "0.1"}


def rounded_up(number, factor):
    return number + -number % factor


def sizes(program, tensor=1, context=1, data=1):
    """The flags of the usual sizes, rounded up to what these ranks divide."""
    if program == "mlp":
        return ["--batch-size", str(rounded_up(96, data))]
    heads = rounded_up(8, tensor)
    return ["--heads", str(heads), "--width", str(4 * heads), "--context", str(rounded_up(16, 2 * context * tensor)),
            "--batch-size", str(rounded_up(24, data))]


def ways(program, some=False):
    """All 16, or 4 in which each of micro-batches, recomputation and dtype is combined with each of the others, clipped in f32."""
    for micro, recompute, dtype, clip in itertools.product([False, True], [False, True], ["f32", "bf16"], [False, True]):
        if some and (recompute, clip) != (micro != (dtype == "bf16"), dtype == "f32"):
            continue
        flags = ["--micro-batch", MICRO_BATCH[program]] * micro + ["--recompute", "1"] * recompute
        yield flags + ["--dtype", "bf16"] * (dtype == "bf16") + ["--clip-norm", CLIP_NORM[program]] * clip


def schedules(stages, units):
    yield []
    if stages > 1:
        yield ["--pipeline-schedule", "afab"]
    if 1 < stages <= units // 2:
        yield ["--pipeline-schedule", "interleaved", "--pipeline-chunks", "2"]


def meshes(program, most):
    """Each mesh of several ranks as (ranks, sizes, flags)."""
    for ranks in range(2, most + 1):
        for tensor, context, stages in itertools.product(range(1, ranks + 1), repeat=3):
            if ranks % (tensor * context * stages) != 0:
                continue
            data = ranks // (tensor * context * stages)
            if program == "mlp" and context > 1:
                continue
            units = UNITS // 2 if program == "mlp" and tensor > 1 else UNITS  # a column and a row layer are one unit
            if stages > units:
                continue
            for zero in range(4 if data * context > 1 else 1):
                for sequence in [False, True] if program == "gpt" and tensor > 1 else [False]:
                    for schedule in schedules(stages, units):
                        flags = ["--tensor-parallel", str(tensor)] * (tensor > 1) + ["--context-parallel", str(context)] * (context > 1)
                        flags += ["--pipeline-parallel", str(stages)] * (stages > 1)
                        yield ranks, sizes(program, tensor, context, data), flags + schedule + ["--sequence-parallel"] * sequence + ["--zero", str(zero)] * (zero > 0)


def tensors_of(path):
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:end]).items():
        if name == "__metadata__":
            continue
        assert entry["dtype"] == "F32", f"{name}: {entry['dtype']}"
        first, last = entry["data_offsets"]
        tensors[name] = array.array("f", data[end + first:end + last])
    return tensors


def train(bin_dir, arguments, *runs):
    """Runs a program with these arguments, on (ranks, further flags) of each of `runs`; each but the first resumes the checkpoint of
    the run before. Returns the lines of its metrics and the weights at the end; or a text that says what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        for number, (ranks, flags) in enumerate(runs):
            of_run = ["--checkpoint", f"{folder}/checkpoints"] * (len(runs) > 1) + ["--resume"] * (number > 0)
            result = train_in(Path(folder), bin_dir, [*arguments, *flags, *of_run], ranks)
            if isinstance(result, str):
                break
        return result


def train_in(folder, bin_dir, arguments, ranks):
    metrics, weights = folder / "metrics.jsonl", folder / "weights.safetensors"
    name, *flags = arguments
    command = [str(bin_dir / name), *flags, "--metrics", str(metrics), "--save", str(weights)]
    if ranks > 1:
        command = [*MPIRUN, "-n", str(ranks), *command]
    try:
        # Open MPI's programs share one folder per user, which a program that ends may remove while another starts: use a separate one.
        environment = dict(os.environ, OMPI_MCA_orte_tmpdir_base=str(folder))
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    except subprocess.TimeoutExpired:
        return "not ended after 600 s"
    if done.returncode != 0:
        own = [line for line in done.stderr.splitlines() if "error: " in line] or [done.stderr.strip()[-300:]]
        return f"ended with {done.returncode}: {own[0]}"
    return [json.loads(line) for line in metrics.read_text().splitlines()], tensors_of(weights)


def distance(found, expected):
    return math.sqrt(sum((a - b) ** 2 for name in expected for a, b in zip(found[name], expected[name])))


def difference(found, one, exact, exact_steps=math.inf, with_weights=True, roundings=1):
    """What is wrong, or an empty text. `exact` is one rank's run in f32 if `one` is in 16 bits, else None. After `exact_steps` the
    tolerance is a hundredfold; `roundings` is the number of roundings that replace one rank's single rounding of a sum."""
    (lines, weights), (expected_lines, expected) = found, one
    steps = [line for line in lines if "loss" in line]
    expected_steps = [line for line in expected_lines if "loss" in line]
    if len(steps) != len(expected_steps) or not steps:
        return f"{len(steps)} steps beside {len(expected_steps)}"
    if {name: len(values) for name, values in weights.items()} != {name: len(values) for name, values in expected.items()}:
        return "the weights have other names or sizes"
    for line, other in [*zip(steps, expected_steps), (lines[-1], expected_lines[-1])]:
        tolerance = 2**-8 if exact else 1e-4 if other.get("step", math.inf) <= exact_steps else 1e-2
        for key in ["loss", "test_loss"] + ["grad_norm"] * (exact is None):
            if key in other and not abs(line[key] - other[key]) <= tolerance * abs(other[key]):
                return f"step {other.get('step', 'last')}: {key} {line[key]}, expected {other[key]}"
    if not with_weights:
        return ""
    if exact:
        mine, ones = distance(weights, exact[1]), distance(expected, exact[1])
        return "" if mine <= 2 * roundings * ones else f"the weights are {mine:.3g} from f32's, one rank's {ones:.3g}"
    for name, values in expected.items():
        far, largest = max(abs(a - b) for a, b in zip(weights[name], values)), max(map(abs, values))
        if not far <= 1e-5 * largest:
            return f"{name} differs by {far:.3g}, its largest value is {largest:.3g}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=Path("build/release/bin"))
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--list", action="store_true", help="only list the runs")
    options = parser.parse_args()
    runs = [(program, of_sizes, way, ranks, mesh) for others in [False, True] for program in PROGRAMS
            for ranks, of_sizes, mesh in meshes(program, options.ranks) if (of_sizes != sizes(program)) == others
            for way in ways(program, some=others)]

    def text_of(run):
        program, of_sizes, way, ranks, mesh = run
        others = of_sizes != sizes(program)
        flags = of_sizes * others + mesh + way
        return f"{program}{' of other sizes' * others} on {ranks} ranks: {' '.join(flags) or 'plain'}"

    runs = [run for run in runs[options.offset::options.every] if options.only in text_of(run)]
    if options.list:
        for run in runs:
            print(text_of(run))
        print(f"{len(runs)} runs")
        return
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        data = Path(folder)
        (data / "text.txt").write_bytes(PLAYS.read_bytes()[PART])
        subprocess.run([ROOT / "tests/support/digits.sh", data, "2000", "500"], check=True)
        source = {"gpt": ["--text", str(data / "text.txt")], "mlp": ["--data", str(data)]}
        start = lambda program, of_sizes, way, ranks=1, mesh=(): train(
            options.bin, [*PROGRAMS[program], *source[program], *COMMON, *of_sizes, *way], (ranks, mesh))
        in_f32 = lambda way: [flag for flag in way if flag not in ("--dtype", "bf16")]
        ones = {}
        for program, of_sizes, way, *_ in runs:
            for each in way, in_f32(way):
                key = (program, *of_sizes, *each)
                if key not in ones:
                    ones[key] = pool.submit(start, program, of_sizes, each)
        failed = 0
        for run, future in [(run, pool.submit(start, *run)) for run in runs]:
            program, of_sizes, way, *_ = run
            found = future.result()
            one, exact = (ones[(program, *of_sizes, *each)].result() for each in (way, in_f32(way)))
            wrong = next((text for text in (found, one, exact) if isinstance(text, str)), None)
            if wrong is None:
                wrong = difference(found, one, exact if "bf16" in way else None)
            failed += wrong != ""
            print(f"{text_of(run)}: {wrong or 'as one rank'}", flush=True)
    print(f"{len(runs) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
