"""Reads the launches that the program `launches` writes."""
import json
from math import prod as product

import tools
from estimate import LITTLE, Launch


def read(path):
    """The rows of work as (name, size, launches)."""
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
    products = row.get("products", 1 if row["name"].startswith("gemm") else 0)
    blocks_of_element = costs.pop("blocks", 0)
    counted_blocks = blocks_of_element * row["elements"]
    if products == 1 and costs:
        # The bytes of the matrices grow with n^2, not with the multiply-adds, so they do not count for each element.
        costs["read"], costs["written"] = 0, 0
    elif costs and costs["read"] + costs["written"] < LITTLE:
        # The costs other than the distinct bytes grow with the blocks.
        more = min(1, product(each["grid"]) / counted_blocks)
        costs |= {name: costs[name] * more for name in ("moved", "scattered", "shared", "shared_cycles")}
        if row.get("columns") == 0:
            # An arena: its parameters are shorter in the counted run, so the search for a parameter counts too much there.
            costs["requested"] = max(costs["requested"] * more, costs["read"] + costs["written"])
    return Launch(kernel=f"{folder}/{each['kernel']}" if ladder else each["kernel"], grid=tuple(each["grid"]),
                  block=tuple(each["block"]), shared_bytes=each["shared_bytes"], elements=row["elements"], products=products,
                  blocks_of_element=blocks_of_element, columns=row.get("columns", 0), **costs)
