"""Reads the result files that the programs of benchmarks/ write with --json (format: profile/result_file.h)."""
import json
import math
import sys

TEXTS = ("name", "size", "model", "inputs", "file", "limit", "occupancy_limit", "source")
TORCH_MODES = ("eager", "compiled")
MEASURED_SETTINGS = ("limit_gflop_per_s", "large_product_gflop_per_s")  # measured, not chosen; the second is in older files
LIBRARY_SETTINGS = ("vendor", "torch", "torch_build", "torch_cpu_capability")  # may differ, as a comparison may be of two versions
LARGEST_WAIT = 0.05  # as kMaxCoreWait in profile/core_wait.h


class ResultsError(Exception):
    """A missing or malformed result file; the message is one line."""


def check_number(where, key, value):
    """Refuses numbers that are not finite, times or amounts of work that are not above 0, and rates below 0."""
    above_0, from_0 = "seconds" in key or key in ("flops", "bytes"), key.endswith("_per_s")
    try:
        good = not isinstance(value, (bool, str)) and math.isfinite(value) and not (
            (above_0 and value <= 0) or (from_0 and value < 0))
    except (TypeError, OverflowError):  # such as a list, or an integer too large for a float
        good = False
    if not good:
        wanted = "a number above 0" if above_0 else "a number from 0" if from_0 else "a number"
        raise ResultsError(f"{where} has {repr(value)[:20]} {key}, expected {wanted}")


def check_row(path, i, row):
    if not isinstance(row, dict) or not isinstance(row.get("name"), str) or not isinstance(row.get("size"), str):
        raise ResultsError(f"{path}: row {i} has no 'name' and 'size'")
    where = f"{path}: row {i} ({row['name']})"
    for key, value in row.items():
        if key == "torch_modes":
            if not isinstance(value, dict) or not set(value) <= set(TORCH_MODES):
                raise ResultsError(f"{where} has {repr(value)[:40]} as torch_modes, expected times of {TORCH_MODES}")
            for mode, seconds in value.items():
                check_number(where, f"seconds of {mode}", seconds)
        elif key not in TEXTS:
            check_number(where, key, value)
        elif not isinstance(value, str):
            raise ResultsError(f"{where} has {repr(value)[:20]} as {key}, expected text")


def differing(old, new, names):
    """A text for each of the names whose values in `old` and `new` differ."""
    return [f"{name}: {old.get(name, 'unknown')} and {new.get(name, 'unknown')}" for name in names
            if old.get(name) != new.get(name)]


def differing_settings(old, new):
    """A text for each chosen setting that differs between two result files."""
    chosen = [name for name in {**old["settings"], **new["settings"]} if name not in MEASURED_SETTINGS + LIBRARY_SETTINGS]
    return differing(old["settings"], new["settings"], chosen)


def warn_if_busy(path, waited):
    """Prints a note on standard error if a measured thread waited for a core for too large a share of the time."""
    if waited is not None and waited > LARGEST_WAIT:
        print(f"note: {path}: the machine was too busy: a thread waited for a core for {100 * waited:.0f}% of the time, "
              f"expected at most {100 * LARGEST_WAIT:.0f}%", file=sys.stderr)


def read(path):
    """The result file at `path`. Throws ResultsError unless texts are strings, numbers are finite, and there is at least one
    row and no two of the same name and size."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ResultsError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ResultsError(f"{path} is no JSON: {error}") from error
    except RecursionError as error:
        raise ResultsError(f"{path} is no JSON that can be read: nested too deeply") from error
    if not isinstance(result, dict) or not isinstance(result.get("program"), str):
        raise ResultsError(f"{path} is no result file: expected an object with 'program'")
    if not isinstance(result.get("machine"), dict) or not isinstance(result.get("settings"), dict):
        raise ResultsError(f"{path} is no result file: expected 'machine' and 'settings', each an object")
    if not isinstance(result.get("rows"), list) or not result["rows"]:
        raise ResultsError(f"{path} is no result file: expected 'rows', a list of one at least")
    if "waited_for_core" in result:
        check_number(path, "waited_for_core", result["waited_for_core"])
        warn_if_busy(path, result["waited_for_core"])
    seen = set()
    for i, row in enumerate(result["rows"]):
        check_row(path, i, row)
        if (row["name"], row["size"]) in seen:
            raise ResultsError(f"{path}: row {i} is the second of name '{row['name']}' and size '{row['size']}'")
        seen.add((row["name"], row["size"]))
    return result
