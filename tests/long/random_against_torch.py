#!/usr/bin/env python3
"""Compares random compositions of operations with PyTorch: every value and every gradient.

    tests/long/random_against_torch.py [--bin build/release/bin] [--cases 1000] [--seed 0]

random_cases makes the cases, in f32, f64, bf16 and f16; here they are computed again in double precision. A difference is
printed with its case's operations. Exits with 1 if there is one.

The allowed error of an element follows from the roundings on the way to it: k roundings, each of half a unit in the last
place of the dtype, times the magnitude of its terms, which the same operations give for the absolute values of the leaves.
"""
import argparse
import json
import math
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

# Relative error of one rounding; in 16 bits sums are f32 and add less than a hundredth to it, in f64 PyTorch rounds too.
ROUNDING = {"F64": 2 * 2.0**-53, "F32": 2.0**-24, "BF16": 1.01 * 2.0**-8, "F16": 1.01 * 2.0**-11}
SMALLEST = {"F16": 2.0**-14}  # below it the numbers of f16 lie as far apart as above
EXACT = ("leaf", "to", "relu", "view", "cat", "stack")  # leaves are made of numbers that each dtype holds
SUMS = ("sum", "mean", "matmul", "linear", "mse_loss", "cross_entropy", "sum_all", "mean_all")


def read_safetensors(path, torch):
    types = {"F64": torch.float64, "F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
    data = Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    cases = json.loads(header.pop("__metadata__")["cases"])
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        flat = torch.frombuffer(bytearray(data[begin:end]) or bytearray(8), dtype=types[entry["dtype"]])
        count = 1
        for size in entry["shape"]:
            count *= size
        tensors[name] = (flat[:count].reshape(entry["shape"]), entry["dtype"])
    return cases, tensors


def apply(op, inputs, torch):
    functional = torch.nn.functional
    name, x = op["op"], inputs[0]
    if name == "to":
        return x * 1
    if name in ("add", "multiply"):
        return x + inputs[1] if name == "add" else x * inputs[1]
    if name == "scale":
        return op["alpha"] * x
    if name == "relu":
        return torch.relu(x)
    if name == "view":
        return x.reshape(op["sizes"])
    if name in ("sum", "mean"):
        return getattr(x, name)(op["dim"], keepdim=op["keep"])
    if name == "cat":
        return torch.cat(inputs, op["dim"])
    if name == "stack":
        return torch.stack(inputs, op["dim"])
    if name == "matmul":
        first, second = (t.T if transposed else t for t, transposed in zip(inputs, op["transpose"]))
        return first @ second
    if name == "linear":
        return functional.linear(*inputs)
    if name == "mse_loss":
        return functional.mse_loss(*inputs, reduction=op["reduction"]) / op["divisor"]
    if name == "cross_entropy":
        return functional.cross_entropy(x, torch.tensor(op["targets"]), reduction=op["reduction"],
                                        label_smoothing=op["smoothing"]) / op["divisor"]
    return x.sum() if name == "sum_all" else x.mean()


def magnitude(op, inputs, values, error, torch):
    """The operation on magnitudes of its inputs: a result whose gradient is the gradient's magnitude. `values` are the inputs
    themselves, `error` is the error of the logits relative to their magnitudes."""
    if op["op"] == "relu":
        return inputs[0] * (values[0] > 0)
    if op["op"] == "mse_loss":
        return apply(op, [inputs[0] + inputs[1], torch.zeros_like(inputs[0])], torch)
    if op["op"] != "cross_entropy":
        return apply({**op, "alpha": abs(op.get("alpha", 0))}, inputs, torch)
    # A loss changes by up to twice the logits' largest error d, a probability by up to exp(2 d) - 1 of itself.
    logits, rows = values[0].detach(), values[0].shape[0]
    share = 1 / (op["divisor"] * (rows if op["reduction"] == "mean" else 1))
    largest = inputs[0].detach().amax(1)
    loss = share * 2 * largest.sum() + apply(op, [logits], torch)
    change = torch.expm1(2 * error * largest).clamp(max=1) / error if error > 0 else torch.zeros_like(largest)
    target = torch.nn.functional.one_hot(torch.tensor(op["targets"]), logits.shape[1])
    weight = share * (logits.softmax(1) + target + op["smoothing"] / logits.shape[1] + change[:, None])
    terms = (weight * inputs[0]).sum()
    return loss + terms - terms.detach()


def roundings(operations, per_sum):
    """The most roundings on a way to each result, and to its gradient: two dictionaries. A sum counts as `per_sum`."""
    forward, backward = {}, {operations[-1]["out"]: 0}
    for op in operations:
        counts = [forward[i] for i in op["in"]] or [0]
        own = 0 if op["op"] in EXACT else per_sum if op["op"] in SUMS else 1
        is_product = op["op"] in ("multiply", "matmul", "linear", "mse_loss")
        forward[op["out"]] = (sum(counts) if is_product else max(counts)) + own
    for op in reversed(operations):
        if op["out"] not in backward:
            continue
        own = 0 if op["op"] in (*EXACT, "add", "sum", "sum_all") else per_sum if op["op"] in SUMS else 1
        # The gradient of one factor has the errors of the other factors; that of a loss has its input's.
        factors = sum(forward[i] for i in op["in"]) if op["op"] in (*SUMS, "multiply") else 0
        for i in op["in"]:
            through = backward[op["out"]] + own + factors
            backward[i] = max(through, backward[i]) + 1 if i in backward else through  # added to the other gradient
    return forward, backward


def compare(number, operations, tensors, torch):
    """Texts that name what differs in one case."""
    dtype = max((tensors[f"{number}.{op['out']}"][1] for op in operations[:-1]), key=ROUNDING.get)
    forward, backward = roundings(operations, 1 if dtype in ("BF16", "F16") else 16)
    values, magnitudes = {}, {}
    for op in operations:
        inputs = [values[i] for i in op["in"]]
        if op["op"] == "leaf":
            values[op["out"]] = tensors[f"{number}.{op['out']}"][0].double().requires_grad_()
            large = values[op["out"]].detach().abs().requires_grad_()
        else:
            values[op["out"]] = apply(op, inputs, torch)
            error = ROUNDING[dtype] * forward[op["in"][0]]
            large = magnitude(op, [magnitudes[i] for i in op["in"]], inputs, error, torch) + SMALLEST.get(dtype, 0)
        if large.requires_grad:
            large.register_hook(lambda gradient: gradient + SMALLEST.get(dtype, 0))
        magnitudes[op["out"]] = large
    values[operations[-1]["out"]].backward()
    magnitudes[operations[-1]["out"]].backward()
    wrong = []

    def check(what, found, expected, terms, count):
        if list(found.shape) != list(expected.shape):
            wrong.append(f"{what} has the shape {list(found.shape)}, expected {list(expected.shape)}")
            return
        allowed = math.expm1(count * ROUNDING[dtype]) * terms
        difference = (found.double() - expected).abs()
        is_off = ~(difference <= allowed)
        if is_off.any():
            wrong.append(f"{what} differs by {difference[is_off][0].item():.3g}, expected at most {allowed[is_off][0].item():.3g}")

    for op in operations:
        out = op["out"]
        check(f"{op['op']} {out}", tensors[f"{number}.{out}"][0], values[out].detach(), magnitudes[out].detach(), forward[out])
        if op["op"] != "leaf":
            continue
        nothing = torch.zeros_like(values[out])
        gradient = tensors.get(f"{number}.{out}.grad", (nothing,))[0]
        expected, terms = (nothing if t.grad is None else t.grad for t in (values[out], magnitudes[out]))
        check(f"gradient of leaf {out}", gradient, expected, terms, backward.get(out, 0))
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", default="build/release/bin", help="where random_cases is")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first case; each has its own")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        sys.exit("error: PyTorch is missing, so there is nothing to compare with: pip install torch, or Debian's "
                 "python3-torch")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/cases.safetensors"
        subprocess.run([f"{options.bin}/random_cases", file, str(options.cases), str(options.seed)], check=True)
        cases, tensors = read_safetensors(file, torch)
    failed = 0
    for number, operations in enumerate(cases):
        wrong = compare(number, operations, tensors, torch)
        if wrong:
            failed += 1
            print(f"case of seed {options.seed + number}: " + "; ".join(wrong))
            for op in operations:
                tensor, dtype = tensors[f"{number}.{op['out']}"]
                print(f"    {json.dumps(op)}  {dtype}{list(tensor.shape)}")
    print(f"{len(cases)} cases against PyTorch {torch.__version__}, {sum(map(len, cases))} operations: {failed} differ")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
