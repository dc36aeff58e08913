"""Tables and the picture of benchmarks/results/sass: faults in the code that nvcc made of the kernels, and estimates of their
times on GPUs (docs/sass.md). Nothing here is measured."""
import json
import math
import statistics

GPUS = ["A100", "H100", "H200"]
SHOWN = "H200"  # the GPU whose limits the table shows


def parts(row):
    """The size, the GPU, and the launch's number and name."""
    return row["size"].split(" | ")


def works(rows):
    """For each (work, size), the launches on each GPU, in order."""
    found = {}
    for row in rows:
        size, gpu, _ = parts(row)
        found.setdefault((row["name"], size), {}).setdefault(gpu, []).append(row)
    return found


def seconds_of(launches):
    return math.fsum(row["seconds"] for row in launches)  # sum() rounds otherwise since Python 3.12


def share_of_copy(launches):
    """The time of a copy of the bytes as a share of the time; None for work that moves almost no bytes."""
    share = math.fsum(row.get("bytes seconds", 0) for row in launches) / seconds_of(launches)
    return share if share >= 0.005 else None


def estimates(rows, time_text, percent):
    lines = []
    for (name, size), of_gpu in works(rows).items():
        launches = of_gpu[SHOWN]
        longest = max(launches, key=lambda row: row["seconds"])
        share = share_of_copy(launches)
        lines.append([f"`{name}`" if " " not in name else name, size] +
                     [time_text(seconds_of(of_gpu[gpu])) if len(of_gpu[gpu]) == len(launches) else "" for gpu in GPUS] +
                     ["" if share is None else percent(share), longest["limit"],
                      f"{longest['resident_warps']}, {longest['occupancy_limit']}",
                      f"{longest['instructions_of_element']:.3g}", f"{longest['bytes_in_flight'] / 1024:.0f}"])
    head = ["kernel", "size", *GPUS, "of the copy", "takes most", "warps, limited by", "instructions", "KiB in flight"]
    return head, lines


def published(rows, percent):
    """The errors: a line for each kernel, over all its sizes."""
    found = {}
    for row in rows:
        gpu = row["size"].split(" | ")[1]
        found.setdefault((row["name"], gpu), []).append(row["error"])
    lines = []
    for (name, gpu), errors in found.items():
        spread = f"{100 * errors[0]:+.0f}%" if len(errors) == 1 else f"{100 * min(errors):+.0f} to {100 * max(errors):+.0f}%"
        lines.append([name, gpu, str(len(errors)), spread, percent(statistics.mean(map(abs, errors)))])
    mean = percent(statistics.mean(abs(row["error"]) for row in rows))
    lines.append(["all", "", str(len(rows)), "", mean])
    return ["kernel", "GPU", "measurements", "error of the estimated time", "mean, without sign"], lines


def faults(rows):
    """Kernels with local memory or with vector stores in pieces."""
    lines = []
    for row in rows:
        if row["stack"] or row["spills"] or row["split_stores"]:
            lines.append([f"`{row['name']}`", row["size"], str(row["registers"]),
                          f"{row['stack']} bytes, {row['spills']} accesses" if row["stack"] or row["spills"] else "",
                          str(row["split_stores"] or "")])
    return ["kernel", "for", "registers", "local memory", "vectors stored in pieces"], lines


def roofline_points(rows, launches_path, group_of):
    """(group, name, label, operations per byte, operations per second) of the work that has formulas for both."""
    flops = {(row["name"], row["size"]): (row["flops"], row["bytes"])
             for row in json.loads(launches_path.read_text(encoding="utf-8"))["rows"]}
    largest = {}
    for (name, size), of_gpu in works(rows).items():
        operations, needed = flops[name, size]
        if operations > 0 and needed > 0 and "bf16" not in size and needed >= largest.get(name, (0,))[0]:
            largest[name] = (needed, operations, seconds_of(of_gpu[SHOWN]))
    return [("matrix products" if name.startswith("gemm") else group_of(name), name, name, operations / needed, operations / seconds)
            for name, (needed, operations, seconds) in largest.items()]
