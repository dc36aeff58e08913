"""Writes and reads the result files of benchmarks/results/sass (format: profile/result_file.h)."""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks" / "results" / "sass"
sys.path.insert(0, str(ROOT / "scripts"))

import result_files
import tools


def write(path, nvcc, rows, settings=None):
    """Writes a line for each row, so that differences are readable."""
    head = {"program": "benchmarks/sass", "machine": {"device": "none: read from the code that nvcc made", "nvcc": nvcc},
            "settings": {"estimated": "by the model of docs/sass.md, not measured", **(settings or {})}}
    lines = [json.dumps(head)[:-1] + ', "rows": ['] + [
        json.dumps(row) + ("," if i + 1 < len(rows) else "") for i, row in enumerate(rows)] + ["]}"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read(path):
    """The rows of a result file, by name and size, and the version of nvcc."""
    try:
        file = result_files.read(path)
    except result_files.ResultsError as error:
        raise tools.SassError(str(error)) from error
    return {(row["name"], row["size"]): row for row in file["rows"]}, file["machine"].get("nvcc", "")
