"""Draws the pictures of the docs as SVG, for scripts/readme_figures.py: a roofline, ladders as bars, steps beside PyTorch.

Nothing is drawn behind them, and every colour stands out from white and from black, as a page may be either.
"""
import math
from html import escape

TEXT = "#727b85"
FAINT = "#727b8555"
BLUE, ORANGE, GREEN, VIOLET, GREY = "#2f81f7", "#db6d28", "#2da44e", "#a371f7", "#8c959f"
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"


class Svg:
    """Collects elements; coordinates are pixels from the top left."""

    def __init__(self, width, height, title):
        self.width, self.height = width, height
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
                      f'height="{height}" font-family="{FONT}" font-size="12" role="img">',
                      f"<title>{escape(title)}</title>"]

    def text(self, x, y, text, anchor="start", size=12, colour=TEXT, weight="normal"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}" '
                          f'font-weight="{weight}">{escape(text)}</text>')

    def line(self, x1, y1, x2, y2, colour=FAINT, width=1, dashes=""):
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
                          f'stroke-width="{width}"{dashed}/>')

    def bar(self, x, y, width, height, colour, title):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" height="{height:.1f}" rx="2" '
                          f'fill="{colour}"><title>{escape(title)}</title></rect>')

    def point(self, x, y, colour, title):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}" fill-opacity="0.85">'
                          f"<title>{escape(title)}</title></circle>")

    def __str__(self):
        return "\n".join(self.parts + ["</svg>"]) + "\n"


def number(value):
    """Three significant digits, without an exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}" if value > 0 else "0"


def powers(low, high):
    """The powers of ten from `low` to `high`."""
    return [10.0 ** e for e in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)]


class Labels:
    """Places a label beside a point where it covers no earlier label; else leaves it out."""

    def __init__(self, svg, right):
        self.svg, self.right, self.taken = svg, right, []

    def keep_free(self, x, y, size=4):
        self.taken.append((x - size, y - size, x + size, y + size))

    def place(self, x, y, text, colour):
        width = 5.6 * len(text)
        for dx, dy, anchor in ((7, 4, "start"), (-7, 4, "end"), (0, -8, "middle"), (0, 17, "middle"), (7, -6, "start"),
                               (7, 14, "start"), (-7, -6, "end"), (-7, 14, "end")):
            left = x + dx - {"start": 0, "end": width, "middle": width / 2}[anchor]
            box = (left, y + dy - 9, left + width, y + dy + 2)
            if box[0] < 60 or box[2] > self.right:
                continue
            if all(box[2] < a or box[0] > c or box[3] < b or box[1] > d for a, b, c, d in self.taken):
                self.taken.append(box)
                self.svg.text(x + dx, y + dy, text, anchor, 10, colour)
                return


def roofline(points, roofs, slope, slope_name, title):
    """points: (group, name, label, FLOPs a byte, FLOPs a second); roofs: (name, FLOPs a second), the first is the
    machine's; slope: bytes a second."""
    width, height, left, right, top, bottom = 860, 560, 62, 845, 70, 508
    colours = dict(zip(dict.fromkeys(point[0] for point in points), (BLUE, GREEN, ORANGE, VIOLET, "#bf8700", GREY)))
    low_x = 10 ** math.floor(math.log10(min(point[3] for point in points)))
    high_x = 10 ** math.ceil(math.log10(max(point[3] for point in points)))
    low_y = 10 ** math.floor(math.log10(min(point[4] for point in points)))
    high_y = 2 * max(roofs[0][1], max(point[4] for point in points))

    def at_x(value):
        return left + (right - left) * math.log(value / low_x) / math.log(high_x / low_x)

    def at_y(value):
        return bottom - (bottom - top) * math.log(value / low_y) / math.log(high_y / low_y)

    svg = Svg(width, height, title)
    svg.text(left, 18, title, size=14, weight="600")
    for value in powers(low_x, high_x):
        svg.line(at_x(value), top, at_x(value), bottom)
        svg.text(at_x(value), bottom + 16, f"{value:g}", "middle", 11)
    for value in powers(low_y, high_y):
        svg.line(left, at_y(value), right, at_y(value))
        svg.text(left - 6, at_y(value) + 4, f"{value * 1e-9:g}", "end", 11)
    svg.text((left + right) / 2, height - 18, "operations for each byte that must move", "middle")
    svg.text(left, top - 8, "GFLOP/s", "middle", 11)
    labels = Labels(svg, right)
    ridge = roofs[0][1] / slope
    svg.line(at_x(low_x), at_y(max(low_x * slope, low_y)), at_x(ridge), at_y(roofs[0][1]), TEXT, 2)
    svg.text(at_x(low_x) + 6, at_y(low_x * slope) - 14, slope_name, size=11, weight="600")
    for i, (name, flops) in enumerate(roofs):
        start = ridge if i == 0 else flops / slope
        svg.line(at_x(start), at_y(flops), right, at_y(flops), TEXT, 2 if i == 0 else 1, "" if i == 0 else "5 4")
        svg.text(right, at_y(flops) + (-6 if i % 2 == 0 else 15), f"{name}: {flops * 1e-9:.0f} GFLOP/s", "end", 11,
                 weight="600" if i == 0 else "normal")
    for *_, intensity, rate in points:
        labels.keep_free(at_x(intensity), at_y(rate))
    for group, name, label, intensity, rate in points:
        svg.point(at_x(intensity), at_y(rate), colours[group],
                  f"{name}: {number(rate * 1e-9)} GFLOP/s at {number(intensity)} FLOP/byte")
        if label:
            labels.place(at_x(intensity), at_y(rate), label, colours[group])
    x = left + 5
    for group, colour in colours.items():
        svg.point(x, 34, colour, group)
        svg.text(x + 8, 38, group, size=11)
        x += 24 + 6.2 * len(group)
    return str(svg)


def ladder(rungs, others, unit, title):
    """rungs and others: (name, rate), the last of the others is the limit. One bar each, on a logarithmic scale."""
    rows = [(name, rate, BLUE) for name, rate in rungs] + [(name, rate, ORANGE) for name, rate in others]
    rows[-1] = (*rows[-1][:2], GREY)
    left, right, step, top = 190, 700, 22, 40
    svg = Svg(800, top + step * len(rows) + 30, title)
    svg.text(10, 18, title, size=14, weight="600")
    low = 10 ** math.floor(math.log10(0.999 * min(rate for _, rate, _ in rows)))
    high = max(rate for _, rate, _ in rows)

    def at(rate):
        return left + (right - left) * math.log(rate / low) / math.log(high / low)

    bottom = top + step * len(rows)
    for value in powers(low, high):
        svg.line(at(value), top - 4, at(value), bottom)
        svg.text(at(value), bottom + 14, f"{value:g}", "middle", 10)
    svg.text(right + 8, bottom + 14, unit, size=10)
    for i, (name, rate, colour) in enumerate(rows):
        y = top + step * i
        svg.text(left - 8, y + 13, name, "end")
        svg.bar(left, y + 2, at(rate) - left, step - 6, colour, f"{name}: {number(rate)} {unit}")
        svg.text(at(rate) + 6, y + 13, number(rate), size=11)
    return str(svg)


def steps(rows, title):
    """rows: (model, [(name, seconds)]), the first Ringtape's. Bars are times, relative to the longest of a model."""
    colours = {"Ringtape": BLUE, "floor": GREY, "PyTorch eager": ORANGE, "PyTorch compiled": VIOLET}
    left, right, step, top = 150, 640, 18, 34
    height = top + sum(step * len(times) + 34 for _, times in rows)
    svg = Svg(800, height, title)
    svg.text(10, 18, title, size=14, weight="600")
    y = top
    for model, times in rows:
        svg.text(10, y + 14, model, weight="600")
        y += 22
        longest = max(seconds for _, seconds in times)
        for name, seconds in times:
            svg.text(left - 8, y + 12, name, "end", 11)
            length = (right - left) * seconds / longest
            svg.bar(left, y + 2, length, step - 5, colours[name], f"{name}: {number(seconds * 1e3)} ms")
            times_ours = "" if name in ("Ringtape", "floor") else f", {seconds / times[0][1]:.1f} x"
            svg.text(left + length + 6, y + 12, f"{number(seconds * 1e3)} ms{times_ours}", size=11)
            y += step
        y += 12
    return str(svg)
