#!/usr/bin/env python3
"""Compares the output of `lens` in docs/ with its real output: lens_tables.py [--write] BIN DOCUMENT...

A table is checked where a comment names its command, as in <!-- lens transpose --size 256 -->: each row's name must be
one that the command prints, its columns are found by their names. A block of text after such a comment must be
the output. --write puts the program's output into the documents instead.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

COLUMNS = ["global requests", "sectors each", "MB moved", "moved / needed", "shared requests", "bank cycles",
           "conflicts", "while copying", "barriers", "divergent branches", "findings", "verdict"]
MARK = re.compile(r"<!-- lens (.*) -->")


def output_of(program, arguments):
    done = subprocess.run([program, *arguments.split()], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"lens {arguments}: {done.stderr}")
    return done.stdout.rstrip("\n")


def rows_of(output):
    """{name: {column: value}} of the rows that lens prints, with bars between groups of columns."""
    rows = {}
    for line in output.splitlines():
        groups = line.split("|")
        if len(groups) == 5:
            values = " ".join(groups[1:4]).split() + [groups[4].strip()]
            rows[groups[0].strip()] = dict(zip(COLUMNS, values))
    return rows


def table_as_printed(table, rows):
    """The lines of a Markdown table with the values of `rows` in its cells."""
    names = [cell.strip() for cell in table[0].strip("|").split("|")][1:]
    lines = table[:2]
    for line in table[2:]:
        name = line.strip("|").split("|")[0].strip()
        row = rows.get(name.strip("`"))
        if row is None:
            sys.exit(f"lens has no row '{name}'")
        lines.append("| " + " | ".join([name, *(row[column] for column in names)]) + " |")
    return lines


def as_printed(text, program):
    """The document with the program's current output."""
    lines, result = text.splitlines(), []
    while lines:
        result.append(lines.pop(0))
        mark = MARK.fullmatch(result[-1])
        if not mark:
            continue
        output = output_of(program, mark.group(1))
        if lines[0] == "```":
            end = lines.index("```", 1)
            result += ["```", *output.splitlines(), "```"]
            del lines[:end + 1]
        else:
            table = []
            while lines and lines[0].startswith("|"):
                table.append(lines.pop(0))
            result += table_as_printed(table, rows_of(output))
    return "\n".join(result) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("bin", type=Path)
    parser.add_argument("documents", type=Path, nargs="+")
    arguments = parser.parse_args()
    failed = False
    for document in arguments.documents:
        text = document.read_text()
        if not MARK.search(text):
            sys.exit(f"{document} has no table of lens")
        printed = as_printed(text, arguments.bin / "lens")
        if arguments.write:
            document.write_text(printed)
            continue
        for shown, right in zip(text.splitlines(), printed.splitlines()):
            if shown != right:
                print(f"{document.name} shows\n  {shown}\nlens prints\n  {right}")
                failed = True
        failed = failed or text.count("\n") != printed.count("\n")
    print("differs" if failed else "the tables show what lens prints")
    return failed


if __name__ == "__main__":
    sys.exit(main())
