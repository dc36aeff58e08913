#!/usr/bin/env python3
"""Compares two result files of a benchmark program, or two folders of them, and lists the rows that have become slower.

    scripts/compare_results.py OLD.json NEW.json [--threshold 10] [--other-machine]
    scripts/compare_results.py OLD_FOLDER NEW_FOLDER

Rows are matched by program, name and size. The ratio is the new time over the old time. The exit status is 1 if a row takes
longer by more than the threshold in percent, or if a file or a timed row of OLD is missing in NEW. It is 2 for files that
cannot be compared: files that are no result files, have no row in common, were measured with different settings, or come
from different machines (unless --other-machine is given).
"""
import argparse
import math
import pathlib
import sys

import result_files

# Hardware whose difference makes two files incomparable. Another compiler or library is only reported, as it may be the cause.
HARDWARE = ["device", "gpu", "cpu", "cores", "threads"]


def refuse(text):
    print(f"error: {text}", file=sys.stderr)
    sys.exit(2)


def files_of(path):
    """The result files of a folder, by name; a single file has the name ""."""
    return {file.name: file for file in sorted(path.glob("*.json"))} if path.is_dir() else {"": path}


def check_comparable(old, new, options):
    if old["program"] != new["program"]:
        refuse(f"the files are of {old['program']} and of {new['program']}: expected one program")
    of_settings = result_files.differing_settings(old, new)
    if of_settings:
        refuse(f"the files of {new['program']} have different settings ({'; '.join(of_settings)})")
    of_machine = result_files.differing(old["machine"], new["machine"], HARDWARE)
    if of_machine and not options.other_machine:
        refuse(f"the files are from different machines ({'; '.join(of_machine)}): --other-machine compares them anyway")
    other = sorted((old["machine"].keys() | new["machine"].keys()) - set(HARDWARE))
    for text in of_machine + result_files.differing(old["machine"], new["machine"], other):
        print(f"  note: {text}")
    for text in result_files.differing(old["settings"], new["settings"], result_files.LIBRARY_SETTINGS):
        print(f"  note: setting {text}")


def compare(old, new, options):
    """Prints a line for each row of both files; returns the number of compared rows, the slower rows and the missing rows."""
    print(f"{new['program']}, {old.get('revision', 'unknown')} to {new.get('revision', 'unknown')}")
    check_comparable(old, new, options)
    before = {(row["name"], row["size"]): row["seconds"] for row in old["rows"] if "seconds" in row}
    after = {(row["name"], row["size"]): row["seconds"] for row in new["rows"] if "seconds" in row}
    slower = []
    for key in (key for key in after if key in before):
        ratio = after[key] / before[key]
        line = f"{key[0]:<40} {key[1]:<28} {before[key] * 1e6:>14.2f} {after[key] * 1e6:>14.2f} {ratio:>7.3f}"
        is_slower = ratio > 1 + options.threshold / 100
        print(line + ("  slower" if is_slower else ""))
        if is_slower:
            slower.append(f"{new['program']}: {key[0]}, {key[1]}: {ratio:.2f} times as long")
    added = [f"{name}, {size}" for name, size in after if (name, size) not in before]
    if added:
        print(f"  only in the new file: {'; '.join(added)}")
    print()
    missing = [f"{new['program']}: {name}, {size}" for name, size in before if (name, size) not in after]
    return len(before.keys() & after.keys()), slower, missing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--threshold", type=float, default=10, help="percent by which a row may take longer [10]")
    parser.add_argument("--other-machine", action="store_true", help="compare files of different machines")
    options = parser.parse_args()
    if not 0 <= options.threshold < math.inf:
        refuse(f"--threshold is {options.threshold:g}: expected a number of percent from 0")
    if options.old.is_dir() != options.new.is_dir():
        refuse(f"{options.old} and {options.new}: expected two files or two folders")
    old_files, new_files = files_of(options.old), files_of(options.new)
    names = [name for name in old_files if name in new_files]
    compared, slower, missing = 0, [], [name for name in old_files if name not in new_files]
    print(f"{'row':<40} {'size':<28} {'old us':>14} {'new us':>14} {'ratio':>7}\n")
    try:
        for name in names:
            old, new = (result_files.read(files[name]) for files in (old_files, new_files))
            of_file, slower_rows, missing_rows = compare(old, new, options)
            compared += of_file
            slower += slower_rows
            missing += missing_rows
    except result_files.ResultsError as error:
        refuse(error)
    if compared == 0:
        refuse(f"{options.old} and {options.new} have no row in common")
    for name in new_files:
        if name not in old_files:
            print(f"only in the new folder: {name}")
    print(f"{compared} rows compared, {len(slower)} slower by more than {options.threshold:g}%")
    for text in slower:
        print(f"  {text}")
    if missing:
        print(f"{len(missing)} missing in {options.new}")
    for text in missing:
        print(f"  {text}")
    sys.exit(1 if slower or missing else 0)


if __name__ == "__main__":
    main()
