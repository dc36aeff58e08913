"""Pictures and tables with sliders for the lessons' pages, made by the library's programs when the pages are made.

A page has a comment <!-- figure: NAME -->; NAME is a function of FIGURES. A figure with sliders is a table: a view, a piece of
HTML, for each position of the sliders. The page's script only chooses among them and computes nothing.
"""
import concurrent.futures
import csv
import html
import itertools
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

from course import ROOT, Problem, has_mpirun

BIN = "build/release/bin"


# ---- what figures are made of ---------------------------------------------------------------------------------------


def chart_in(svg):
    """The picture of an SVG file as an element of a page, whose style has the colours."""
    return re.sub(r"<style>.*?</style>\n?", "", svg[svg.index("<svg"):], flags=re.DOTALL)


def scrolling(svg, what):
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{html.escape(what)}">{chart_in(svg)}</div>'


def bytes_text(number):
    """1.5 GiB, as the programs print it."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            break
        number, unit = number / 1024, {"B": "KiB", "KiB": "MiB", "MiB": "GiB", "GiB": "TiB"}[unit]
    return f"{number:.4g} {unit}"


def stacked(rows, whole):
    """A bar of parts (name, value, its text, colour), whose full width stands for `whole`, with a list of the parts below."""
    parts = "".join(f'<i style="width:{100 * value / whole:.2f}%;background:var(--c{colour})"></i>'
                    for _, value, _, colour in rows if value > 0)
    keys = "".join(f'<li><i style="background:var(--c{colour})"></i>{html.escape(name)} <b>{text}</b></li>'
                   for name, value, text, colour in rows if value > 0)
    return f'<div class="stack" aria-hidden="true">{parts}</div><ul class="keys">{keys}</ul>'


def table(names, rows):
    """A table of rows (name, the other cells as HTML)."""
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in names)
    lines = "".join(f'<tr><th scope="row">{html.escape(name)}</th>' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>" for name, cells in rows)
    return f'<div class="scroll" tabindex="0" role="region" aria-label="table"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'


def bars(rows, names):
    """A table of rows (name, [(value, text) for each column]); each cell has a bar relative to the column's largest value."""
    largest = [max(cells[i][0] for _, cells in rows) or 1 for i in range(len(names) - 1)]
    return table(names, [(name, [f'<span class="bar"><i style="width:{100 * value / most:.1f}%"></i></span>{text}'
                                 for (value, text), most in zip(cells, largest)]) for name, cells in rows])


class Knob:
    """A slider: its name, the text of each position, and its first position."""

    def __init__(self, name, positions, start=0):
        self.name, self.positions, self.start = name, [str(position) for position in positions], start


def turned(knobs, view):
    """Sliders, and a view for each combination of positions: view(i, j, ...) returns (a sentence, HTML), or None where there is none."""
    every = itertools.product(*(range(len(knob.positions)) for knob in knobs))
    views = {",".join(map(str, at)): found for at in every if (found := view(*at)) is not None}
    sentence, shown = views[",".join(str(knob.start) for knob in knobs)]
    sliders = "".join(
        f'<label>{html.escape(knob.name)} <output>{html.escape(knob.positions[knob.start])}</output>'
        f'<input type="range" min="0" max="{len(knob.positions) - 1}" value="{knob.start}" '
        f'aria-valuetext="{html.escape(knob.positions[knob.start])}" data-positions="{html.escape(json.dumps(knob.positions))}"></label>'
        for knob in knobs)
    data = json.dumps(views).replace("<", "\\u003c")
    return (f'<div class="knobs">{sliders}</div><p class="sentence" aria-live="polite">{sentence}</p><div class="view">{shown}</div>'
            f'<script type="application/json">{data}</script>')


class Figures:
    """Makes figures with the programs of a build."""

    def __init__(self, build):
        self.build = build
        self.made = {}

    def make(self, names):
        """Makes figures in parallel, except those that measure times, which are made when a page asks for them."""
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(self.html, [name for name in names if name not in MEASURED]))

    def html(self, name):
        """The figure of a page."""
        if name not in FIGURES:
            raise Problem(f"there is no figure {name}: expected one of {', '.join(FIGURES)}")
        if name not in self.made:
            make, title, command = FIGURES[name]
            if "mpirun" in command and not has_mpirun():
                content = "<p>Not drawn: there is no Open MPI where this page was made.</p>"
            else:
                content = make(self)
            self.made[name] = (f'<figure class="drawn" id="figure-{name}" aria-labelledby="caption-{name}"><figcaption id="caption-{name}">'
                               f'{html.escape(title)}</figcaption>\n{content}\n<p class="made">Made by <code>{html.escape(command)}</code></p></figure>\n')
        return self.made[name]

    def output(self, command, folder=None):
        status, text = self.build.shell(command, folder)
        if status != 0:
            raise Problem(f"{command} ended with {status}: {text.strip()}")
        return text

    def json(self, command):
        text = self.output(command)
        return json.loads(text[text.index("{"):])

    def file(self, command, name):
        """The text of the file `name` that a command writes."""
        with tempfile.TemporaryDirectory() as folder:
            self.output(command, folder)
            return (pathlib.Path(folder) / name).read_text()

    def report(self, command):
        """The report of a training run (docs/report.md), as data with pictures."""
        return json.loads(self.file(f"{command} --report run.json", "run.json"))

    def chart(self, title, x, y, series, dots=(), from_zero=False, log_log=False):
        """A chart of lines and, for the names in `dots`, of single points; series: {name: [(x, y), ...]}. With `from_zero` the vertical
        axis begins at 0; else it may be logarithmic. With `log_log` both axes are logarithmic."""
        data = {"title": title, "x": x, "y": y, "from_zero": from_zero, "log_log": log_log,
                "series": [{"name": name, "dots": name in dots, "points": points} for name, points in series.items()]}
        run = subprocess.run([self.build.programs / "lessons/chart"], input=json.dumps(data), capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise Problem(f"chart: {run.stderr.strip()}")
        return f'<div class="fits">{chart_in(run.stdout)}</div>'

    def colours(self):
        """The style of the library's pictures (plot/style.cpp), whose dark colours the page's switch chooses too."""
        style = re.search(r"<style>(.*?)</style>", self.file(f"{BIN}/lessons/tape --save-tape tape.svg", "tape.svg"), re.DOTALL)[1]
        dark = re.search(r"@media \(prefers-color-scheme: dark\) \{\s*:root \{(.*?)\}\s*\}", style, re.DOTALL)
        return (style.replace(dark[0], dark[0].replace(":root {", ':root:not([data-theme="light"]) {'))
                + f':root[data-theme="dark"] {{{dark[1]}}}\n')


# ---- the figures ------------------------------------------------------------------------------------------------------


def tape(figures):
    """The program's own picture of its three operations, at several weights."""
    return scrolling(figures.file(f"{BIN}/lessons/tape --save-tape tape.svg", "tape.svg"), "the tape, from the leaves to the loss")


def ladder(figures):
    """What lens counts for each version of the GEMM."""
    rows = []
    for line in figures.output(f"{BIN}/lens gemm --size 128").splitlines():
        cells = [cell.split() for cell in line.split("|")]
        if re.match(r"\d+ \w", line):
            requests, _, moved, _ = cells[1]
            shared, cycles, conflicts, _ = cells[2]
            rows.append((" ".join(cells[0]), [(float(moved), f"{moved} MB"), (int(requests), f"{int(requests):,}"),
                                              (int(cycles), f"{int(cycles):,}"), (int(conflicts), f"{int(conflicts):,}")]))
    return bars(rows, ["version", "global memory moved", "requests to it", "cycles of shared memory", "of them conflicts"])


def tiles(figures):
    """The elements that a block, a warp and a thread of each rung touch, in all steps, in the first and in the second."""
    rungs, steps = range(1, 10), [-1, 0, 1]
    with tempfile.TemporaryDirectory() as folder:
        texts = {(i, j): figures.output(f"{BIN}/lessons/tiles --rung {rung} --step {step} --svg tiles{i}{j}.svg || true", folder)
                 for i, rung in enumerate(rungs) for j, step in enumerate(steps)}
        pictures = {at: file.read_text() for at in texts if (file := pathlib.Path(folder) / f"tiles{at[0]}{at[1]}.svg").exists()}

    def view(i, j):
        if (i, j) not in pictures:
            return None  # a rung of one step
        lines = texts[i, j].splitlines()
        return f"{lines[0]}. {lines[-1]}", scrolling(pictures[i, j], "elements of the three matrices")

    return turned([Knob("rung", rungs, 2), Knob("steps along k", ["all", "the first", "the second"], 1)], view)


def fragments(figures):
    """Which lane holds each element of a tensor core's matrices; the cells of one lane are marked."""
    text = figures.output(f"{BIN}/lessons/fragments --all")
    matrices = [(name, [line.split()[2:] for line in rows.splitlines()])
                for name, rows in re.findall(r"^\w.* of ([ABC])[^\n]*\n((?:  row .*\n)+)", text.replace("\nof B", "\nElements of B"), re.MULTILINE)]

    def view(lane):
        shown = "".join(f"<div><h4>{name}</h4>" + "".join('<p class="lanes">' + "".join(
            f'<i class="on">{cell}</i>' if int(cell) == lane else f"<i>{cell}</i>" for cell in row) + "</p>" for row in rows) + "</div>"
            for name, rows in matrices)
        counts = [sum(row.count(str(lane)) for row in rows) for _, rows in matrices]
        return (f"Lane {lane} holds {counts[0]} elements of A, {counts[1]} of B and {counts[2]} of C.",
                f'<div class="scroll" tabindex="0" role="region" aria-label="the lane of each element"><div class="side">{shown}</div></div>')

    return turned([Knob("lane", range(32), 5)], view)


def shuffles(figures):
    """What the lanes hold after each step of a sum by shuffles."""
    # For each instruction: its name in warps, the lane from which a lane gets a value, and that lane in words.
    instructions = {"__shfl_down_sync": ("down", lambda lane, step: lane + step, "i + {}"),
                    "__shfl_xor_sync": ("xor", lambda lane, step: lane ^ step, "i xor {}"),
                    "__shfl_up_sync": ("up", lambda lane, step: lane - step, "i - {}, if there is one")}
    rows = {name: [(step, [int(value) for value in values.split()])
                   for step, values in re.findall(r"^  (begins|step \d+) +([\d ]+)$", figures.output(f"{BIN}/lessons/warps --shuffle {kind}"), re.MULTILINE)]
            for name, (kind, _, _) in instructions.items()}
    names = list(rows)

    def view(i, j):
        kind, sender_of, words = instructions[names[i]]
        values, before = rows[names[i]][j][1], rows[names[i]][max(0, j - 1)][1]
        sentence = "Lane i begins with i + 1."
        if j > 0:
            step = int(rows[names[i]][j][0].split()[1])
            sentence = f"Lane i adds the value of lane {words.format(step)}."
        cells = ""
        for lane, value in enumerate(values):
            sender = sender_of(lane, step) if j > 0 else -1
            moved, added = 0 <= sender < len(values), ""
            if moved:
                added = f"{before[lane]} + {before[sender]} of lane {sender}"
            elif j > 0 and kind == "down":
                added = f"{before[lane]} + its own"
            whole = value == sum(rows[names[i]][0][1])
            cells += f'<td class="{"whole " if whole else ""}{"moved" if moved else ""}">{value}<small>{added}</small></td>'
        head = "".join(f'<th scope="col">lane {lane}</th>' for lane in range(len(values)))
        return (sentence, '<div class="scroll" tabindex="0" role="region" aria-label="what the lanes hold"><table class="ring"><thead><tr><td></td>'
                f'{head}</tr></thead><tbody><tr><th scope="row">holds</th>{cells}</tr></tbody></table></div>')

    return turned([Knob("instruction", names), Knob("after", ["no step", "the first step", "the second", "the third"], 1)], view)


def banks(figures):
    """The cycles in which the banks of shared memory serve the lanes of a warp."""
    strides = [1, 2, 3, 4, 6, 8, 12, 16, 31, 32, 33, 34]
    text = figures.output(f"{BIN}/lessons/requests --strides {','.join(map(str, strides))} --rows 0 --lanes")
    costs = {int(row[0]): (int(row[4]), int(row[5])) for line in text.splitlines() if len(row := line.split()) == 6 and row[0].isdigit()}
    lanes_of = {int(stride): [int(bank) for bank in row.split()] for stride, row in re.findall(r"^  stride +(\d+) ([\d ]+)$", text, re.MULTILINE)}

    def view(i):
        cycles, conflicts = costs[strides[i]]
        served = [["" for _ in range(32)] for _ in range(cycles)]
        for lane, bank in enumerate(lanes_of[strides[i]]):
            next(row for row in served if row[bank] == "")[bank] = str(lane)
        rows = [("bank", range(32))] + [(f"cycle {number}", row) for number, row in enumerate(served)]
        shown = "".join(f'<p class="lanes"><b>{name}</b>' + "".join(f'<i class="on">{cell}</i>' if name != "bank" and cell else f"<i>{cell}</i>" for cell in row) + "</p>"
                        for name, row in rows)
        return (f"Lane i reads the float {strides[i]} i: {cycles} cycle{'s' if cycles > 1 else ''}, of which {conflicts} for bank conflicts.",
                f'<div class="scroll" tabindex="0" role="region" aria-label="the lane that each bank serves in each cycle">{shown}</div>')

    return turned([Knob("stride", strides, 5)], view)


LAYERS = f"--device cpu --hidden {','.join(['128'] * 16)} --batch-size 512 --max-steps 3"


def recomputation(figures):
    """The live memory over a step, with and without accumulation and recomputation."""
    micro, segments = [512, 128], [0, 2, 4]

    def view(i, j):
        report = figures.report(f"{BIN}/mnist {LAYERS} --micro-batch {micro[i]} --recompute {segments[j]}")
        rows = {row["cells"][0]: row["cells"] for row in report["memory"]["table"]["rows"]}
        return f"At the peak {rows['activations'][2]} of activations; {rows['all'][2]} in all.", with_keys(report["memory"], "memory over a step")

    return turned([Knob("micro-batches", ["1 of 512", "4 of 128"]),
                   Knob("recomputation", ["none"] + [f"in segments of {n} layers" for n in segments[1:]])], view)


def with_keys(part, what):
    """A picture of a report with its legend."""
    keys = "".join(f'<li><i style="background:var(--c{key["colour"]})"></i>{html.escape(key["name"])}</li>' for key in part["legend"])
    return f'<ul class="keys">{keys}</ul>' + scrolling(part["svg"], what)


GPT2 = "--layers 12 --width 768 --heads 12 --context 1024 --vocabulary 50257 --dtype bf16"


def memory(figures):
    """Rows of plan memory for a GPT-2."""
    batches, accumulation, recompute = [8, 16, 32, 64], [1, 2, 4, 8], ["none", "full"]
    plans = {}

    def plan(i, j, stage, k):
        if (i, j, stage, k) not in plans:
            plans[i, j, stage, k] = figures.json(f"{BIN}/plan memory {GPT2} --micro-batch {batches[i] // accumulation[j]} --zero {stage} --ranks 8 "
                                                 f"--recompute-granularity {recompute[k]} --json -")
        return plans[i, j, stage, k]

    whole = plan(3, 0, 0, 0)["total_bytes"]
    colours = {}

    def view(i, j, stage, k):
        found = plan(i, j, stage, k)
        rows = [(row["name"], row["bytes"], bytes_text(row["bytes"]), colours.setdefault(row["name"], len(colours) % 8))
                for row in found["rows"]]
        return (f"{bytes_text(found['total_bytes'])} on each of 8 GPUs, with micro-batches of {batches[i] // accumulation[j]}.",
                stacked(rows, whole))

    return turned([Knob("samples of a GPU in an update", batches, 1), Knob("accumulation steps", accumulation),
                   Knob("ZeRO stage", [0, 1, 2, 3]), Knob("recomputation", recompute)], view)


GPT = "train --device cpu --bias --context 256 --batch-size 16 --micro-batch 4 --max-steps 2 --sample-tokens 0"


def memory_over_time(figures):
    """The live memory in an update of lesson 9's GPT."""
    report = figures.report(f"{BIN}/gpt {GPT}")
    return with_keys(report["memory"], "memory over a step")


def schedule(figures):
    """Rates by plan lr."""
    kinds = ["constant", "linear", "cosine", "polynomial", "step", "one-cycle"]
    warm_ups, epochs = [0, 200, 782, 2000], 90

    def view(i, j):
        if kinds[i] == "one-cycle" and j > 0:
            return None  # it contains its warm-up
        found = figures.json(f"{BIN}/plan lr --lr 0.1 --base-batch 256 --batch-size 8192 --dataset 1281167 --epochs {epochs} --lr-scaling linear "
                             f"--schedule {kinds[i]}" + ("" if kinds[i] == "one-cycle" else f" --warmup {warm_ups[j]}")
                             + (" --step-epochs 30 --gamma 0.1" if kinds[i] == "step" else "") + " --json -")
        rates = [(point["step"], point["rate"]) for point in found["rates"]]
        return (f"{found['steps']:,} updates, {found['warmup_steps']:,} of warm-up; the last rate is {rates[-1][1]:.3g}.",
                figures.chart("learning rate over the updates of a run", "update", "rate", {kinds[i]: rates}, from_zero=True))

    return turned([Knob("schedule", kinds, 2), Knob("warm-up", warm_ups, 2)], view)


def losses(figures):
    """The loss over the 60 updates of lesson 10's runs at a batch of 4,096."""
    settings = {"0.001": "", "square root": "--lr-scaling sqrt", "linear": "--lr-scaling linear",
                "linear, 15 of warm-up": "--lr-scaling linear --warmup 15"}
    series = {}
    for name, flags in settings.items():
        text = figures.file(f"{BIN}/mnist --hidden 64 --epochs 4 --batch-size 4096 --lr 0.001 {flags} --metrics run.jsonl", "run.jsonl")
        steps = [json.loads(line) for line in text.splitlines()]
        series[name] = [(step["step"], step["loss"]) for step in steps if "loss" in step]
    return figures.chart("loss over the updates of four runs, seed 0", "update", "loss", series)


TRAINING = ROOT / "benchmarks/results/training"


def search(file, names):
    """{name: {rate: {flags: accuracies}}} of the committed runs of a search, seeds 0 to 2; `names(flags)` names the curve of a run, or is None."""
    runs = {}
    for row in csv.DictReader((TRAINING / file).open()):
        flags = dict(re.findall(r"--([\w-]+) (\S+)", row["flags"]))
        if int(row["seed"]) <= 2 and (name := names(flags)) is not None:
            runs.setdefault(name, {}).setdefault(flags["lr"], {}).setdefault(row["flags"], []).append(float(row["accuracy"]))
    return runs


def rates_searched(figures, runs, knob):
    """The test error at each rate, with the best of the other settings by the mean of the seeds: for all curves, then for one."""
    best = {name: sorted((float(rate), max(settings.values(), key=statistics.fmean)) for rate, settings in rates.items())
            for name, rates in runs.items()}
    means = {name: [(rate, 100 - statistics.fmean(values)) for rate, values in rows] for name, rows in best.items()}
    names = list(runs)

    def view(i):
        rows = best[names[i]]
        seeds = [(rate, 100 - value) for rate, values in rows for value in values]
        rate, values = max(rows, key=lambda row: statistics.fmean(row[1]))
        lines = [(f"{rate:g}", [f"{value:.2f}%" for value in (statistics.fmean(values), min(values), max(values))]) for rate, values in rows]
        return (f"{names[i]}: {statistics.fmean(values):.2f}% at a rate of {rate:g}, the best of {len(rows)}.",
                figures.chart(f"test error of {names[i]} over the rate", "rate", "test error, %",
                              {"mean": means[names[i]], "seeds 0 to 2": seeds}, dots=["seeds 0 to 2"], log_log=True)
                + table(["rate", "mean of three seeds", "lowest", "highest"], lines))

    return figures.chart("test error over the rate", "rate", "test error, mean of three seeds, %", means, log_log=True) + turned([Knob(knob, names)], view)


def searched(figures):
    """Lesson 11's search."""
    return rates_searched(figures, search("lesson-11.csv", lambda flags: flags["optimizer"]), "optimizer")


def biases(figures):
    """LARS in lesson 11's search, and with its biases treated in two other ways."""
    names = {"ratio": "a trust ratio", "thousandth": "a thousandth of the rate"}
    return rates_searched(figures, search("lesson-11.csv", lambda flags: "the full rate" if flags["optimizer"] == "lars" and float(flags["lr"]) >= 1 else None)
                          | search("lesson-38.csv", lambda flags: names[flags["biases"]]), "biases have")


def ways(figures):
    """The search of lesson 32."""
    names = {"rate": "rate / 4 after each stage", "batch": "batch x 4 after each stage", "neither": "neither", "large": "1,024 from the start"}
    return rates_searched(figures, search("lesson-32.csv", lambda flags: names[flags["way"]]), "way")


def ring(figures):
    """The tables that collectives prints, one at a time."""
    sizes = [2, 3, 4, 5, 6]
    traces = {ranks: ring_steps(figures.output(f"mpirun -n {ranks} {BIN}/collectives --trace-ring")) for ranks in sizes}
    most = max(len(steps) for steps in traces.values())

    def view(i, step):
        steps = traces[sizes[i]]
        return steps[step] if step < len(steps) else None

    return turned([Knob("ranks", sizes, 2), Knob("after step", ["the beginning", *range(most - 1)])], view)


def ring_steps(text):
    """(sentence, table) for the beginning and for each step that collectives --trace-ring prints."""
    steps = []
    moves, ranks, verb = [], [], ""
    for line in text.splitlines():
        if line.startswith("step "):
            moves = re.findall(r"(\d+) -> (\d+): chunk (\d+)", line)
            verb = "adds it" if " add " in line else "puts it in place of its own"
        elif line.startswith("          "):
            ranks = []
        elif line.startswith("   rank "):
            ranks.append(line.split()[2:])
            if len(ranks) == len(ranks[0]):
                arrived = {(int(to), int(chunk)): int(sender) for sender, to, chunk in moves}
                words = (f"Every rank has sent one chunk to the next, which {verb}." if moves
                         else "Every rank has its own values in every chunk.")
                steps.append((words, ring_table(ranks, arrived)))
    return steps


def ring_table(ranks, arrived):
    head = "".join(f'<th scope="col">chunk {chunk}</th>' for chunk in range(len(ranks)))
    lines = ""
    for rank, cells in enumerate(ranks):
        lines += f'<tr><th scope="row">rank {rank}</th>'
        for chunk, held in enumerate(cells):
            sender = arrived.get((rank, chunk))
            classes = ("whole " if held == "all" else "") + ("moved" if sender is not None else "")
            lines += f'<td class="{classes}">{held}' + (f"<small>from {sender}</small>" if sender is not None else "") + "</td>"
        lines += "</tr>"
    return f'<div class="scroll" tabindex="0" role="region" aria-label="chunks of the ranks"><table class="ring"><thead><tr><td></td>{head}</tr></thead><tbody>{lines}</tbody></table></div>'


TRAINED = "--device cpu --hidden 512,512,512 --batch-size 512 --max-steps 12"


def timeline(figures):
    """A step of two ranks, measured, over links that are slowed down."""
    buckets = [("after backward", "--no-overlap"), ("during it, in buckets of 1 MiB", "--bucket-mib 1"),
               ("during it, in buckets of 0.25 MiB", "--bucket-mib 0.25")]
    links = [250, 1000]

    def view(i, j):
        report = figures.report(f"OMP_NUM_THREADS=1 mpirun -n 2 {BIN}/mnist {TRAINED} --slow-link 100,{links[j]} {buckets[i][1]}")
        step = report["timeline"]
        return f"Step {step['step']} of {report['subtitle']}.", with_keys(step, "a step of two ranks, moment by moment")

    return turned([Knob("gradients are reduced", [name for name, _ in buckets], 1), Knob("link", [f"{link} MB/s" for link in links])], view)


def feedback(figures):
    """The second table of compression, on several ranks."""
    ranks, kinds = [1, 2, 4], ["the same each time", "of new samples each time"]
    tables = [re.findall(r"^(10*) +(\S+) +(\S+) +(\S+) +(\S+)$", figures.output(f"OMP_NUM_THREADS=1 mpirun -n {n} {BIN}/lessons/compression"), re.MULTILINE)
              for n in ranks]

    def view(i, j):
        errors = {name: [(int(row[0]), float(row[1 + 2 * j + k])) for row in tables[i]] for k, name in enumerate(("no feedback", "feedback"))}
        without, having = (points[-1][1] for points in errors.values())
        return (f"After {tables[i][-1][0]} reductions {without:.5f} without feedback and {having:.5f} with it: {100 * having / without:.0f}%.",
                figures.chart("error of the sum over the reductions, in norms of one mean gradient", "reduction", "error", errors, from_zero=True))

    return turned([Knob("ranks", ranks, 1), Knob("gradients", kinds)], view)


def loader(figures):
    """The table of loader_waits for data that are faster and slower to read."""
    fast, slow = [1, 2, 3, 4, 5, 6], [4, 10, 22, 40]

    def view(i, j):
        text = figures.output(f"{BIN}/lessons/loader_waits --read {fast[i]} --slow-read {slow[j]}")
        rows = [(name.strip(), [(int(number), number) for number in numbers.split()])
                for name, numbers in re.findall(r"^  (no thread|a thread, \d+ ahead) +((?: *\d+){3})$", text, re.MULTILINE)]
        return (f"64 batches take 64 x 4 = 256 ticks to compute with, and 56 x {fast[i]} + 8 x {slow[j]} = {56 * fast[i] + 8 * slow[j]} to read.",
                bars(rows, ["loader", "batches waited for", "ticks waited", "ticks in all"]))

    return turned([Knob("ticks to read a batch", fast), Knob("every eighth", slow, 2)], view)


PLAYBOOK = "--parameters 1300000000 --micro-batch 2 --context 4096"


def milliseconds(seconds):
    return f"{1e3 * seconds:,.4g} ms" if seconds < 1 else f"{seconds:,.4g} s"


def step_bar(point, whole, unhidden="communication that waits"):
    hidden = max(0, point["communicating_seconds"] - point["exposed_seconds"])
    return stacked([("computing", point["computing_seconds"], milliseconds(point["computing_seconds"]), 0),
                    (unhidden, point["exposed_seconds"], milliseconds(point["exposed_seconds"]), 3)], whole) + (
        f'<p>Hidden behind backward: {milliseconds(hidden)} of {milliseconds(point["communicating_seconds"])} of communication. '
        f'{point["samples_per_second"]:,.5g} samples/s, efficiency {100 * point["efficiency"]:.1f}%.</p>')


def overlap(figures):
    """Eight ranks by the simulator: when does a link hide?"""
    links, buckets = [5, 10, 20, 40, 80, 160, 370], [5, 25, 100, 400, 3000]
    points = {(i, j): figures.json(f"{BIN}/plan scale {PLAYBOOK} --ranks 8 --intra-node-bandwidth {link} --bucket-mib {bucket} --json -")["asked"]["points"][0]
              for i, link in enumerate(links) for j, bucket in enumerate(buckets)}
    whole = max(point["step_seconds"] for point in points.values())

    def view(i, j):
        return f"An update takes {milliseconds(points[i, j]['step_seconds'])}.", step_bar(points[i, j], whole)

    return turned([Knob("link", [f"{link} GB/s" for link in links], 2), Knob("bucket", [f"{bucket} MiB" for bucket in buckets], 1)], view)


def scale(figures):
    """The limits of data parallelism by the simulator, for 1 to 100,000 ranks."""
    algorithms, buckets = ["ring", "tree", "hierarchical"], [25, 100, 400]
    points = {(k, j): figures.json(f"{BIN}/plan scale {PLAYBOOK} --bucket-mib {bucket} --algorithm {algorithm} --messages-up-to 0 --json -")["asked"]["points"]
              for k, algorithm in enumerate(algorithms) for j, bucket in enumerate(buckets)}
    ranks = [point["ranks"] for point in points[0, 0]]

    def view(i, j, k):
        point = points[k, j][i]
        return (f"{point['ranks']:,} ranks: an update takes {milliseconds(point['step_seconds'])}, efficiency {100 * point['efficiency']:.1f}%.",
                step_bar(point, point["step_seconds"]))

    chart = chart_in(figures.file(f"{BIN}/plan scale {PLAYBOOK} --messages-up-to 0 --svg scale.svg", "scale.svg"))
    return (turned([Knob("ranks", [f"{n:,}" for n in ranks], 9), Knob("bucket", [f"{bucket} MiB" for bucket in buckets]),
                    Knob("algorithm", algorithms)], view) + scrolling(chart, "throughput, efficiency and communication over the ranks"))


def pipeline(figures):
    """The schedules of a pipeline, as the library draws them."""
    orders = [("one forward, one backward", "1f1b", 1), ("all forwards first", "afab", 1), ("interleaved, 2 chunks", "interleaved", 2)]
    stages, micro_batches = [2, 3, 4, 6], [1, 2, 4, 6, 8, 12]
    hidden = ",".join(["16"] * 11)  # a layer for each of up to 12 parts

    def view(i, j, k):
        _, schedule, chunks = orders[i]
        return timetable(figures.output(f"{BIN}/mnist --show-pipeline --pipeline-parallel {stages[j]} --pipeline-schedule {schedule} "
                                        f"--pipeline-chunks {chunks} --hidden {hidden} --batch-size {micro_batches[k]} --micro-batch 1"))

    return turned([Knob("order", [name for name, _, _ in orders]), Knob("stages", stages, 2), Knob("micro-batches", micro_batches, 3)], view)


def timetable(drawn):
    """(sentence, stages with their units of time) of a schedule that the library has drawn as text."""
    counted, formula = re.search(r"bubble (\S+%) of the time, (\S+%) by", drawn).groups()
    kept = re.search(r"by each stage:((?: \d+)+)", drawn)[1].split()
    stages = re.findall(r"^stage (\d+) +?(?<=.{10})(.*)$", drawn, re.MULTILINE)
    width = len(re.search(r"b\d+[a-z]?-*", stages[-1][1])[0]) // 2 + 1  # of a unit of time; a backward takes two
    end = max((len(row) + 1) // width for _, row in stages)
    rows = ""
    for (stage, row), keeps in zip(stages, kept):
        cells, now = "", 0
        for task in re.finditer(r"([fb])(\w+)-*", row):
            begin, backward = task.start() // width, task[1] == "b"
            cells += '<i class="idle"></i>' * (begin - now) + f'<i{" class=" + chr(34) + "back" + chr(34) if backward else ""}>{task[2]}</i>'
            now = begin + (2 if backward else 1)
        cells += '<i class="idle"></i>' * (end - now)
        rows += (f'<tr><th scope="row">stage {stage}</th><td><span class="units" role="img" aria-label="{" ".join(row.split())}">{cells}</span></td>'
                 f'<td>{keeps}</td></tr>')
    head = '<tr><td></td><th scope="col">forwards (1) and backwards (2 wide), by micro-batch</th><th scope="col">keeps</th></tr>'
    return (f"The stages wait {counted} of the time; (p - 1) / (v m + p - 1) is {formula}.",
            f'<div class="scroll" tabindex="0" role="region" aria-label="timetable"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>')


def zero(figures):
    """The state of 7.5 billion parameters, sharded."""
    ranks, stages = [1, 2, 4, 8, 16, 64, 256, 1024], [0, 1, 2, 3]
    plans = {(i, j): figures.json(f"{BIN}/plan memory --parameters 7500000000 --dtype bf16 --ranks {n} --zero {stage} --json -")
             for i, n in enumerate(ranks) for j, stage in enumerate(stages)}
    whole = max(plan["total_bytes"] for plan in plans.values())
    colours = {}

    def view(i, j):
        rows = [(row["name"], row["bytes"], bytes_text(row["bytes"]), colours.setdefault(row["name"], len(colours) % 8)) for row in plans[i, j]["rows"]]
        return f"{plans[i, j]['total_bytes'] / 1e9:.4g} GB on each rank.", stacked(rows, whole)

    return turned([Knob("ranks", ranks, 5), Knob("ZeRO stage", stages, 1)], view)


def roofline(figures):
    """Operations of a training step, measured where the page is made, at growing batches."""
    batches = [1, 8, 64, 512]

    def view(i):
        report = figures.report(f"{BIN}/mnist --device cpu --hidden 512,512 --batch-size {batches[i]} --max-steps 40")
        return f"{report['subtitle']}.", with_keys(report["roofline"], "operations under the limits of this machine")

    return turned([Knob("batch", batches, 2)], view)


MEASURED = {"timeline", "roofline"}

# Of each figure: its function, its title, and the command (with the first values of the sliders) that a reader can try.
FIGURES = {
    "tape": (tape, "The tape of this loss: an operation in each row, with what it is computed from", f"{BIN}/lessons/tape --save-tape tape.svg"),
    "ladder": (ladder, "What each version of a matrix product of 128 x 128 asks of a GPU's memory", f"{BIN}/lens gemm --size 128"),
    "tiles": (tiles, "What a block, a warp and a thread of each rung touch", f"{BIN}/lessons/tiles --rung 3 --step 0 --svg tiles.svg"),
    "fragments": (fragments, "The lane that holds each element of a tensor core's product", f"{BIN}/lessons/fragments --all --lane 5"),
    "shuffles": (shuffles, "What eight lanes hold after each step of a sum", f"{BIN}/lessons/warps --shuffle down"),
    "banks": (banks, "The lane that each bank of shared memory serves, cycle by cycle", f"{BIN}/lessons/requests --strides 8 --rows 0 --lanes"),
    "recomputation": (recomputation, "Live memory over a step of 16 layers", f"{BIN}/mnist {LAYERS} --micro-batch 512 --recompute 0 --report run.html"),
    "memory": (memory, "A GPU's memory for GPT-2 with Adam and bf16", f"{BIN}/plan memory {GPT2} --micro-batch 16 --ranks 8"),
    "memory-over-time": (memory_over_time, "Live memory over an update of four micro-batches of 4 sequences", f"{BIN}/gpt {GPT} --report run.html"),
    "schedule": (schedule, "Rate 3.2, for a batch of 8,192, over 90 epochs",
                 f"{BIN}/plan lr --lr 0.1 --base-batch 256 --batch-size 8192 --dataset 1281167 --epochs 90 --lr-scaling linear --warmup auto --schedule cosine"),
    "losses": (losses, "The loss in the four runs of 4,096, seed 0", f"{BIN}/mnist --hidden 64 --epochs 4 --batch-size 4096 --lr 0.001 --metrics run.jsonl"),
    "searched": (searched, "The test error at each rate, with the best of its schedules and warm-ups", "scripts/training_runs.py, from the committed benchmarks/results/training/lesson-11.csv"),
    "biases": (biases, "The test error at each rate of LARS, with the best of its schedules and warm-ups",
               "scripts/training_runs.py, from the committed lesson-11.csv and lesson-38.csv in benchmarks/results/training"),
    "ways": (ways, "The test error at each first rate, with the better momentum", "scripts/training_runs.py, from the committed benchmarks/results/training/lesson-32.csv"),
    "ring": (ring, "The ring, chunk by chunk", f"mpirun -n 4 {BIN}/collectives --trace-ring"),
    "timeline": (timeline, "A step of two ranks over slow links, measured", f"OMP_NUM_THREADS=1 mpirun -n 2 {BIN}/mnist {TRAINED} --slow-link 100,250 --bucket-mib 1 --report run.html"),
    "feedback": (feedback, "Errors of reductions in bf16 add up", f"OMP_NUM_THREADS=1 mpirun -n 2 {BIN}/lessons/compression"),
    "loader": (loader, "What 64 updates wait for their data", f"{BIN}/lessons/loader_waits --read 1 --slow-read 22"),
    "overlap": (overlap, "An update of 1.3 billion parameters on 8 ranks, simulated", f"{BIN}/plan scale {PLAYBOOK} --ranks 8 --intra-node-bandwidth 20 --bucket-mib 25"),
    "zero": (zero, "The training state of 7.5 billion parameters, Adam in bf16", f"{BIN}/plan memory --parameters 7500000000 --dtype bf16 --ranks 64 --zero 1"),
    "scale": (scale, "An update of 1.3 billion parameters on more and more ranks, simulated", f"{BIN}/plan scale {PLAYBOOK} --messages-up-to 0"),
    "pipeline": (pipeline, "The stages of a pipeline over time",
                 f"{BIN}/mnist --show-pipeline --pipeline-parallel 4 --pipeline-schedule 1f1b --hidden 16,16,16 --batch-size 6 --micro-batch 1"),
    "roofline": (roofline, "Operations of a training step under this machine's limits, measured", f"{BIN}/mnist --hidden 512,512 --batch-size 64 --max-steps 40 --report run.html"),
}
