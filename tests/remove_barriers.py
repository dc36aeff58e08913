#!/usr/bin/env python3
"""Removes every barrier of the kernels in turn and runs the tests: each removal must fail one of them.

A barrier whose removal no test notices is not needed, or a test is missing: it is listed, and the exit status is 1.
The work is done on a copy of the source tree, in a check build for the CPU (see docs/simt.md), under three orders of
a block's threads.

A barrier with a comment that begins with "between blocks:" orders what threads of other blocks see. The CPU runs
the blocks of a worker one after another, which cannot show it missing; such a barrier is tried and listed, and
does not count as a failure.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BARRIER = re.compile(r"^\s*(__syncthreads|__syncwarp)\(.*\);")
BETWEEN_BLOCKS = re.compile(r"//\s*between blocks:")
ORDERS = ["forward", "reversed", "shuffled:1"]
# Tests that run no kernel, by their tags.
HOST_ONLY = ["loader", "safetensors", "idx", "csv", "mnist", "regression"]
SKIPPED_FOLDERS = {".git", "build", "out"}


def copy_tree(to):
    def skipped(folder, names):
        if Path(folder) != ROOT:
            return {"__pycache__"}
        return {name for name in names if name in SKIPPED_FOLDERS or name.startswith("build")}

    shutil.copytree(ROOT, to, ignore=skipped)


def configure(source, build):
    options = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O1", "-DRINGTAPE_CHECK=ON",
               "-DRINGTAPE_CUDA=OFF", "-DRINGTAPE_WERROR=OFF", "-DRINGTAPE_APPS=OFF", "-DRINGTAPE_BENCHMARKS=OFF"]
    if shutil.which("ccache"):
        options.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    subprocess.run(["cmake", "-S", source, "-B", build, *options], check=True, stdout=subprocess.DEVNULL)


def compile_tests(build):
    done = subprocess.run(["ninja", "-C", build, "ringtape_tests"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the build failed:\n{done.stdout[-4000:]}")


def first_failure(build, tags, order):
    """The name of the first test that fails, or None. `tags` is a Catch2 test specification."""
    program = next(Path(build).rglob("ringtape_tests"))
    environment = dict(os.environ, RINGTAPE_THREAD_ORDER=order)
    try:
        done = subprocess.run([program, tags, "--abort", "-r", "xml"], env=environment, capture_output=True,
                              text=True, errors="replace", timeout=1200)
    except subprocess.TimeoutExpired:
        return "(the tests did not end)"
    if done.returncode == 0:
        return None
    name = None
    for line in done.stdout.splitlines():
        started = re.search(r'<TestCase name="([^"]*)"', line)
        if started:
            name = started.group(1)
        if 'success="false"' in line:
            break
    return name or "(before the first test)"


def kernel_tests():
    return "".join(f"~[{tag}]" for tag in HOST_ONLY)


def tests_of(source):
    """The tests most likely to notice: those that carry a name that the file's begins with."""
    return {"gemm_tiled": "[gemm]", "reduce": "[elementwise],[reduce]", "block_reduce": "[simt]",
            "grid_sum": "[mse]"}.get(source.stem, f"[{source.stem}]")


def find_failure(build, source):
    for tests in (tests_of(source), kernel_tests()):
        for order in ORDERS:
            name = first_failure(build, tests, order)
            if name:
                return name, order
    return None, None


def barriers(folder, only):
    for source in sorted([*folder.glob("kernels/*.cu"), *folder.glob("kernels/*.h")]):
        if only and only not in source.name:
            continue
        for number, line in enumerate(source.read_text().splitlines()):
            if BARRIER.match(line):
                yield source, number


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="TEXT", help="only files whose name contains TEXT")
    arguments = parser.parse_args()

    not_needed = 0
    with tempfile.TemporaryDirectory(prefix="remove_barriers_") as scratch:
        copy, build = Path(scratch) / "source", Path(scratch) / "build"
        copy_tree(copy)
        configure(copy, build)
        compile_tests(build)
        for order in ORDERS:
            name = first_failure(build, kernel_tests(), order)
            if name:
                sys.exit(f"before any change, under thread order {order}, this test fails: {name}")

        for source, number in barriers(copy, arguments.only):
            original = source.read_text()
            lines = original.splitlines(keepends=True)
            removed = lines[number]
            lines[number] = "\n"
            source.write_text("".join(lines))
            compile_tests(build)
            name, order = find_failure(build, source)
            source.write_text(original)

            place = f"{source.relative_to(copy)}:{number + 1}"
            if name:
                result = f"{name} ({order})"
            elif BETWEEN_BLOCKS.search(removed):
                result = "between blocks: cannot show on the CPU"
            else:
                result = "NOT NEEDED"
                not_needed += 1
            print(f"{place:<36} {result}", flush=True)
    print(f"{not_needed} not needed")
    return 1 if not_needed else 0


if __name__ == "__main__":
    sys.exit(main())
