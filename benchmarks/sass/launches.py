"""Reads the launches that the program `launches` writes."""
import json

import tools
from estimate import Launch


def read(path):
    """Rows of work: (name, size, launches)."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
        return [(row["name"], row["size"], [launch_of(row, each) for each in row["launches"]]) for row in rows]
    except OSError as error:
        raise tools.SassError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise tools.SassError(f"{path} is not what `launches` writes: {error!r}") from error


def launch_of(row, each):
    ladder = row.get("ladder")
    folder = {"norm": "reduce"}.get(ladder, ladder)
    costs = dict(each.get("of_element", {}))
    math = row["name"].startswith("gemm")
    if math and costs:
        # The bytes of the matrices, which grow with n^2 and not with the multiply-adds.
        costs["read"], costs["written"] = 0, 0
    return Launch(kernel=f"{folder}/{each['kernel']}" if ladder else each["kernel"], grid=tuple(each["grid"]),
                  block=tuple(each["block"]), shared_bytes=each["shared_bytes"], elements=row["elements"], math=math, **costs)
