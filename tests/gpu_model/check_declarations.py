#!/usr/bin/env python3
"""Compares the GPU model's headers with CUDA's own, if a CUDA Toolkit is installed: a program that takes every function of
our headers by the parameters and the result that they have there, every constant by its value, and every layout that they
assert, must compile with the toolkit's headers.

    tests/gpu_model/check_declarations.py CXX TOOLKIT_INCLUDE_FOLDER...
"""
import re
import subprocess
import sys
from pathlib import Path

OURS = Path(__file__).resolve().parents[2] / "gpu_model" / "include"
HEADERS = ["cuda_runtime_api.h", "cuda_profiler_api.h", "library_types.h", "cublas_v2.h", "cublasLt.h", "nccl.h", "cupti.h"]
FUNCTION = re.compile(r"^([\w\s*]+?)\b(\w+)\(([^;{}]*)\);", re.MULTILINE)
ENUMERATION = re.compile(r"\benum\b[^{};]*\{([^}]*)\}")
CONSTANT = re.compile(r"(\w+)\s*=\s*(-?\d+|0x[0-9a-f]+)")
DEFINE = re.compile(r"^#define (\w+) +(-?\d+|0x[0-9a-f]+)$", re.MULTILINE)
LAYOUT = re.compile(r"^static_assert\(.*\);$", re.MULTILINE)
VERSION = re.compile("VERSION|NCCL_(MAJOR|MINOR|PATCH)")  # the toolkit has its own


def checks(header):
    """Lines of C++, one for each function and constant of one of our headers."""
    text = re.sub(r"//.*", "", (OURS / header).read_text())
    constants = [pair for body in ENUMERATION.findall(text) for pair in CONSTANT.findall(body)]
    constants += [(name, value) for name, value in DEFINE.findall(text) if not VERSION.search(name)]
    lines = [f"static_assert({name} == {value});" for name, value in constants]
    lines += LAYOUT.findall(text)
    for block in re.findall(r'extern "C" \{(.*?)\n\}', text, re.DOTALL):
        for number, (result, name, parameters) in enumerate(FUNCTION.findall(block)):
            parameters = re.sub(r"\s*=\s*\w+", "", parameters)
            lines.append(f"auto of_{name}_{number} = static_cast<{result.strip()} (*)({parameters})>(&{name});")
    return lines


def main():
    compiler, folders = sys.argv[1], sys.argv[2:]
    failed, compared = False, 0
    for header in HEADERS:
        if not (OURS / header).exists() or not any((Path(folder) / header).exists() for folder in folders):
            continue
        lines = checks(header)
        compared += len(lines)
        program = "\n".join(["#include <cstddef>", "#include <cstdint>", f"#include <{header}>", *lines])
        command = [compiler, "-std=c++20", "-w", "-fsyntax-only", "-x", "c++", *(f"-I{folder}" for folder in folders), "-"]
        failed |= subprocess.run(command, input=program, text=True).returncode != 0
    print(f"{compared} functions and constants of the GPU model's headers: {'some differ' if failed else 'as CUDA has them'}")
    sys.exit(1 if failed or compared == 0 else 0)


if __name__ == "__main__":
    main()
