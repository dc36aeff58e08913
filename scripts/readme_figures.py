#!/usr/bin/env python3
"""Makes the tables and pictures of the docs from the result files of the benchmarks.

    scripts/readme_figures.py            writes them
    scripts/readme_figures.py --check    fails if one of them differs from the result files

A table is in a page between two markers,

    <!-- figures: steps -->
    <!-- end of figures -->

and is made from the files in benchmarks/results/FOLDER (--folder), which the programs of benchmarks/ write with --json, or
from benchmarks/results/sass and training, which benchmarks/sass and scripts/training_runs.py write, or from the files of a GPU.
The names of the tables are in TABLES below. The pictures go to docs/pictures; matplotlib draws them (pip install
matplotlib), and --check does not need it.
"""
import argparse
import datetime
import pathlib
import re
import statistics
import sys
import textwrap

import gpt_figures
import gpu_figures
import pictures
import result_files
import sass_figures
import training_figures
from result_files import ResultsError

MARKER = re.compile(r"(<!-- figures: ([a-z0-9_ -]+?) -->\n)(.*?)(<!-- end of figures -->)", re.DOTALL)
PAGES = ["README.md", "docs", "lessons"]  # and the README.md in the folder of the result files


class Results:
    """The result files of one machine, each read when it is first used."""

    def __init__(self, folder):
        self.folder, self.files = folder, {}
        self.used = []  # names of the files that the current table or picture has used

    def file(self, name):
        if name not in self.files:
            self.files[name] = result_files.read(self.folder / f"{name}.json")
        if name not in self.used:
            self.used.append(name)
        return self.files[name]

    def rows(self, name):
        return self.file(name)["rows"]

    def sass_rows(self, name):
        """The rows of a file of benchmarks/sass, which belongs to no machine."""
        return self.file(f"../sass/{name}")["rows"]

    @property
    def training(self):
        """The folder of scripts/training_runs.py, which belongs to no machine either."""
        self.used.append("../training/*.csv")
        return self.folder.parent / "training"

    def row(self, name, row, size):
        for found in self.rows(name):
            if (found["name"], found["size"]) == (row, size):
                return found
        raise ResultsError(f"{self.folder / name}.json has no row '{row}' of size '{size}'")


def made(draw, name, results):
    """The table or picture that `draw` makes from the results. Throws ResultsError that names the files if results are
    missing."""
    results.used.clear()
    try:
        return draw(results)
    except (KeyError, IndexError, ValueError, TypeError, AttributeError, ZeroDivisionError, StopIteration) as error:
        files = ", ".join(used if used.endswith(".csv") else f"{used}.json" for used in results.used)
        reason = f"a row or setting lacks {error}" if isinstance(error, KeyError) else error or type(error).__name__
        raise ResultsError(f"'{name}' cannot be made of {files} in {results.folder}: {reason}") from error


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def time_text(seconds):
    for unit, factor in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1:
            return f"{pictures.number(seconds * factor)} {unit}"
    return f"{pictures.number(seconds * 1e9)} ns"


def power_of_two(size):
    n = int(size.split()[0])
    return f"2^{n.bit_length() - 1}" if n & (n - 1) == 0 else f"{n}"


def percent(share):
    return f"{100 * share:.0f}%" if share >= 0.0995 else f"{100 * share:.1f}%" if share >= 0.00095 else f"{100 * share:.2f}%"


# ---- tables: each takes the results and returns the lines ----------------------------------------------------


def steps(results):
    return table(["model, batch", "Ringtape", "estimate", "PyTorch", "PyTorch / Ringtape"],
                 [[f"{row['model']}, {row['batch']}", time_text(row["seconds"]), time_text(row["limit_seconds"]),
                   time_text(row["torch_seconds"]), f"{row['torch_seconds'] / row['seconds']:.1f}"]
                  for row in results.rows("torch_steps")])


def steps_by_dtype(results):
    files = {dtype: results.rows(f"bench_step_{dtype}") for dtype in ("f32", "bf16", "f16")}
    return table(["model, batch", "f32", "times the estimate", "bf16", "times the estimate", "f16, multiplied in f32",
                  "times the estimate"],
                 [[f"{row['model']}, {row['batch']}"] +
                  [text for rows in files.values()
                   for text in (time_text(rows[i]["seconds"]), f"{rows[i]['seconds'] / rows[i]['limit_seconds']:.2f}")]
                  for i, row in enumerate(files["f32"])])


def loops(results):
    rows = [row for row in results.rows("bench_simt") if "loop_seconds" in row]
    sizes = list(dict.fromkeys(row["size"] for row in rows))
    ratio = {(row["name"], row["size"]): f"{row['seconds'] / row['loop_seconds']:.2f}" for row in rows}
    return table(["work"] + [f"{power_of_two(size)} elements" for size in sizes],
                 [[name] + [ratio[name, size] for size in sizes] for name in dict.fromkeys(row["name"] for row in rows)])


def simt(results):
    return table(["work, f32", "n", "moves", "kernel", "loop", "ratio", "target: at most"],
                 [[row["name"], power_of_two(row["size"]), f"{row['bytes'] * 1e-6:.3g} MB",
                   f"{time_text(row['seconds'])}, {row['gb_per_s']:.3g} GB/s", time_text(row["loop_seconds"]),
                   f"{row['seconds'] / row['loop_seconds']:.2f}", f"{row['target_of_loop']:g}"]
                  for row in results.rows("bench_simt") if "loop_seconds" in row])


def simt_costs(results):
    rows = [row for row in results.rows("bench_simt") if "loop_seconds" not in row]
    return table(["what", "of", "takes"], [[row["name"], row["size"], time_text(row["seconds"])] for row in rows])


def torch_ratio(row):
    """PyTorch's time relative to Ringtape's: "torch_ratio" if the row has it, as kernels do (compare_torch.py)."""
    return row.get("torch_ratio", row["torch_seconds"] / row["seconds"])


def torch_of(results):
    return {(row["name"], row["size"]): row for work in ("kernels", "gemm") for row in results.rows(f"torch_{work}")}


def kernel_row(row, beside):
    cells = [f"`{row['name']}`" if " " not in row["name"] else row["name"], row["size"], time_text(row["seconds"]),
             f"{row['seconds'] / row['limit_seconds']:.2f}"]
    cells.append(f"{row['seconds'] / row['loop_seconds']:.2f}" if "loop_seconds" in row else "")
    other = beside.get((row["name"], row["size"]))
    cells.append(f"{torch_ratio(other):.2f}" if other else "")
    return cells


def kernels(results):
    beside = torch_of(results)
    return table(["kernel", "size", "time", "times the limit", "times a loop", "PyTorch / Ringtape"],
                 [kernel_row(row, beside) for row in results.rows("bench_kernels")])



def gemm(results):
    beside = torch_of(results)
    lines = []
    for row in results.rows("bench_gemm"):
        way, name = row["name"].split(": ")
        if way != "own":
            continue
        vendor = results.row("bench_gemm", f"vendor: {name}", row["size"])
        torch = beside.get((f"vendor: {name}", row["size"]))
        lines.append([name, row["size"].rsplit(" ", 1)[0], f"{row['gflop_per_s']:.0f}", f"{vendor['gflop_per_s']:.0f}",
                      percent(vendor["seconds"] / row["seconds"]),
                      f"{torch_ratio(torch):.2f}" if torch else ""])
    return table(["product", "m x n x k", "own, GFLOP/s", f"{results.file('bench_gemm')['settings']['vendor']}, GFLOP/s",
                  "own of it", "PyTorch / Ringtape with it"], lines)


def in_gflop_per_s(rates):
    return f"{min(rates):.0f} to {max(rates):.0f}"


def is_narrow(row):
    """Whether it is a product of a last layer with 10 classes."""
    return "10" in row["size"].split()


def torch_rates(results):
    return [row["flops"] / row["torch_seconds"] * 1e-9 for row in results.rows("torch_gemm") if not is_narrow(row)]


def gemm_in_words(results):
    file = results.file("bench_gemm")
    own, vendor, narrow = [], [], []
    for row in file["rows"]:
        way, name = row["name"].split(": ")
        if way == "vendor":
            continue
        other = results.row("bench_gemm", f"vendor: {name}", row["size"])
        share = 100 * other["seconds"] / row["seconds"]
        if is_narrow(row):
            narrow.append(share)
        else:
            own.append((row["gflop_per_s"], share))
            vendor.append(other["gflop_per_s"])
    rates, shares = zip(*own)
    return [f"By `bench_gemm`, our own kernel reaches {in_gflop_per_s(rates)} GFLOP/s on the shapes of these "
            f"models,", f"{min(shares):.0f} to {max(shares):.0f}% of the {in_gflop_per_s(vendor)} of "
            f"{file['settings']['vendor']}; for a last layer of 10 classes it is {min(narrow):.0f} to {max(narrow):.0f}%.",
            "That is why the library is the default where there is one.",
            f"PyTorch reaches {in_gflop_per_s(torch_rates(results))} GFLOP/s on the wide ones."]


def libraries_in_words(results):
    vendor = results.file("bench_gemm")["settings"]["vendor"]
    rates = [row["gflop_per_s"] for row in results.rows("bench_gemm") if row["name"].startswith("vendor") and not is_narrow(row)]
    return ["The larger a model, the more of a step is matrix products, so the last row compares two libraries more than the first does:",
            f"{vendor}, with which Ringtape was built, has {in_gflop_per_s(rates)} GFLOP/s on such products, and the BLAS of the "
            f"PyTorch package", f"{in_gflop_per_s(torch_rates(results))} on this CPU."]


def behind(results):
    """The kernels that are more than 15% slower than PyTorch or a plain loop."""
    beside = torch_of(results)
    rows = []
    for row in results.rows("bench_kernels"):
        other = beside.get((row["name"], row["size"]))
        slower = [row["seconds"] / row["loop_seconds"]] if "loop_seconds" in row else []
        slower += [1 / torch_ratio(other)] if other else []
        if slower and max(slower) > 1.15:
            rows.append((max(slower), kernel_row(row, beside)))
    return table(["kernel", "size", "time", "times the limit", "times a loop", "PyTorch / Ringtape"],
                 [cells for _, cells in sorted(rows, key=lambda row: -row[0])])


def loader(results):
    rows = [[row["name"].removeprefix("batch, "), f"{row['seconds'] * 1e6:.1f} us",
             f"{row['waiting_seconds'] * 1e6:.1f} us"] for row in results.rows("bench_loader")]
    rows += [[f"PyTorch, {row['name'].removeprefix('batch, ')}", f"{row['torch_seconds'] * 1e6:.1f} us", ""]
             for row in results.rows("torch_loader")]
    return table(["way", "time a batch", "of it in the loader's functions"], rows)


def not_faster(rows):
    """The names of the rungs that are not faster than the previous rung."""
    return [row["name"] for before, row in zip(rows, rows[1:]) if row["seconds"] >= before["seconds"]]


def rate_of(rows):
    """The key of a ladder's rate in its rows, and the unit."""
    return ("gflop_per_s", "GFLOP/s") if "gflop_per_s" in rows[0] else ("gb_per_s", "GB/s")


def inputs_of(row):
    return row.get("inputs", "f32")


def limit_seconds_of(rows):
    """The limit of a ladder's rungs, which all do the same work: the median of the limits measured in turn with each rung."""
    return statistics.median(row["limit_seconds"] for row in rows)


def ladder(results, name):
    rows = results.rows(f"ladder_{name}")
    rate, unit = rate_of(rows)
    slow = not_faster(rows)
    settings = results.file(f"ladder_{name}")["settings"]
    has_vendor = "vendor" in settings
    head = [f"{name}, {rows[0]['size']}", "time", unit, "of the limit"]
    if has_vendor:
        head.append(f"of {settings['vendor']} in the rung's dtype")
    lines = []
    for row in rows:
        inputs = "" if inputs_of(row) == "f32" else f" ({inputs_of(row)})"
        lines.append([row["name"] + inputs + (r" \*" if row["name"] in slow else ""), time_text(row["seconds"]),
                      pictures.number(row[rate]), percent(limit_seconds_of(rows) / row["seconds"])] +
                     ([percent(row["vendor_seconds"] / row["seconds"])] if has_vendor else []))
    note = (rf"\* not faster than the rung before, in this run: {', '.join(slow)}." if slow else
            "Each rung is faster than the one before.")
    return table(head, lines) + ["", f"The limit: {settings['limit']}. {note}"]


def memory_of_batches(results):
    names = ["parameters", "gradients", "optimizer state", "activations", "activation gradients", "data"]
    rows = []
    for row in results.rows("bench_accumulation"):
        if row["name"] == "memory of 784-2048-2048-10":
            rows.append([row["size"]] + [f"{row[f'{name} bytes'] / 2**20:.3f}" for name in names] +
                        [f"{row['peak_bytes'] / 2**20:.2f}"])
    return table(["784-2048-2048-10", "parameters", "gradients", "Adam", "activations", "their gradients", "data",
                  "total"], rows)


def milliseconds(row, digits):
    least, most = (f"{row[key] * 1e3:.{digits}f}" for key in ("least_seconds", "most_seconds"))
    return f"{row['seconds'] * 1e3:.{digits}f} ({least} to {most})"


def accumulation(results):
    models = ["784-2048-2048-10", "784-256-10"]
    found = {model: [row for row in results.rows("bench_accumulation") if row["name"] == f"update of {model}"]
             for model in models}
    lines = []
    for i, row in enumerate(found[models[0]]):
        _, _, _, micro_steps, _, micro_batch = row["size"].split()
        lines.append([micro_steps, micro_batch] +
                     [f"{milliseconds(rows[i], 2)}, {rows[0]['seconds'] / rows[i]['seconds']:.2f}, "
                      f"{rows[i]['peak_bytes'] / 2**20:.2f}" for rows in found.values()])
    return table(["steps", "micro-batch"] + [f"{model}: ms (least to most), relative throughput, peak MiB" for model in models], lines)


def recomputation(results):
    rows = [row for row in results.rows("bench_accumulation") if "activation_bytes" in row]
    return table(["layers in a segment", "activations and their gradients, MiB (formula)", "ms an update (least to most)", "relative time"],
                 [[row["size"].removeprefix("segments of "),
                   f"{row['activation_bytes'] / 2**20:.2f} ({row['formula_bytes'] / 2**20:.2f})",
                   milliseconds(row, 1), f"{row['seconds'] / rows[0]['seconds']:.2f}"] for row in rows])


def overlap(results):
    lines, alone = [], 0
    for row in results.rows("bench_overlap"):
        is_alone = "hidden_by_timeline" not in row
        alone = row["seconds"] if is_alone else alone
        lines.append([row["name"], f"{row['seconds'] * 1e3:.1f}",
                      "" if is_alone else f"{(row['seconds'] - alone) * 1e3:.1f}",
                      f"{row['hidden_by_step_times']:.1%}" if "hidden_by_step_times" in row else "",
                      "" if is_alone else f"{row['hidden_by_timeline']:.1%} ({row['hidden_least'] * 100:.1f} to {row['hidden_most'] * 100:.1f})"])
    return table(["", "ms a step", "more than alone", "hidden, by step times", "hidden, by timeline"], lines)


def hidden_in_words(results):
    rows = {row["name"]: row for row in results.rows("bench_overlap")}

    def of(way, alone):
        way, alone = rows[way], rows[alone]
        return (f"{way['hidden_by_timeline']:.1%} (a step of {way['seconds'] * 1e3:.0f} ms, alone "
                f"{alone['seconds'] * 1e3:.0f})")

    return [f"ZeRO 3 hides {of('ZeRO 3, gathered one unit ahead', 'ZeRO 3, each rank alone')} of its communication,",
            f"ZeRO 1 {of('ZeRO 1, gathered during the next forward', 'ZeRO 1, each rank alone')}",
            f"and plain data parallelism's buckets {of('reduced during backward', 'each rank alone')},",
            "by the timeline (medians)."]


def pipeline(results):
    def bubbles(name):
        return [[f"{row[key]:.1%}" for key in ("bubble", "bubble_by_formula")] for row in results.rows(name)]

    def way(row):
        micro_batches, chunks = (int(words.split()[0]) for words in row["size"].split(", "))
        return f"{row['name']}{f' in {chunks} chunks' if chunks > 1 else ''}, {micro_batches}"

    names = [way(row) for row in results.rows("bench_pipeline")]
    formula = "(p-1)/(vm+p-1)"
    return table(["schedule, micro-batches", "2 stages", formula, "8 stages, sleeps", formula],
                 [[name, *work, *sleeps] for name, work, sleeps in
                  zip(names, bubbles("bench_pipeline"), bubbles("bench_pipeline_sleeps"))])


def all_reduce(results):
    sizes = {}
    for row in results.rows("collectives") + results.rows("bench_mpi"):
        sizes.setdefault(int(row["size"].split()[0]), {})[row["name"]] = row["seconds"]
    return table(["size", "all_reduce (`MPI_Iallreduce` on our thread)", "ring_all_reduce", "`MPI_Allreduce`"],
                 [[f"{size >> 20} MiB"] + [f"{found[name] * 1e3:.2f} ms"
                                           for name in ("all_reduce", "ring_all_reduce", "MPI_Allreduce")]
                  for size, found in sorted(sizes.items())])


def machine(results):
    return table(["", ""], [[name, value] for name, value in results.file("bench_kernels")["machine"].items()])


LONGEST_PAUSE = datetime.timedelta(minutes=15)  # between two files of one run; measure_all.sh takes about 20 minutes in total


def runs(results):
    """A list of the result files that were written together, with date and revision."""
    found = []
    for name in (path.stem for path in results.folder.glob("*.json")):
        file = results.file(name)
        found.append((datetime.datetime.strptime(file["date"], "%Y-%m-%dT%H:%M:%SZ"), file["revision"], name))
    groups = []
    for date, revision, name in sorted(found):
        if not groups or revision != groups[-1][-1][1] or date - groups[-1][-1][0] > LONGEST_PAUSE:
            groups.append([])
        groups[-1].append((date, revision, name))
    lines = []
    for group in groups:
        times = list(dict.fromkeys(f"{date:%H:%M}" for date in (group[0][0], group[-1][0])))
        names = ", ".join(f"`{name}`" for name in sorted(name for _, _, name in group))
        lines += textwrap.wrap(f"- {group[0][0]:%Y-%m-%d}, {' to '.join(times)} UTC, revision {group[0][1]}: {names}", 120,
                               subsequent_indent="  ", break_on_hyphens=False)
    note = ["", "`-dirty`: that commit with changes that were not committed yet."]
    return lines + (note if any(revision.endswith("-dirty") for _, revision, _ in found) else [])


def gpt_others(results):
    return table(*gpt_figures.others(results, time_text))


def gpt_shakespeare(results):
    return table(*gpt_figures.shakespeare(results, time_text))


def sass_estimates(results):
    return table(*sass_figures.estimates(results.sass_rows("estimates"), time_text, percent))


def sass_published(results):
    return table(*sass_figures.published(results.sass_rows("published"), percent))


def sass_faults(results):
    return table(*sass_figures.faults(results.sass_rows("kernels")))


def on_gpu(results):
    """The result files of the GPU."""
    return Results(results.folder.parent / gpu_figures.FOLDER)


def gpu_estimates(results):
    return gpu_figures.estimated_seconds(results.sass_rows("estimates"))


def gpu_kernels(results):
    return table(*gpu_figures.kernels(on_gpu(results), gpu_estimates(results), torch_ratio, time_text, percent))


def gpu_errors_in_words(results):
    return gpu_figures.errors_in_words(on_gpu(results), gpu_estimates(results), percent)


def gpu_machine(results):
    return machine(on_gpu(results))


def gpu_steps(results):
    return table(*gpu_figures.steps(on_gpu(results), time_text))


def gpu_products(results):
    return table(*gpu_figures.products(on_gpu(results), percent))


def gpu_attention(results):
    return table(*gpu_figures.attention(on_gpu(results), time_text))


def gpu_gpt(results):
    return table(*gpu_figures.gpt(on_gpu(results), time_text))


LADDERS = ["gemm", "reduce", "norm", "softmax", "layer_norm", "attention", "transpose"]
TABLES = {"steps": steps, "steps by dtype": steps_by_dtype, "loops": loops, "simt": simt, "simt costs": simt_costs,
          "kernels": kernels, "behind": behind, "gemm": gemm,
          "gemm in words": gemm_in_words, "libraries in words": libraries_in_words, "loader": loader,
          "memory": memory_of_batches, "accumulation": accumulation, "recomputation": recomputation,
          "overlap": overlap, "hidden in words": hidden_in_words, "pipeline": pipeline, "all-reduce": all_reduce, "machine": machine,
          "runs": runs, "gpt others": gpt_others, "gpt shakespeare": gpt_shakespeare,
          "sass estimates": sass_estimates,
          "sass published": sass_published, "sass faults": sass_faults,
          "gpu machine": gpu_machine, "gpu kernels": gpu_kernels, "gpu errors in words": gpu_errors_in_words,
          "gpu steps": gpu_steps, "gpu products": gpu_products, "gpu attention": gpu_attention, "gpu gpt": gpu_gpt}
TABLES.update({name: (lambda results, make=make: table(*make(results.training)))
               for name, make in training_figures.TABLES.items()})
TABLES.update({name: (lambda results, make=make: make(results.training))
               for name, make in training_figures.IN_WORDS.items()})
TABLES.update({f"ladder {name}": (lambda results, name=name: ladder(results, name)) for name in LADDERS})
TABLES.update({f"gpu ladder {name}": (lambda results, name=name: ladder(on_gpu(results), name)) for name in LADDERS})


# ---- pictures: each takes the results and returns a function of pictures.py with its arguments ----------------


GROUPS = [("attention", ("attention",)), ("optimizers", ("gradient_norm", "clip")), ("losses", ("cross_entropy", "mse", "count")),
          ("sums and biases", ("sum_dim", "broadcast_dim", "bias")), ("element by element", ("",))]


def group_of(name):
    return next(group for group, starts in GROUPS
                if name.startswith(starts) or (group == "optimizers" and name.endswith("_step")))


def estimated_roofline(results):
    """roofline() for a GPU, from estimates."""
    points = sass_figures.roofline_points(results.sass_rows("estimates"), results.folder.parent / "sass" / "launches.json",
                                          group_of)
    rates = results.file("../sass/estimates")["settings"][sass_figures.SHOWN]
    copy = rates["copy_bytes_per_second"]
    return pictures.roofline, [[(f"{group}, estimated", *rest) for group, *rest in points],
                               [("f32 multiply-adds", rates["f32_flops_per_second"])], copy,
                               f"copy of memory: {copy * 1e-9:.0f} GB/s",
                               f"Kernels on an {sass_figures.SHOWN}: estimated from their machine code, not measured"]


def roofline(results):
    """Each kernel at its largest size, which does not fit in a cache."""
    kernels_file = results.file("bench_kernels")
    largest = {}
    for row in kernels_file["rows"]:
        if "flops" in row and ("bf16" not in row["size"]) and row["bytes"] >= largest.get(row["name"], row)["bytes"]:
            largest[row["name"]] = row
    points = []
    for name, row in largest.items():
        label = name.split(" (")[0]
        points.append((group_of(name), name, label, row["flops"] / row["bytes"], row["flops"] / row["seconds"]))
    for way, text in (("own", "matrix products, own"), ("vendor", "matrix products, library")):
        for row in results.rows("bench_gemm"):
            if row["name"].startswith(way):
                m, n, k = row["size"].split()[:5:2]
                label = f"{way}, {m}^3" if m == n == k else ""
                points.append((text, f"{row['name']}, {row['size']}", label, row["flops"] / row["bytes"],
                               row["flops"] / row["seconds"]))
    of_gemm = [row["flops"] / row["limit_seconds"] for row in results.rows("ladder_gemm")]
    roofs = [("f32 multiply-adds in registers", statistics.median(of_gemm))]
    copy = statistics.median(row["bytes"] / row["limit_seconds"] * 1e-9 for row in kernels_file["rows"]
                             if row["bytes"] >= 100e6)  # does not fit in a cache
    return pictures.roofline, [points, roofs, copy * 1e9, f"copy of memory: {copy:.0f} GB/s",
                               f"Every kernel on {kernels_file['machine']['threads']} threads of an "
                             f"{kernels_file['machine']['cpu'].split(' (')[0]}"]


def ladder_picture(results, name):
    rows = results.rows(f"ladder_{name}")
    rate, unit = rate_of(rows)
    settings = results.file(f"ladder_{name}")["settings"]
    work = rows[0]["flops" if rate == "gflop_per_s" else "bytes"]
    others, dtypes = {}, list(dict.fromkeys(inputs_of(row) for row in rows))
    if "vendor" in settings:  # a bar for each dtype of the inputs, from the first rung that has it
        others = {f"{settings['vendor']}, {inputs_of(row)}": work / row["vendor_seconds"] * 1e-9 for row in reversed(rows)}
    others["limit"] = work / limit_seconds_of(rows) * 1e-9
    bars = [(row["name"] + (f", {inputs_of(row)}" if inputs_of(row) != dtypes[0] else ""), row[rate]) for row in rows]
    return pictures.ladder, [bars, list(others.items()), unit, f"{name}, {rows[0]['size']}, {' and '.join(dtypes)}"]


def steps_picture(results):
    rows = []
    for row in results.rows("torch_steps"):
        rows.append((f"{row['model']}, batch {row['batch']}",
                     [("Ringtape", row["seconds"]), ("estimate", row["limit_seconds"])] +
                     [(f"PyTorch {mode}", seconds) for mode, seconds in row["torch_modes"].items()]))
    settings = results.file("torch_steps")["settings"]
    return pictures.steps, [rows, f"A training step, f32, beside PyTorch {settings['torch'].split('+')[0]}"]


PICTURES = {"roofline": roofline, "roofline_estimated": estimated_roofline, "steps": steps_picture}


def measured_ladders(results):
    """The ladders with a result file. After its first measurement a page has the ladder's table, which needs the file."""
    return [name for name in LADDERS if (results.folder / f"ladder_{name}.json").exists()]


def pictures_of(results):
    """The names of the pictures, each with the function that describes it."""
    return {**PICTURES, **{f"ladder_{name}": (lambda results, name=name: ladder_picture(results, name))
                           for name in measured_ladders(results)}}


# ---- pages ---------------------------------------------------------------------------------------------------


def with_tables(text, results, page):
    """The page with all tables remade."""
    if text.count("<!-- figures: ") != len(MARKER.findall(text)):
        raise ResultsError(f"{page}: a marker '<!-- figures: ... -->' without its '<!-- end of figures -->'")

    def replace(match):
        if match[2] not in TABLES:
            raise ResultsError(f"{page}: no table is named '{match[2]}': expected {', '.join(TABLES)}")
        return match[1] + "\n".join(made(TABLES[match[2]], match[2], results)) + "\n" + match[4]

    return MARKER.sub(replace, text)


def stale_files(root, results):
    """The pages and pictures that differ from the result files: (path, function that makes the text)."""
    for path in [root / place for place in PAGES] + [results.folder / "README.md"]:
        for page in sorted(path.rglob("*.md")) if path.is_dir() else [path]:
            text = page.read_text()
            if "<!-- figures: " in text:
                made_anew = with_tables(text, results, page.relative_to(root))
                if made_anew != text:
                    yield page, lambda made_anew=made_anew: made_anew
    for name, describe in pictures_of(results).items():
        path = root / "docs" / "pictures" / f"{name}.svg"
        draw, arguments = made(describe, name, results)
        if not path.exists() or pictures.digest(draw, arguments) not in path.read_text():
            yield path, lambda: made(lambda _: pictures.svg(draw, arguments), name, results)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if something is stale")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--folder", default="cpu-amd-epyc-2-threads", help="a folder of benchmarks/results")
    options = parser.parse_args()
    results = Results(options.root / "benchmarks" / "results" / options.folder)
    stale = []
    try:
        for name in measured_ladders(results):
            print(f"ladder {name}, not faster than the rung before: "
                  f"{', '.join(not_faster(results.rows(f'ladder_{name}'))) or 'none'}")
        for path, make in stale_files(options.root, results):
            stale.append(str(path.relative_to(options.root)))
            if not options.check:
                text = make()
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
    except ResultsError as error:
        sys.exit(f"error: {error}")
    except ModuleNotFoundError as error:
        sys.exit(f"error: {stale[-1]} is stale, and drawing it needs {error.name}: pip install matplotlib")
    if options.check and stale:
        sys.exit(f"error: {', '.join(stale)}: not what the result files say: run scripts/readme_figures.py")
    print("\n".join(f"wrote {path}" for path in stale) or "tables and pictures are as the result files say")


if __name__ == "__main__":
    main()
