"""The launches of one update as a graph: the time of each launch, and of the longest chain of them.

The graph does not tell what a launch reads and writes. A launch of our own kernels gets the model's estimate if the committed
launches (benchmarks/results/sass/launches.json) have the same kernel with blocks of the same size, which tells the number of
elements of a block. Otherwise it gets a floor: the time of a block that takes the shortest path through the kernel, times the
number of waves of blocks. A library's matrix product gets a limit: the time of its bytes or of its arithmetic at the GPU's
rates, or of the start of a block, whichever is longest.
"""
import dataclasses
import json
import math

import estimate
import loops
import machine
import occupancy
import timeline
import tools

GAP = 0.5e-6  # seconds from the end of a launch to the start of one that depends on it, in a graph: docs/sass.md
SUMS = {"estimate": "estimated", "at least": "at least, by the shortest way through the kernel",
        "limit": "products of a library at the GPU's rates, which small ones do not reach",
        "unknown": "in a library, of unknown work"}


@dataclasses.dataclass(frozen=True)
class Node:
    kernel: str
    grid: tuple
    block: tuple
    shared_bytes: int
    after: tuple  # indices of the nodes that it depends on
    dtype: str = ""  # of a library's matrix product
    flops: float = 0
    bytes: float = 0


def is_whole(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def node_of(row):
    """The launch of a row. Throws ValueError, KeyError, TypeError or AttributeError for a row that is no launch."""
    node = Node(row["kernel"], tuple(row["grid"]), tuple(row["block"]), row["shared_bytes"], tuple(row["after"]),
                row.get("dtype", ""), row.get("flops", 0), row.get("bytes", 0))
    if not isinstance(node.kernel, str):
        raise ValueError(f"the kernel is {node.kernel!r}, expected a name")
    for name, shape in (("grid", node.grid), ("block", node.block)):
        if len(shape) != 3 or not all(map(is_whole, shape)):
            raise ValueError(f"{node.kernel}: {name} {list(shape)}, expected three whole numbers")
    if not all(map(is_whole, (node.shared_bytes, *node.after))):
        raise ValueError(f"{node.kernel}: {node.shared_bytes!r} bytes of shared memory, after {list(node.after)}: expected whole numbers")
    if not all(isinstance(value, (int, float)) and 0 <= value < math.inf for value in (node.flops, node.bytes)):
        raise ValueError(f"{node.kernel}: {node.flops!r} operations and {node.bytes!r} bytes, expected numbers")
    return node


def read(path):
    """The launches in a file that --save-graph wrote."""
    try:
        nodes = [node_of(row) for row in json.loads(path.read_text(encoding="utf-8"))["launches"]]
    except OSError as error:
        raise tools.SassError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise tools.SassError(f"{path} is not what --save-graph writes: {error!r}") from error
    for place, node in enumerate(nodes):
        if not all(before < place for before in node.after):
            raise tools.SassError(f"{path}: launch {place + 1} waits for {node.after}, expected launches before it")
    return nodes


def least_seconds(gpu, kernel, node):
    """The least time of a launch."""
    threads = math.prod(node.block)
    if threads * math.prod(node.grid) == 0:
        raise tools.SassError(f"{node.kernel}: a launch without threads, which only a library's product has")
    held = occupancy.occupancy(gpu.architecture, threads, kernel.registers, kernel.shared + node.shared_bytes).blocks
    if held == 0:
        raise tools.SassError(f"{node.kernel}: {gpu.name} cannot hold a block of {threads} threads")
    ways = loops.straight_paths(kernel.blocks)
    shortest = min(timeline.cycles(way, gpu.architecture)[0] for way in ways if way)
    life = machine.BLOCK_CYCLES + machine.WARP_CYCLES * -(-threads // machine.WARP) + shortest
    return -(-math.prod(node.grid) // (held * gpu.multiprocessors)) * life / gpu.clock


def known_launch(node, known):
    """The node as a launch of the model. Of the launches in `known` (lists of Launch by kernel) that have blocks of the same
    size, the one with the nearest number of blocks tells the elements of a block. None if there is no such launch."""
    blocks = math.prod(node.grid)
    same = [each for each in known.get(node.kernel, []) if each.threads == math.prod(node.block)
            and each.blocks_of_element > 0 and not each.products]
    if not same:
        return None
    nearest = min(same, key=lambda each: abs(math.log(each.blocks / blocks)))
    return dataclasses.replace(nearest, grid=node.grid, block=node.block, shared_bytes=node.shared_bytes,
                               elements=blocks / nearest.blocks_of_element)


def library_seconds(gpu, node):
    """The least time of a library's product: the longest of its bytes at the rate of a large copy, its arithmetic, and the
    start of a block of one warp that loads a value."""
    architecture = gpu.architecture
    multiply_adds = architecture.fp32 if node.dtype == "f32" else architecture.tensor_peak
    start = machine.BLOCK_CYCLES + machine.WARP_CYCLES + architecture.latency["LDG"]
    return max(node.bytes / gpu.copy_rate, node.flops / (2 * multiply_adds * gpu.multiprocessors * gpu.clock), start / gpu.clock)


def time_of(gpu, node, kernels, known):
    """The seconds of a launch, and their kind: "estimate", "at least", "limit", or "unknown" (0 seconds)."""
    if node.kernel not in kernels:
        return (library_seconds(gpu, node), "limit") if node.bytes else (0.0, "unknown")
    least, launch = least_seconds(gpu, kernels[node.kernel], node), known_launch(node, known)
    if launch is None:
        return least, "at least"
    return max(least, estimate.estimate(gpu, kernels[node.kernel], launch).seconds), "estimate"


def longest_chain(nodes, seconds):
    """The seconds of the longest chain of dependent launches, with the gaps between them, and the chain."""
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


def text_of(nodes, gpu, kernels, known):
    """The graph as lines of text. `kernels` and `known` are by kernel name."""
    times = [time_of(gpu, node, kernels, known) for node in nodes]
    width = max((len(node.kernel) for node in nodes), default=0)
    yield f"{len(nodes)} launches on {gpu.name}, estimated by the model (not measured)"
    for place, (node, (seconds, kind)) in enumerate(zip(nodes, times)):
        shown = "       ?" if kind == "unknown" else f"{seconds * 1e6:5.1f} us"
        after = ", ".join(str(before + 1) for before in node.after) or "-"
        yield f"{place + 1:4}  {node.kernel:{width}}  {shown}  {kind:8}  after {after}".rstrip()
    for kind, what in SUMS.items():
        of_kind = [seconds for seconds, each in times if each == kind]
        if of_kind:
            yield f"{what}: {len(of_kind)} launches" + (f", {sum(of_kind) * 1e6:.1f} us" if kind != "unknown" else "")
    total, chain = longest_chain(nodes, [seconds for seconds, _ in times])
    yield f"the longest chain: {len(chain)} launches with {GAP * 1e6:g} us between two, {total * 1e6:.1f} us"


def dot(nodes, gpu, kernels, known):
    """The graph in the DOT language of Graphviz: a box for each launch, and an edge from each launch that it depends on."""
    lines = ["digraph launches {", '  node [shape=box, fontname="Helvetica", fontsize=11];']
    for place, node in enumerate(nodes):
        shape = " x ".join(map(str, node.grid)) + " blocks of " + " x ".join(map(str, node.block))
        seconds, kind = time_of(gpu, node, kernels, known)
        time = "code unknown" if kind == "unknown" else f"{kind} {seconds * 1e6:.1f} us on {gpu.name}"
        detail = f"{shape}; {time}" if node.kernel in kernels else time
        label = json.dumps(f"{place + 1}  {node.kernel}\n{detail}", ensure_ascii=False)
        lines.append(f"  {place + 1} [label={label}];")
        lines += [f"  {before + 1} -> {place + 1};" for before in node.after]
    return "\n".join([*lines, "}"]) + "\n"
