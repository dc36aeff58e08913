"""Writes tests/golden/python.safetensors with Python's safetensors library, and checks files that Ringtape wrote.

    python make_safetensors.py write FILE   # with torch and safetensors; tests/io/safetensors_test.cpp knows the values
    python make_safetensors.py check FILE   # FILE must hold the same tensors and metadata
"""

import sys

import safetensors
import safetensors.torch
import torch

TENSORS = {
    "0.weight": torch.tensor([[1.5, -2.0, 3.25], [0.0, 1e-30, -7.0]]),
    "0.bias": torch.tensor([0.1, 0.2]),
    "double": torch.tensor(3.141592653589793, dtype=torch.float64),
    "brain": torch.tensor([1.0, -2.5, 3.140625, 256.0], dtype=torch.bfloat16),
    "half": torch.tensor([[1.0, -0.5], [65504.0, 6e-8]], dtype=torch.float16),
    "int": torch.tensor([1, -2, 2147483647], dtype=torch.int32),
    "long": torch.tensor([-1, 4611686018427387904], dtype=torch.int64),
    "byte": torch.tensor([0, 1, 255], dtype=torch.uint8),
    "none": torch.zeros(0, 3),
    "four": torch.arange(16, dtype=torch.float32).reshape(2, 2, 2, 2),
}
METADATA = {"format": "pt", "note": "tests"}


def check(path):
    with safetensors.safe_open(path, framework="pt") as file:
        assert file.metadata() == METADATA, file.metadata()
        assert sorted(file.keys()) == sorted(TENSORS), file.keys()
        for name, expected in TENSORS.items():
            found = file.get_tensor(name)
            assert found.dtype == expected.dtype and found.shape == expected.shape, name
            assert torch.equal(found, expected), name


if len(sys.argv) != 3 or sys.argv[1] not in ("write", "check"):
    sys.exit(__doc__)
if sys.argv[1] == "write":
    safetensors.torch.save_file(TENSORS, sys.argv[2], METADATA)
check(sys.argv[2])
