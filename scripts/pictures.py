"""Draws the pictures of the docs for scripts/readme_figures.py, with matplotlib: a roofline, ladders as bars, steps
beside PyTorch.

Nothing is drawn behind them, and every colour stands out from white and from black, as a page may be either.
"""
import hashlib
import io
import json
import math
import pathlib

TEXT, FAINT = "#727b85", "#727b8555"
BLUE, ORANGE, GREEN, VIOLET, GREY = "#2f81f7", "#db6d28", "#2da44e", "#a371f7", "#8c959f"
STYLE = {
    "figure.dpi": 96, "svg.fonttype": "none", "svg.hashsalt": "ringtape",  # text as text, the same names each time
    "font.family": "sans-serif", "font.size": 9, "text.color": TEXT,
    "axes.titlesize": 10.5, "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.titlecolor": TEXT,
    "axes.labelcolor": TEXT, "axes.edgecolor": FAINT, "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False,
    "xtick.color": TEXT, "ytick.color": TEXT, "xtick.minor.size": 0, "ytick.minor.size": 0,
    "grid.color": FAINT, "legend.frameon": False,
}


def number(value):
    """Three significant digits, without an exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}" if value > 0 else "0"


def digest(draw, arguments):
    """The digest of a picture's inputs, this file included. It stands in the picture, so that a stale picture is found
    without matplotlib."""
    made_of = [pathlib.Path(__file__).read_text(), draw.__name__, arguments]
    return "made of " + hashlib.sha256(json.dumps(made_of).encode()).hexdigest()


def svg(draw, arguments):
    """The picture that `draw` makes, as SVG text."""
    import matplotlib.figure  # imported here: nothing else needs it
    with matplotlib.rc_context(STYLE):
        figure = matplotlib.figure.Figure(layout="constrained")
        title = draw(figure, *arguments)
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True,
                       metadata={"Date": None, "Creator": None, "Title": title, "Description": digest(draw, arguments)})
    return "".join(line.rstrip() + "\n" for line in file.getvalue().splitlines())


def axes_of(figure, width, height, title):
    """The axes of a figure of that many pixels."""
    figure.set_size_inches(width / figure.dpi, height / figure.dpi)
    return figure.add_subplot(title=title)


def plain_ticks(axis, factor=1):
    """Powers of ten, without exponents."""
    axis.set_major_formatter(lambda value, _: f"{value * factor:g}")


def label_points(figure, axes, labels):
    """Places a label, (x, y, text, colour), beside its point where it covers no point and no label placed before; else
    leaves it out."""
    figure.draw_without_rendering()  # the axes have their place now
    frame = axes.get_window_extent()
    at = axes.transData.transform([label[:2] for label in labels])
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in at]
    for (x, y), (*point, text, colour) in zip(at, labels):
        width = 5.6 * len(text)
        for dx, dy, side in ((7, -4, "left"), (-7, -4, "right"), (0, 8, "center"), (0, -17, "center"), (7, 6, "left"),
                             (7, -14, "left"), (-7, 6, "right"), (-7, -14, "right")):
            left = x + dx - {"left": 0, "right": width, "center": width / 2}[side]
            box = (left, y + dy - 2, left + width, y + dy + 9)
            is_free = all(box[2] < a or box[0] > c or box[3] < b or box[1] > d for a, b, c, d in taken)
            if text and is_free and box[0] >= frame.x0 and box[2] <= frame.x1:
                taken.append(box)
                axes.annotate(text, point, (dx * 0.75, dy * 0.75), textcoords="offset points", ha=side, color=colour,
                              fontsize=7.5)
                break


def roofline(figure, points, roofs, slope, slope_name, title):
    """points: (group, name, label, FLOPs a byte, FLOPs a second); roofs: (name, FLOPs a second), the first is the
    machine's; slope: bytes a second."""
    axes = axes_of(figure, 860, 560, title)
    axes.set(xscale="log", yscale="log", xlabel="operations for each byte that must move", ylabel="GFLOP/s")
    axes.grid()
    groups = list(dict.fromkeys(point[0] for point in points))
    colours = dict(zip(groups, (BLUE, GREEN, ORANGE, VIOLET, "#bf8700", GREY)))
    for group, name, _, intensity, rate in points:
        axes.plot(intensity, rate, "o", color=colours[group], alpha=0.85, markersize=6, markeredgewidth=0, gid=name)
    low_x = 10 ** math.floor(math.log10(min(point[3] for point in points)))
    high_x = 10 ** math.ceil(math.log10(max(point[3] for point in points)))
    low_y = 10 ** math.floor(math.log10(min(point[4] for point in points)))
    axes.set(xlim=(low_x, high_x), ylim=(low_y, 2 * max(roofs[0][1], max(point[4] for point in points))))
    plain_ticks(axes.xaxis)
    plain_ticks(axes.yaxis, 1e-9)
    ridge = roofs[0][1] / slope
    axes.plot((low_x, ridge), (low_x * slope, roofs[0][1]), color=TEXT, linewidth=1.5)
    axes.annotate(slope_name, (low_x, low_x * slope), (14, -3), textcoords="offset points", weight="bold")
    for i, (name, flops) in enumerate(roofs):
        axes.plot((flops / slope, high_x), (flops, flops), color=TEXT, linewidth=1.5 if i == 0 else 0.75,
                  linestyle="-" if i == 0 else "--")
        axes.annotate(f"{name}: {flops * 1e-9:.0f} GFLOP/s", (high_x, flops), (0, 5 if i % 2 == 0 else -12),
                      textcoords="offset points", ha="right", weight="bold" if i == 0 else "normal")
    label_points(figure, axes, [(intensity, rate, label, colours[group]) for group, _, label, intensity, rate in points])
    for group, colour in colours.items():
        axes.plot([], [], "o", color=colour, label=group)
    figure.legend(loc="outside lower center", ncols=len(groups), labelcolor=TEXT, handletextpad=0)
    return title


def bars(axes, rows):
    """A bar for each (name, length, colour, text beside it), from the top."""
    names, lengths, colours, texts = zip(*rows)
    drawn = axes.barh(range(len(rows)), lengths, height=0.72, color=colours)
    for bar, name in zip(drawn, names):
        bar.set_gid(f"bar {name}")
    axes.bar_label(drawn, texts, padding=4)
    axes.set_yticks(range(len(rows)), names)
    axes.tick_params(left=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.invert_yaxis()


def ladder(figure, rungs, others, unit, title):
    """rungs and others: (name, rate), the last of the others is the limit. One bar each, on a logarithmic scale."""
    rates = [rate for _, rate in rungs + others]
    colours = [BLUE] * len(rungs) + [ORANGE] * (len(others) - 1) + [GREY]
    axes = axes_of(figure, 800, 80 + 22 * len(rates), title)
    axes.set_xscale("log")
    bars(axes, [(name, rate, colour, number(rate)) for (name, rate), colour in zip(rungs + others, colours)])
    axes.set(xlim=(10 ** math.floor(math.log10(0.999 * min(rates))), 1.6 * max(rates)), xlabel=unit)
    plain_ticks(axes.xaxis)
    axes.grid(axis="x")
    return title


def steps(figure, rows, title):
    """rows: (model, [(name, seconds)]), the first Ringtape's. Bars are times, relative to the longest of a model."""
    colours = {"Ringtape": BLUE, "estimate": GREY, "PyTorch eager": ORANGE, "PyTorch compiled": VIOLET}
    figure.set_size_inches(800 / figure.dpi, (40 + sum(18 * len(times) + 34 for _, times in rows)) / figure.dpi)
    figure.suptitle(title, x=0.01, ha="left", fontsize=10.5, weight="bold")
    for axes, (model, times) in zip(figure.subplots(len(rows), squeeze=False)[:, 0], rows):
        first = times[0][1]
        texts = [f"{number(seconds * 1e3)} ms" +
                 ("" if name in ("Ringtape", "estimate") else f", {seconds / first:.1f} x") for name, seconds in times]
        bars(axes, [(name, seconds, colours[name], text) for (name, seconds), text in zip(times, texts)])
        axes.set(xlim=(0, 1.25 * max(seconds for _, seconds in times)), xticks=[])
        axes.set_title(model, fontsize=9)
    return title
