#!/usr/bin/env python3
"""Removes everything that orders the library's work on a GPU, one place at a time, and runs the tests on the GPU
model (docs/gpu-model.md): each removal must fail one of them.

It tries, in the library's host code: every record of an event, wait of a stream for an event, wait of the host, the
stream of every stream-ordered free, every guard of a capture, every StreamScope and every cudaSetDevice. A place whose
removal no test notices is not needed, or a test is missing: it is listed, and the exit status is 1.

The work is done on a copy of the source tree. All removals are compiled into it at once, each behind a number that an
environment variable selects (mutant schemata: Untch, Offutt and Harrold, 1993), so one build serves all of them.
--result writes the places and the tests that caught them as a Markdown table.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from removal import ROOT, copy_tree, first_failure  # noqa: E402

FOLDERS = ["core", "kernels", "autograd", "data", "optim", "dist", "train", "trace"]
# Code for oneDNN on the CPU; marks for a profiler; threads and MPI of the host; definitions of functions whose calls are
# removed; and a wait that only ends a measured time, which the model does not have.
SKIPPED_FILES = {"gemm_onednn.cpp", "nsight.cpp", "mpi_communicator.cpp", "mpi_thread.cpp", "watchdog.cpp", "prefetcher.h",
                 "communicator.h", "capture.cpp", "stream.h", "capture.h", "recorded_steps.cpp"}

CALLS = "SetDevice|EventRecord|StreamWaitEvent|EventSynchronize|StreamSynchronize|DeviceSynchronize"
CALL = re.compile(rf"(?:RINGTAPE_CUDA\(|check_launch\()?\bcuda(?:{CALLS})\(")
GUARD = re.compile(r"\bforbid_in_capture\(")
METHOD = re.compile(r"(\.|->)(record|wait_on|synchronize|wait)\(")
SCOPE = re.compile(r"const (CaptureScope|StreamScope) scope\b(?:\((\w+)\))?;")
OF_SCOPE = re.compile(r"\bscope\.(\w+\(\))")  # where a scope's member is read
IF_CAPTURING = re.compile(r"if \((is_captured\(\w+\))\)")
FREE = re.compile(r"cudaFreeAsync\(\w+, (static_cast<cudaStream_t>\(\w+\))\)")
DEFINITION = re.compile(r"\bvoid $")  # of the function itself

HEADER = """#pragma once
#include <cstdlib>
#include <optional>
inline bool is_removed(int place) {
  static const char* const chosen = std::getenv("REMOVED");
  return chosen != nullptr && std::atoi(chosen) == place;
}
"""

# Programs of tests, the likely ones first: command, variables. {bin} is the build's bin/.
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2"]
SCHEDULES = ["late", "random:1"]
TWO_GPUS = {"RINGTAPE_MODEL_GPUS": "2"}


def runs_of(source):
    """(program, its command, variables) to try for a place in `source`, in turn."""
    library, ranks = [], []
    for schedule in SCHEDULES:
        variables = {"RINGTAPE_MODEL_SCHEDULE": schedule, **TWO_GPUS}
        library.append((f"ringtape_tests ({schedule})", ["{bin}/ringtape_tests", LIBRARY_TESTS], variables))
        ranks.append((f"dist_tests on 2 ranks ({schedule})", [*MPIRUN, "{bin}/dist_tests", RANKS_TESTS],
                      {**variables, "RINGTAPE_DIST_DEVICE": "cuda", "OMP_NUM_THREADS": "1"}))
    is_of_ranks = source.startswith(("dist/", "train/"))
    return [("gpu_model_tests", ["{bin}/gpu_model_tests"], TWO_GPUS)] + (ranks if is_of_ranks else library)


# Without the long tests, which repeat checks of the others.
RANKS_TESTS = '~"ring_all_reduce: sums and means*"~"slow link*"'
LIBRARY_TESTS = "[gpu],[memory],[graph],[core],[loader],[launch],[device_time]"


def start_of_object(text, end):
    """Where the expression that ends at `end` begins: `comm.gather(a, b)` of `comm.gather(a, b).wait()`."""
    depth, i = 0, end
    while i > 0:
        letter = text[i - 1]
        depth += (letter in ")]") - (letter in "([")
        if depth < 0 or (depth == 0 and letter in " \n{};!"):
            break
        i -= 1
    return i


def is_commented(text, at):
    return "//" in text[text.rfind("\n", 0, at) + 1:at]


def edits_of(text):
    """(begin, end, replacement) of each place in a file, in order; {removed} stands for the condition. A replacement without
    {removed} is not a place, but a change that another place needs."""
    edits = []

    def statement(begin, of):
        end = text.index(";", begin) + 1
        edits.append((begin, end, f"if (!{{removed}}) {of(begin, end)}"))

    for found in [*CALL.finditer(text), *GUARD.finditer(text)]:
        if not DEFINITION.search(text[:found.start()]) and text[found.start() - 2:found.start()] != "= ":
            statement(found.start(), lambda begin, end: text[begin:end])
    for found in METHOD.finditer(text):
        begin = start_of_object(text, found.start())
        name = text[begin:found.start()]
        end = text.index(";", found.end()) + 1
        if name.endswith("Tape::current()") or name in ("", "lock", "changed_", "done_signal_"):
            continue
        call = text[found.start():end]
        edits.append((begin, end, f"if (auto&& object_ = {name}; !{{removed}}) object_{call}"))
    for found in SCOPE.finditer(text):
        kind, argument = found.groups()
        edits.append((*found.span(),
                      f"std::optional<{kind}> scope; if (!{{removed}}) scope.emplace({argument or ''});"))
    for found in OF_SCOPE.finditer(text) if SCOPE.search(text) else []:
        member = f"scope->{found.group(1)}"
        edits.append((*found.span(), f"(scope ? {member} : std::decay_t<decltype({member})>())"))
    for found in IF_CAPTURING.finditer(text):
        edits.append((*found.span(1), f"!{{removed}} && {found.group(1)}"))
    for found in FREE.finditer(text):
        edits.append((*found.span(1), f"{{removed}} ? cudaStream_t{{}} : {found.group(1)}"))
    return sorted(edit for edit in edits if not is_commented(text, edit[0]))


def insert_all(copy, only):
    """Puts every removal into the copy. Returns (file, line, what is there) of each, by number from 1 on."""
    (copy / "core" / "is_removed.h").write_text(HEADER)
    places = []
    for folder in FOLDERS:
        for path in sorted((copy / folder).rglob("*")):
            source = path.relative_to(copy).as_posix()
            if path.suffix not in (".cpp", ".h") or path.name in SKIPPED_FILES or only not in source:
                continue
            text = path.read_text()
            edits = edits_of(text) if "simt/" not in source and "analysis/" not in source else []
            changed, at = "", 0
            for begin, end, replacement in edits:
                if "{removed}" in replacement:
                    line = text.count("\n", 0, begin) + 1
                    places.append((source, line, text.splitlines()[line - 1].strip().split("  //")[0]))
                changed += text[at:begin] + replacement.replace("{removed}", f"is_removed({len(places)})")
                at = end
            if edits:
                path.write_text('#include "core/is_removed.h"\n' + changed + text[at:])
                if path.suffix == ".h":  # the pragma stays the file's first word for the compiler
                    path.write_text("#pragma once\n" + path.read_text())
    return places


def build_tests(copy):
    build = copy / "build" / "model"
    options = ["-DRINGTAPE_WERROR=OFF"]
    if shutil.which("ccache"):
        options.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    subprocess.run(["cmake", "--preset", "model", *options], cwd=copy, check=True, stdout=subprocess.DEVNULL)
    programs = ["gpu_model_tests", "ringtape_tests", "dist_tests"]
    done = subprocess.run(["nice", "ninja", "-C", build, *programs], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the build failed:\n{done.stdout[-4000:]}")
    return build / "bin"


def find_failure(bin_folder, source, place):
    for name, command, variables in runs_of(source):
        command = [part.replace("{bin}", str(bin_folder)) for part in command]
        environment = {**os.environ, **variables, "RINGTAPE_LONG_TESTS": "1", "REMOVED": str(place)}
        failed = first_failure(command, environment, timeout=300)
        if failed:
            return f"{name}: {failed}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="TEXT", default="", help="only files whose path contains TEXT")
    parser.add_argument("--list", action="store_true", help="list the places and try none")
    parser.add_argument("--jobs", type=int, default=1, help="places tried at once [1]")
    parser.add_argument("--result", metavar="FILE", type=Path, help="write a Markdown table")
    arguments = parser.parse_args()

    copy = ROOT / "build" / "removals"  # next to the other builds, so that ccache finds their objects
    copy_tree(copy)
    places = insert_all(copy, arguments.only)
    if arguments.list:
        for number, (source, line, text) in enumerate(places, 1):
            print(f"{number:3} {source}:{line:<5} {text}")
        return 0
    bin_folder = build_tests(copy)
    for source in ("core/", "dist/"):
        failed = find_failure(bin_folder, source, 0)
        if failed:
            sys.exit(f"before any change a test fails: {failed}")

    rows, missed = [], 0
    pool = ThreadPoolExecutor(arguments.jobs)
    failures = pool.map(lambda each: find_failure(bin_folder, each[1][0], each[0]), enumerate(places, 1))
    for (source, line, text), failed in zip(places, failures):
        missed += failed is None
        print(f"{f'{source}:{line}':<36} {text[:60]:<60} {failed or 'NOT CAUGHT'}", flush=True)
        rows.append(f"| `{source}` | `{text}` | {failed or '**none**'} |")
    if arguments.result:
        arguments.result.parent.mkdir(parents=True, exist_ok=True)
        arguments.result.write_text("| file | removed | caught by |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    print(f"{len(places)} places, {missed} not caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
