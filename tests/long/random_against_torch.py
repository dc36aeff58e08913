#!/usr/bin/env python3
"""Compares random compositions of operations with PyTorch: every value and every gradient.

    tests/long/random_against_torch.py [--bin build/release/bin] [--cases 1000] [--seed 0]

random_cases makes the cases, in f32, f64, bf16 and f16; here they are computed again in double. A difference is printed
with its case's operations. Exits with 1 where there is one.
"""
import argparse
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

# Largest differences, as a share of the largest value that the tensor's computation has met, for results of few steps.
TOLERANCE = {"F64": 1e-12, "F32": 1e-5, "BF16": 0.08, "F16": 0.01}


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


def compare(number, operations, tensors, torch):
    """Texts that name what differs in one case."""
    values, narrowest = {}, "F64"
    for op in operations:
        tensor, dtype = tensors[f"{number}.{op['out']}"]
        if TOLERANCE[dtype] > TOLERANCE[narrowest]:
            narrowest = dtype
        if op["op"] == "leaf":
            values[op["out"]] = tensor.double().requires_grad_()
        else:
            values[op["out"]] = apply(op, [values[i] for i in op["in"]], torch)
    values[operations[-1]["out"]].backward()
    tolerance = TOLERANCE[narrowest] * len(operations)
    # A small result may be the difference of large ones.
    largest = max([1.0] + [value.detach().abs().max().item() for value in values.values() if value.numel() > 0])
    largest_gradient = max([1.0] + [value.grad.abs().max().item() for value in values.values()
                                    if value.is_leaf and value.grad is not None and value.numel() > 0])
    wrong = []

    def check(what, found, expected, scale):
        if list(found.shape) != list(expected.shape):
            wrong.append(f"{what} has the shape {list(found.shape)}, expected {list(expected.shape)}")
        elif found.numel() > 0 and not ((found.double() - expected).abs().max() <= tolerance * scale):
            wrong.append(f"{what} differs by {(found.double() - expected).abs().max().item():.3g}, "
                         f"expected at most {tolerance * scale:.3g}")

    for op in operations:
        value = values[op["out"]]
        check(f"{op['op']} {op['out']}", tensors[f"{number}.{op['out']}"][0], value.detach(), largest)
        if op["op"] != "leaf":
            continue
        gradient = tensors.get(f"{number}.{op['out']}.grad", (torch.zeros_like(value),))[0]
        expected = value.grad if value.grad is not None else torch.zeros_like(value)
        check(f"gradient of leaf {op['out']}", gradient, expected, largest_gradient * largest)
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
