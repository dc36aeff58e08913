#!/usr/bin/env python3
"""Compares what `benchmarks/sass` prints with a page of docs/ that shows it: page_outputs.py [--write] BUILD PAGE...

A block of text after a comment such as <!-- sass show relu_forward --> must be the output of that command with
`--build BUILD`, a build with RINGTAPE_CUDA=ON by the nvcc of the committed tables. --write puts the output into the page.
"""
import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

SASS = Path(__file__).resolve().parents[2] / "benchmarks" / "sass"
sys.path.insert(0, str(SASS))
import check  # noqa: E402
import tools  # noqa: E402

SHOWN = re.compile(r"^<!-- sass ([^\n]*) -->\n```\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def output_of(words, build):
    done = subprocess.run([sys.executable, "-B", SASS, *shlex.split(words), "--build", build], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"benchmarks/sass {words}: {done.stderr.strip()}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("build", type=Path)
    parser.add_argument("pages", type=Path, nargs="+")
    arguments = parser.parse_args()
    if tools.nvcc_version(arguments.build) != check.PINNED:
        print(f"the pages are compared only for nvcc {check.PINNED}")
        return False
    failed = False
    for page in arguments.pages:
        text = page.read_text()
        if not SHOWN.search(text):
            sys.exit(f"{page} shows no output of benchmarks/sass")
        printed = SHOWN.sub(lambda shown: f"<!-- sass {shown[1]} -->\n```\n{output_of(shown[1], arguments.build)}```", text)
        if arguments.write:
            page.write_text(printed)
            continue
        for shown, right in zip(text.splitlines(), printed.splitlines()):
            if shown != right:
                print(f"{page.name} shows\n  {shown}\nbenchmarks/sass prints\n  {right}")
        failed = failed or text != printed
    print("differs" if failed else "the pages show what benchmarks/sass prints")
    return failed


if __name__ == "__main__":
    sys.exit(main())
