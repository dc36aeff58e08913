#!/usr/bin/env python3
"""Removes every barrier of the kernels in turn and runs the tests: each removal must fail one of them.

A barrier whose removal no test notices is not needed, or a test is missing: it is listed, and the exit status is 1.
The work is done on a copy of the source tree, in a check build for the CPU (see docs/simt.md), under three orders of
a block's threads. The library's kernels are tried with their own tests, then under the analysis, which finds the race
(see docs/analysis.md); those of the ladders and of the analysis' tests under the analysis alone.

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

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from removal import ROOT, copy_tree, first_failure  # noqa: E402

# sync_lanes() is __syncwarp() in embedding.cu.
BARRIER = re.compile(r"^\s*(__syncthreads|__syncwarp|sync_lanes)\(.*\);")
BETWEEN_BLOCKS = re.compile(r"//\s*between blocks:")
ORDERS = ["forward", "reversed", "shuffled:1"]
SOURCES = ["kernels/*.cu", "kernels/*.h", "kernels/common/*.h", "kernels/ladders/*/*.cu", "tests/analysis/*.cu"]
ANALYSED = ["kernels/ladders", "tests/analysis"]  # tried under the analysis
LADDER_TESTS = {"attention": "attention", "gemm": "GEMM", "layer_norm": "layer norm", "reduce": "reduction",
                "softmax": "softmax", "transpose": "transpose"}


def configure(source, build):
    options = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O1", "-DRINGTAPE_CHECK=ON",
               "-DRINGTAPE_CUDA=OFF", "-DRINGTAPE_WERROR=OFF", "-DRINGTAPE_APPS=OFF", "-DRINGTAPE_BENCHMARKS=OFF"]
    if shutil.which("ccache"):
        options.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    subprocess.run(["cmake", "-S", source, "-B", build, *options], check=True, stdout=subprocess.DEVNULL)


def compile_tests(build, programs):
    done = subprocess.run(["ninja", "-C", build, *programs], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the build failed:\n{done.stdout[-4000:]}")


def failure_of(build, program, tests, order):
    """The name of the first of the tests that fails, or None."""
    if not tests:
        return None
    path = next(Path(build).rglob(program))
    return first_failure([path, tests], dict(os.environ, RINGTAPE_THREAD_ORDER=order), timeout=1200)


def is_analysed(source):
    return any(folder in source.as_posix() for folder in ANALYSED)


def family(name):
    return name.split("_")[0]


def with_tags(tags):
    return ",".join(f"[{tag}]~[gpu]" for tag in tags)


def kernel_tags(build):
    """The tags of the kernels' tests: [simt], and those named as a kernel file is."""
    families = {family(source.stem) for source in ROOT.glob("kernels/*.cu")} | {"simt"}
    program = next(Path(build).rglob("ringtape_tests"))
    listed = subprocess.run([program, "-t"], capture_output=True, text=True).stdout
    return [tag for tag in re.findall(r"\[(\w+)\]", listed) if family(tag) in families]


def tests_of(build, source):
    """Which tests to try for a kernel file, as (program, tests): the likely ones, then the rest."""
    if source.parent.name in LADDER_TESTS:
        return [("ringtape_analysis_tests", f"analysis: each rung of the {LADDER_TESTS[source.parent.name]} ladder*")]
    if is_analysed(source):
        return [("ringtape_analysis_tests", "~*ladder*")]
    tags = kernel_tags(build)
    likely = [tag for tag in tags if family(tag) == family(source.stem)]
    rest = [tag for tag in tags if tag not in likely]
    return [("ringtape_tests", with_tags(likely)), ("ringtape_tests", with_tags(rest)),
            ("ringtape_analysis_tests", "~*ladder*")]


def find_failure(build, source):
    for program, tests in tests_of(build, source):
        compile_tests(build, [program])
        for order in ORDERS:
            name = failure_of(build, program, tests, order)
            if name:
                return name, order
    return None, None


def barriers(folder, only):
    for source in sorted(source for pattern in SOURCES for source in folder.glob(pattern)):
        if only and only not in source.relative_to(folder).as_posix():
            continue
        for number, line in enumerate(source.read_text().splitlines()):
            if BARRIER.match(line):
                yield source, number


def check_unchanged(build):
    """Ends the program where a test fails before any change."""
    for program, tests in (("ringtape_tests", with_tags(kernel_tags(build))), ("ringtape_analysis_tests", "*")):
        for order in ORDERS:
            name = failure_of(build, program, tests, order)
            if name:
                sys.exit(f"before any change, under thread order {order}, this test fails: {name}")


def try_all(scratch, only):
    """Prints a line for each barrier and returns how many are not needed."""
    copy, build = scratch / "source", scratch / "build"
    copy_tree(copy)
    configure(copy, build)
    compile_tests(build, ["ringtape_tests", "ringtape_analysis_tests"])
    check_unchanged(build)

    not_needed = 0
    for source, number in barriers(copy, only):
        original = source.read_text()
        lines = original.splitlines(keepends=True)
        removed = lines[number]
        lines[number] = "\n"
        source.write_text("".join(lines))
        name, order = find_failure(build, source)
        source.write_text(original)

        if name:
            result = f"{name} ({order})"
        elif BETWEEN_BLOCKS.search(removed):
            result = "between blocks: cannot show on the CPU"
        else:
            result = "NOT NEEDED"
            not_needed += 1
        print(f"{f'{source.relative_to(copy)}:{number + 1}':<48} {result}", flush=True)
    return not_needed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="TEXT", help="only files whose path contains TEXT")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="remove_barriers_") as scratch:
        not_needed = try_all(Path(scratch), arguments.only)
    print(f"{not_needed} not needed")
    return 1 if not_needed else 0


if __name__ == "__main__":
    sys.exit(main())
