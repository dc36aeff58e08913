"""The launches of one update as a graph: the least time of each launch, and of the longest chain of them.

What a launch reads and writes at a step's sizes is not known here, so there is no estimate of its time, but a floor: the life
of a block that takes the shortest way through the kernel, for as many waves of blocks as there are. The floor of small
launches, whose blocks are alone on their multiprocessors, is most of their time; that of large ones is far too low.
"""
import dataclasses
import html
import json
import math

import loops
import machine
import occupancy
import timeline
import tools

GAP = 0.5e-6  # seconds from the end of a launch to the begin of one that waits for it, at least: docs/sass.md


@dataclasses.dataclass(frozen=True)
class Node:
    kernel: str
    grid: tuple
    block: tuple
    shared_bytes: int
    after: tuple  # places of the nodes that it waits for


def read(path):
    """The launches of a file that --save-graph has written."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["launches"]
        nodes = [Node(row["kernel"], tuple(row["grid"]), tuple(row["block"]), row["shared_bytes"], tuple(row["after"]))
                 for row in rows]
    except OSError as error:
        raise tools.SassError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise tools.SassError(f"{path} is not what --save-graph writes: {error!r}") from error
    for place, node in enumerate(nodes):
        if not all(0 <= before < place for before in node.after):
            raise tools.SassError(f"{path}: launch {place + 1} waits for {node.after}, expected launches before it")
    return nodes


def least_seconds(gpu, kernel, node):
    """A launch's floor; 0 for a kernel whose code is unknown (None)."""
    if kernel is None:
        return 0.0
    threads = math.prod(node.block)
    held = occupancy.occupancy(gpu.architecture, threads, kernel.registers, kernel.shared + node.shared_bytes).blocks
    if held == 0:
        raise tools.SassError(f"{node.kernel}: {gpu.name} cannot hold a block of {threads} threads")
    ways = loops.straight_paths(kernel.blocks)
    shortest = min(timeline.cycles(way, gpu.architecture)[0] for way in ways if way)
    life = machine.BLOCK_CYCLES + machine.WARP_CYCLES * -(-threads // machine.WARP) + shortest
    return -(-math.prod(node.grid) // (held * gpu.multiprocessors)) * life / gpu.clock


def longest_chain(nodes, seconds):
    """Seconds from the first launch to the end of the last with the floors and the gaps, and the launches on the way."""
    ends, earlier = [], []
    for place, node in enumerate(nodes):
        last = max(node.after, key=lambda before: ends[before], default=None)
        ends.append(seconds[place] + (0 if last is None else ends[last] + GAP))
        earlier.append(last)
    chain, place = [], max(range(len(nodes)), key=lambda each: ends[each], default=None)
    total = ends[place] if nodes else 0
    while place is not None:
        chain.append(place)
        place = earlier[place]
    return total, chain[::-1]


def text_of(nodes, gpu, kernels):
    """`kernels` by name."""
    seconds = [least_seconds(gpu, kernels.get(node.kernel), node) for node in nodes]
    width = max((len(node.kernel) for node in nodes), default=0)
    yield f"{len(nodes)} launches on {gpu.name}: at least, by the shortest way through each kernel (not measured)"
    for place, node in enumerate(nodes):
        known = f"{seconds[place] * 1e6:5.1f} us" if node.kernel in kernels else "       ?"
        after = ", ".join(str(before + 1) for before in node.after) or "-"
        yield f"{place + 1:4}  {node.kernel:{width}}  {known}  after {after}"
    total, chain = longest_chain(nodes, seconds)
    unknown = sum(node.kernel not in kernels for node in nodes)
    yield (f"the longest chain: {len(chain)} launches with {GAP * 1e6:g} us between two, at least {total * 1e6:.1f} us"
           + (f", and the time of {unknown} whose code is in a library" if unknown else ""))


def levels_of(nodes):
    """For each launch the number of launches before it on the longest way to it."""
    levels = []
    for node in nodes:
        levels.append(max((levels[before] + 1 for before in node.after), default=0))
    return levels


def picture(nodes, gpu, kernels):
    """The graph as SVG: a row for each level, launches of one level beside each other."""
    wide, high, gap = 330, 34, 22
    levels, taken, places = levels_of(nodes), {}, []
    for level in levels:
        places.append((10 + taken.get(level, 0) * (wide + gap), 10 + level * (high + gap)))
        taken[level] = taken.get(level, 0) + 1
    width, height = max((x for x, _ in places), default=0) + wide + 10, max((y for _, y in places), default=0) + high + 10
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for place, node in enumerate(nodes):
        for before in node.after:
            (x0, y0), (x1, y1) = places[before], places[place]
            parts.append(f'<line x1="{x0 + wide / 2}" y1="{y0 + high}" x2="{x1 + wide / 2}" y2="{y1}" stroke="#888"/>')
    for place, (node, (x, y)) in enumerate(zip(nodes, places)):
        shape = " x ".join(map(str, node.grid)) + " blocks of " + " x ".join(map(str, node.block))
        seconds = least_seconds(gpu, kernels.get(node.kernel), node)
        detail = (f"{shape}; at least {seconds * 1e6:.1f} us on {gpu.name}" if node.kernel in kernels else "code unknown")
        parts += [f'<rect x="{x}" y="{y}" width="{wide}" height="{high}" rx="4" fill="#eef3fb" stroke="#47689e"/>',
                  f'<text x="{x + 6}" y="{y + 14}">{place + 1}  {html.escape(node.kernel[:48])}</text>',
                  f'<text x="{x + 6}" y="{y + 28}" fill="#555">{html.escape(detail)}</text>']
    return "\n".join([*parts, "</svg>"]) + "\n"
