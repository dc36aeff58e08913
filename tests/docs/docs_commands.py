#!/usr/bin/env python3
"""Runs the commands of the docs, so that stale ones are found.

  tests/docs/docs_commands.py BUILD_DIR [--mpirun "MPIRUN ARGUMENTS"] [--all | --gpu] [--page PAGE]

Commands are the lines of the ```sh blocks of README.md, CONTRIBUTING.md and docs/, and the lines that begin with "$ " in
their blocks of output. Each page gets an empty folder where build/release/bin is that of BUILD_DIR, and benchmarks, docs,
scripts and tests are copies. A command has to end with 0 within LIMIT seconds. Of the commands in EXACT, whose output does not
depend on the machine, the lines that the page shows ("..." stands for others) must be printed in that order. A definition (name=value, or a function)
holds for the rest of its block. A command that cannot run unchanged has a row in TABLE. A command in running text, such as
`build/release/bin/plan --help`, is not run: its program has to exist and to know the flags. The numbered lessons are left
to tests/lessons, which runs their commands and compares the output.

--all runs the commands of Short unchanged, which takes minutes; --gpu runs only the commands of Gpu.
"""

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXACT = re.compile(r"^plan |--show-mesh|--show-pipeline")
LIMIT = 300  # seconds, for a busy machine; on an idle one, a command without a row should take at most 5


class Short:
    """A command that takes long, and is shortened by added flags."""

    def __init__(self, flags):
        self.flags = flags


class Elsewhere:
    """A command that another test or script runs: `file` must contain all of `words`."""

    def __init__(self, file, *words):
        self.file, self.words = file, words


class Gpu:
    """A command that needs a GPU and a profiler: tests/gpu_check.sh runs it (--gpu)."""


# A command as on its page, without the comment after it. One that ends with "*" stands for all commands with that prefix.
TABLE = {
    # whole training runs
    "build/release/bin/mnist": Short("--max-steps 2"),
    "build/release/bin/mnist --batch-size 8192 --micro-batch 512*": Short("--max-steps 2"),
    "build/release/bin/mnist --recipe lamb-8192": Short("--max-steps 2"),
    "build/release/bin/mnist --epochs 20 --checkpoint run --checkpoint-every 500 --resume": Short("--max-steps 2"),
    "build/release/bin/mnist --profile --report run.html": Short("--max-steps 4"),
    "mpirun -n 2 build/release/bin/mnist": Short("--max-steps 2"),
    "mpirun -n 4 build/release/bin/mnist": Short("--max-steps 2"),
    "mpirun -n 4 build/release/bin/gpt train --tensor-parallel 2": Short("--max-steps 2 --warmup 0 --sample-tokens 0 --width 32"),
    "mpirun -n 2 build/release/bin/gpt train --tensor-parallel 2 --sequence-parallel": Short("--max-steps 2 --warmup 0 --sample-tokens 0 --width 32"),
    "mpirun -n 2 build/release/bin/mnist --tensor-parallel 2 --check-replicas": Short("--max-steps 2"),
    "mpirun -n 4 build/release/bin/mnist --batch-size 64 --micro-batch 8 --optimizer adamw*": Short("--max-steps 30"),
    "mpirun -n 8 build/release/bin/gpt train $gpt_model*": Short("--max-steps 4 --sample-tokens 0"),
    "mpirun -n 2 build/release/bin/gpt train --context-parallel 2": Short("--max-steps 2 --warmup 0 --sample-tokens 0 --width 32"),
    "mpirun -n 2 build/release/bin/gpt train --pipeline-parallel 2 --micro-batch 2": Short("--max-steps 2 --warmup 0 --sample-tokens 0 --width 32"),
    "mpirun -n 4 build/release/bin/mnist --device cpu": Short("--max-steps 2"),
    "mpirun -n 4 build/release/bin/collectives": Short("--iterations 1 --max-bytes 65536"),
    "build/release/bin/ladder gemm": Short("--size 128"),
    "build/release/bin/lens kernels": Elsewhere("tests/analysis/lens_test.sh", "lens kernels"),
    "build/release/bin/lens gemm": Short("--size 128"),  # lens_tables runs it at the default size
    "build/release/bin/gpt train --max-steps 40 --sample-every 20*": Short("--width 32"),
    "build/release/bin/gpt train --save-model shakespeare": Short("--epochs 1 --steps-per-epoch 110 --sample-tokens 20 --width 32"),
    # building and testing
    "./train_mnist.sh": Elsewhere(".ci/run", "./train_mnist.sh"),
    "./train_gpt.sh": Elsewhere(".ci/run", "./train_gpt.sh"),
    "./run_tests.sh": Elsewhere(".ci/run", "./run_tests.sh"),
    "./run_tests.sh -R *": Elsewhere("run_tests.sh", "./run_tests.sh -R"),
    'build/release/bin/ringtape_tests "operations*" -s | grep relu': Elsewhere("tests/autograd/ops_test.cpp", '"operations: '),
    "cmake --build build/release": Elsewhere("scripts/setup.sh", "cmake --build"),
    "cmake --build build/release && cmake --install build/release --prefix ~/ringtape":
        Elsewhere("tests/apps/install_test.sh", "cmake --install", "--prefix"),
    "cmake --preset check && cmake --build --preset check && ctest --preset check":
        Elsewhere(".ci/run", "cmake --preset check", "cmake --build --preset check", "ctest --preset check"),
    "cmake --preset profiling && cmake --build --preset profiling":
        Elsewhere("CMakePresets.json", '"name": "profiling"', '"configurePreset": "profiling"'),
    "scripts/repeat_tests.sh 10 --busy": Elsewhere("scripts/repeat_tests.sh", "repeat_tests.sh [N] [--busy]"),
    "bash .ci/run": Elsewhere(".ci/run", "bash .ci/run"),
    "scripts/long_checks.sh OUTDIR": Elsewhere("scripts/long_checks.sh", "scripts/long_checks.sh OUTDIR"),
    "tests/gpu_check.sh OUTDIR": Elsewhere(".ci/run", "tests/gpu_check.sh --gpu-model"),
    # benchmarks
    "benchmarks/measure_all.sh benchmarks/results/NAME": Elsewhere("benchmarks/measure_all.sh", "measure_all.sh OUTDIR"),
    "scripts/readme_figures.py --folder NAME": Elsewhere("tests/scripts/readme_figures_test.py", '"--folder"'),
    "scripts/compare_results.py OLD_FOLDER NEW_FOLDER":
        Elsewhere("tests/scripts/compare_results_test.py", "def test_folders"),
    # NVIDIA's disassembler, which .ci/run installs
    "pip install nvidia-cuda-cuobjdump*": Elsewhere(".ci/run", "python3 benchmarks/sass packages"),
    "python3 benchmarks/sass check": Elsewhere(".ci/run", "benchmarks/sass check"),
    "python3 benchmarks/sass graph *": Elsewhere(".ci/run", "tests/sass/page_outputs.py"),
    "python3 benchmarks/sass lines *": Elsewhere(".ci/run", "tests/sass/page_outputs.py"),
    "python3 benchmarks/sass table": Elsewhere("benchmarks/sass/__main__.py", 'add_parser("table"'),
    "python3 benchmarks/sass show *": Elsewhere("tests/sass/sass_test.py", '"show"'),
    # ThreadSanitizer
    "cmake -S . -B build/tsan *":
        Elsewhere("CMakeLists.txt", "RINGTAPE_CUDA", "RINGTAPE_APPS", "RINGTAPE_BENCHMARKS", "RINGTAPE_SANITIZE"),
    "cmake --build build/tsan --target dist_tests --parallel":
        Elsewhere("tests/dist/CMakeLists.txt", "add_executable(dist_tests "),
    "OMP_NUM_THREADS=1 TSAN_OPTIONS=*":
        Elsewhere("tests/dist/CMakeLists.txt", "TSAN_OPTIONS=ignore_noninstrumented_modules=1"),
    # launchers that are rarely installed
    "torchrun *": Elsewhere("tests/dist/one_process/rank_environment_test.cpp", "torchrun"),
    "srun *": Elsewhere("tests/dist/one_process/rank_environment_test.cpp", "SLURM_STEP_ID"),
    # a CUDA graph, which needs a GPU or the GPU model
    "build/release/bin/mnist --device cuda --graph *": Elsewhere("tests/gpu_model/step_graph_test.py", "--print-graph --save-graph"),
    # profilers
    "nsys *": Gpu(),
    "ncu *": Gpu(),
}


class Command:
    def __init__(self, page, line, text, definitions=()):
        self.page, self.line, self.text, self.definitions = page, line, text, definitions
        self.shown = []  # lines of its output on the page

    def __str__(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}: {self.text}"

    def expanded(self):
        """The words of the command, with the variables that its block defines."""
        text = self.text
        for definition in self.definitions:
            name, equals, value = definition.partition("=")
            if equals and name.isidentifier():
                text = re.sub(r"\$" + name + r"\b", lambda _: shlex.split(value)[0], text)
        return shlex.split(text)


def without_remark(line):
    """The line up to a # that is outside of quotes and begins a word."""
    quote = ""
    for i, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "#" and (i == 0 or line[i - 1].isspace()):
            return line[:i].strip()
    return line.strip()


def commands_of(page):
    """(commands of the blocks, commands in running text)"""
    blocks, inline = [], []
    fence, definitions, text, first, shows = None, [], "", 0, False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            fence = line.strip()[3:] if fence is None else None
            definitions, text, shows = [], "", False
        elif fence is None:
            spans = re.findall(r"`((?:build/\w+/bin|benchmarks|scripts|tests)/[^`]+)`", line)
            inline += [Command(page, number, span) for span in spans]
        elif fence == "sh" or text or line.startswith("$ "):
            first = first if text else number
            text += without_remark(line if fence == "sh" or text else line[2:])
            if text.endswith("\\"):
                text = text[:-1].rstrip() + " "
                continue
            if re.match(r"\w+=(\"[^\"]*\"|'[^']*'|\S*)$|\w+\(\) *\{.*\}$", text):
                definitions = definitions + [text]
            elif text:
                blocks.append(Command(page, first, text, definitions))
                shows = True
            text = ""
        elif shows and line not in ("", "..."):
            blocks[-1].shown.append(line.rstrip())
    return blocks, inline


def row_of(command):
    """The key in TABLE, or None."""
    for key in TABLE:
        if command.text == key or (key.endswith("*") and command.text.startswith(key[:-1])):
            return key
    return None


def not_printed(shown, output):
    """None, or the first of the page's lines that is not in the output, after the lines before it."""
    lines = iter(line.rstrip() for line in output.splitlines())
    for text in shown:
        if not any(line == text for line in lines):
            return f"does not print '{text}' as the page shows. It prints\n{output[:4000]}"
    return None


def run(command, folder, arguments, flags=""):
    """None, or what went wrong."""
    launcher = f'mpirun() {{ command {arguments.mpirun or "mpirun"} "$@"; }}'
    script = "\n".join([launcher, *command.definitions, f"{command.text} {flags}"])
    environment = dict(os.environ, HOME=str(folder), OMPI_MCA_orte_tmpdir_base=str(folder),  # see tests/dist/app_test.sh
                       PATH=f"{folder}/build/release/bin:{os.environ['PATH']}")
    limit = 3600 if arguments.all else LIMIT
    process = subprocess.Popen(["bash", "-e", "-o", "pipefail", "-c", script], cwd=folder, env=environment,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True)
    try:
        output = process.communicate(timeout=limit)[0].decode(errors="replace")
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return f'took more than {limit} s. Give it a row in TABLE of tests/docs/docs_commands.py, say Short("--max-steps 2").'
    if process.returncode == 0 and EXACT.search(command.text) and not flags:
        return not_printed(command.shown, output)
    if process.returncode != 0:
        return (f"ended with {process.returncode}. Correct the page, or give the command a row in TABLE of "
                f"tests/docs/docs_commands.py.\n{output[-1500:]}")
    return None


def unknown_parts(words, folder):
    """The names in a command that do not exist: programs, flags, kernels given to ncu."""
    sources = "".join(file.read_text() for file in ROOT.glob("kernels/**/*.cu"))
    for i, word in enumerate(words):
        kernel = re.fullmatch(r"regex:(\w+)", word)
        if kernel and not re.search(r"void " + kernel[1], sources):
            yield f"no kernel {kernel[1]}"
        if not re.fullmatch(r"(build/\w+/bin|benchmarks|scripts|tests)/[\w./-]+", word):
            continue
        program = folder / re.sub(r"^build/\w+/", "build/release/", word)
        if not program.exists():
            yield f"no program {word}"
            continue
        flags = [flag.split("=")[0] for flag in words[i + 1:] if flag.startswith("--")]
        if flags and program.is_file():
            subcommand = words[i + 1:i + 2] if words[i + 1].isalpha() else []
            help_text = subprocess.run([program, *subcommand, "--help"], stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, check=False, stdin=subprocess.DEVNULL).stdout.decode()
            yield from (f"{word} knows no flag {flag}" for flag in flags
                        if not re.search(re.escape(flag) + r"(?![\w-])", help_text))


def check(command, row, folder, arguments):
    """The error of the command: None, or a text."""
    how = TABLE.get(row)
    if isinstance(how, Elsewhere):
        text = (ROOT / how.file).read_text()
        missing = [word for word in how.words if word not in text]
        return f"{how.file}, which should run it, does not hold {missing}" if missing else None
    if isinstance(how, Gpu) and not arguments.gpu:
        if "docs_commands.py" not in (ROOT / "tests/gpu_check.sh").read_text():
            return "tests/gpu_check.sh, which should run it, does not call docs_commands.py"
        return "; ".join(unknown_parts(command.expanded(), folder)) or None
    return run(command, folder, arguments, how.flags if isinstance(how, Short) and not arguments.all else "")


def make_folder(folder, build):
    (folder / "build").mkdir()
    for name in ("release", "profiling"):
        (folder / "build" / name).symlink_to(build)
    for name in ("benchmarks", "docs", "scripts", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))


def pages():
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--mpirun", default="")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--page", help="check only pages whose path ends with this text")
    arguments = parser.parse_args()

    passed, failures, skipped, used = 0, [], [], set()
    for page in pages():
        if arguments.page and not str(page).endswith(arguments.page):
            continue
        blocks, inline = commands_of(page)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make_folder(folder, arguments.build.resolve())
            for command in blocks:
                row = row_of(command)
                used.add(row)
                how = TABLE.get(row)
                if arguments.gpu and not isinstance(how, Gpu):
                    continue
                if not arguments.mpirun and not isinstance(how, (Elsewhere, Gpu)) and "mpirun" in command.text:
                    skipped.append(f"{command} (no MPI)")
                    continue
                problem = check(command, row, folder, arguments)
                passed += problem is None
                failures += [f"{command}\n  {problem}"] if problem else []
            for command in inline if not arguments.gpu else []:
                problem = "; ".join(unknown_parts(shlex.split(command.text), folder))
                passed += not problem
                failures += [f"{command}\n  {problem}"] if problem else []
    if not arguments.page:
        failures += [f"TABLE of tests/docs/docs_commands.py: no page has '{row}' any more: remove the row"
                     for row in set(TABLE) - used]
    for failure in failures:
        print("FAILED:", failure)
    for text in skipped:
        print("skipped:", text)
    print(f"{passed} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
