"""Estimates the time of a launch on a GPU from its SASS and its shape: docs/sass.md describes the model."""
import dataclasses
import itertools
import math

import faults
import loops
import machine
import nearest
import occupancy
import timeline

ONCE = 0.75  # rounds of a loop: with fewer, some threads do not enter it, and other code runs
LITTLE = 0.5  # bytes for each element: with fewer, the work is not on the elements, but for example on a value per row
FEW = 0.01  # of a work's bytes: with a smaller share, reads (or writes) do not tell the number of elements
GLOBAL_LOADS, GLOBAL = ("LDG", "LDGSTS"), ("LDG", "LDGSTS", "STG")


@dataclasses.dataclass(frozen=True)
class Pass:
    """A pass over the elements: a loop, or a path through the kernel without a loop (`loop` is None)."""
    loop: object
    path: list
    elements: float  # for each thread and iteration


@dataclasses.dataclass(frozen=True)
class Launch:
    kernel: str
    grid: tuple
    block: tuple
    shared_bytes: int  # dynamic
    elements: float  # of the work
    read: float = 0  # distinct bytes for each element
    written: float = 0
    requested: float = 0  # bytes of all accesses for each element; a byte counts once in a warp's request
    accesses: float = 0  # of lanes, for each element
    requests: float = 0  # of warps, for each element; 0 if they were not counted
    moved: float = 0  # bytes of sectors for each element
    scattered: float = 0  # sectors beyond the fewest possible, for each element
    shared: float = 0  # bytes of shared memory for each element
    shared_cycles: float = 0  # of the banks, for each element
    products: int = 0  # matrix products, one after another; an element is then a multiply-add of one of them
    blocks_of_element: float = 0  # as counted at a small size; 0 if it was not
    columns: int = 0  # elements in a row; 0 if the work has no rows

    @property
    def threads(self):
        return math.prod(self.block)

    @property
    def blocks(self):
        return math.prod(self.grid)

    @property
    def share(self):
        """The number of elements of a thread."""
        return self.elements / (self.threads * self.blocks)

    @property
    def is_little(self):
        """Whether the work moves few bytes for each element, such as one value for each row."""
        return self.read + self.written < LITTLE

    @property
    def has_few_lanes(self):
        """Whether on average fewer than half of a warp's lanes act in a request."""
        return 2 * self.accesses < machine.WARP * self.requests

    @property
    def share_of_row(self):
        """The elements of a thread in one row if a block takes a row at a time; if a row has fewer elements than a block has
        threads, the whole row, as one thread may take it; for other work all elements of the thread."""
        if self.threads != self.block[0] or self.columns < 2 or self.is_little:
            return self.share
        if self.columns < self.threads:
            return max(self.share, self.columns)
        return min(self.share, self.columns / self.threads)


@dataclasses.dataclass(frozen=True)
class Estimate:
    seconds: float
    terms: dict  # seconds: bytes, cache, issue, units, load-store, latency
    limit: str  # the name of the largest term
    occupancy: occupancy.Occupancy
    instructions: float  # of a thread for each element
    bytes_in_flight: float  # of loads, for a multiprocessor
    passes: list


def of_hmma(instruction):
    """The multiply-adds of one lane in a product of 16 x 16 by 16 x 8, or of 16 x 8 by 8 x 8 elements."""
    return (16 * 8 * 16 if ".16816" in instruction.opcode else 16 * 8 * 8) // machine.WARP


def multiply_adds(path):
    """The multiply-adds of one lane on a path."""
    of_kind = {"FFMA": lambda instruction: 1, "HMMA": of_hmma}
    return sum(of_kind[each.instruction.kind](each.instruction) for each in path if each.instruction.kind in of_kind)


def loop_elements(launch, path):
    """The elements of a thread in one pass along `path`; 0 if the path reads or writes none, and for little work with so few
    lanes that no thread has a second item."""
    if launch.products:
        return multiply_adds(path)
    if launch.is_little and launch.has_few_lanes:
        return 0
    loaded, stored = loops.bytes_on(path, GLOBAL_LOADS), loops.bytes_on(path, ("STG",))
    fewest = FEW * (launch.read + launch.written)
    if loaded and launch.read > fewest:
        return loaded / launch.read
    return stored / launch.written if stored and launch.written > fewest else 0


def candidates(launch, kernel):
    """The loops that may be passes over the elements; for each, the paths around it."""
    found = []
    innermost, outer = kernel.all_loops
    if launch.products and not any(multiply_adds(loop.path) for loop in innermost):
        innermost = outer  # a product whose inner loops only copy
    for loop in innermost:
        ways = [Pass(loop, path, loop_elements(launch, path)) for path in (loop.path, loop.lean)]
        ways = [way for way in ways if 0.2 <= way.elements and (launch.products or way.elements * ONCE <= launch.share_of_row)]
        if ways:
            found.append(ways[:1] if len(ways) == 2 and ways[0].path == ways[1].path else ways)
    return found


def passes_with_table(launch, kernel, wanted):
    """The loops in which the lanes of a warp load the same bytes of a table. Their accesses are those that were counted, but
    the bytes of their accesses are more, as a byte counts once in a request. So their elements follow from the bytes stored."""
    found = [Pass(loop, loop.path, loop.bytes_of("STG") / launch.written) for loop in kernel.loops
             if launch.accesses and launch.written and loop.bytes_of("STG") and loop.bytes_of(*GLOBAL_LOADS)]
    return [each for each in found if each.elements * ONCE <= launch.share_of_row
            and distance(of_elements([each], accesses), launch.accesses) < 0.02
            and of_elements([each], global_bytes) > 1.05 * wanted]


def accesses(path):
    """The number of accesses of global memory: see loops.count_on()."""
    return loops.count_on(path, GLOBAL)[1]


def global_bytes(path):
    return loops.bytes_on(path, GLOBAL)


def shared_bytes(path):
    return loops.bytes_on(path, ("LDS", "STS"))


def of_elements(passes, count):
    """The sum of `count` over the passes, for each element."""
    return sum(count(each.path) / each.elements for each in passes)


def choose_passes(launch, kernel):
    """The loops that the launch goes through.

    For matrix products: as many loops as products, those with the most multiply-adds. For other work, of all sets of up to
    three loops, the set whose bytes of global memory for each element are nearest to the bytes that the analysis counted; among
    equally near sets, one with at most 1.5 times the counted accesses, then the nearest in bytes of shared memory, then the set
    with the fewest loops, with the most elements in an iteration, and with the fewest accesses. If no set is near, or if the
    loops are taken once for each row: the path around the loop over rows, or through the kernel, whose bytes are nearest."""
    found = candidates(launch, kernel)
    if launch.products and found:
        return sorted((ways[0] for ways in found), key=lambda each: -each.elements)[:launch.products]
    wanted = launch.requested or launch.read + launch.written
    with_table = passes_with_table(launch, kernel, wanted)
    if with_table:
        return with_table[:1]
    best = None
    for count in range(1, 4):
        for chosen in itertools.combinations(found[:10], count):
            for passes in itertools.product(*chosen):
                moved = distance(of_elements(passes, global_bytes), wanted)
                is_other = launch.accesses > 0 and of_elements(passes, accesses) > 1.5 * launch.accesses
                in_shared = distance(of_elements(passes, shared_bytes), launch.shared) if launch.shared > 0.5 else 0
                value = (round(moved, 1), is_other, round(in_shared, 1), count,
                         -sum(each.elements for each in passes), of_elements(passes, accesses))
                if best is None or value < best[0]:
                    best = (value, list(passes))
    if best is None or best[0][0] > 0.3 or best[0][1]:
        return [with_idle_lanes(launch, straight_pass(launch, kernel, wanted))]
    if is_once_for_a_row(launch, kernel, best[1]):
        straight = straight_pass(launch, kernel, wanted)
        if distance(loops.bytes_on(straight.path, GLOBAL), wanted * straight.elements) < 0.1:
            return [with_idle_lanes(launch, straight)]
    return best[1]


def is_once_for_a_row(launch, kernel, passes):
    """Whether each of the loops is taken about once for each row; then it may be code that only longer rows need."""
    return (all(launch.share_of_row < 1.5 * each.elements for each in passes)
            and any(all(each.loop.blocks < rows.blocks for each in passes) for rows in kernel.all_loops[1]))


def distance(found, wanted):
    return abs(found - wanted) / wanted if wanted else 0


def straight_pass(launch, kernel, wanted):
    """Once around the loop over rows, if the blocks take several of them; otherwise once through the kernel."""
    has_others = launch.threads > machine.WARP
    around = max(kernel.all_loops[1], key=lambda loop: (loop.bytes_of(*GLOBAL) > 0, len(loop.blocks)), default=None)
    if around and launch.share >= 1.5 * launch.share_of_row:
        path = nearest.around(kernel.blocks, around, wanted * launch.share_of_row, accesses, has_others)
        return Pass(around, path, launch.share_of_row)
    path = nearest.through(kernel.blocks, wanted * launch.share, accesses, has_others)
    if around and loops.bytes_on(path, GLOBAL) < wanted * launch.share / 2 and loop_elements(launch, around.path) >= 0.2:
        return Pass(around, around.path, loop_elements(launch, around.path))  # as often as the bytes tell
    return Pass(None, path, launch.share)


def with_idle_lanes(launch, straight):
    """The pass with fewer elements if most lanes are idle: the acting lanes then take the path more often, so often that a warp
    makes the requests that were counted. A path does not tell which lanes are idle on it."""
    if launch.is_little or not launch.has_few_lanes:
        return straight
    requests_of_warp = launch.requests * machine.WARP * straight.elements
    return dataclasses.replace(straight, elements=straight.elements / max(1, requests_of_warp / max(1, accesses(straight.path))))


def unit_cycles(path, architecture):
    """For each unit of a multiprocessor: the cycles that a warp's instructions on the path occupy it."""
    result = dict.fromkeys(("issue", "FMA", "ALU", "special functions", "f64", "tensor", "load-store"), 0)
    lanes = {"FFMA": ("FMA", architecture.fp32), "FADD": ("FMA", architecture.fp32), "FMUL": ("FMA", architecture.fp32),
             "HFMA2": ("FMA", architecture.half2), "F64": ("f64", architecture.fp64), "integer": ("ALU", architecture.alu),
             "compare": ("ALU", architecture.alu), "pack": ("ALU", architecture.alu),
             "MUFU": ("special functions", machine.SPECIAL), "convert": ("special functions", machine.SPECIAL)}
    result["issue"] = len(path) / machine.SCHEDULERS
    for instruction in loops.acting(path):
        if instruction.kind == "integer" and instruction.name == "IMAD":
            result["FMA"] += machine.WARP / 64
        elif instruction.kind in lanes:
            unit, rate = lanes[instruction.kind]
            result[unit] += machine.WARP / rate
        elif instruction.kind == "HMMA":
            result["tensor"] += of_hmma(instruction) * machine.WARP / architecture.tensor
        elif instruction.bytes:
            result["load-store"] += max(machine.WARP / architecture.load_store,
                                        machine.WARP * instruction.bytes / machine.SHARED_BYTES)
        elif instruction.kind == "shuffle":
            result["load-store"] += machine.WARP / machine.SHUFFLES
    return result


def other_loops(launch, kernel, passes):
    """Pairs (loop, rounds of a thread for each element) of the loops that are not passes. The code does not tell the rounds:
    they are chosen to explain the bytes that the analysis counted and the passes do not move. For several products of tiles,
    these are the loops that copy tiles into shared memory; otherwise, of the loops that only use shared memory, the loops that
    move the most bytes (loops for remainders move fewer), all with the same number of rounds."""
    rest = [loop for loop in kernel.loops if shared_bytes(loop.path) and all(loop is not each.loop for each in passes)]
    if launch.products > 1:
        copies = [loop for loop in rest if loop.bytes_of("LDG") and loop.bytes_of("STS")]
        return equally_often(copies, GLOBAL, launch.requested - of_elements(passes, lambda path: loops.bytes_on(path, GLOBAL)))
    missing = launch.shared - of_elements(passes, shared_bytes)
    if launch.products or missing < 0.1 * launch.shared:
        return []
    alone = [loop for loop in rest if not loop.bytes_of(*GLOBAL)]
    most = max((shared_bytes(loop.path) for loop in alone), default=0)
    return equally_often([loop for loop in alone if shared_bytes(loop.path) > most / 2], ("LDS", "STS"), missing)


def equally_often(chosen, kinds, missing):
    """The loops, each with the number of rounds in which they together move `missing` bytes."""
    once = sum(loops.bytes_on(loop.path, kinds) for loop in chosen)
    return [(loop, missing / once) for loop in chosen if missing > 0]


def norm(terms, p):
    """The time of terms that overlap in part: their sum for p = 1, the largest term for an infinite p."""
    return sum(term ** p for term in terms) ** (1 / p)


def ends_of(kernel, passes):
    """The instructions that a thread executes before and after its passes."""
    if passes[0].loop is None:
        return []
    return loops.way_in(kernel.blocks, passes[0].loop) + loops.way_out(kernel.blocks, passes[-1].loop)


@dataclasses.dataclass
class Work:
    """The work of a launch's threads."""
    cycles: float  # from a block's start to the end of its last warp, if it ran alone
    units: dict  # cycles of each unit, for a warp
    instructions: float = 0  # of a thread
    loaded: float = 0  # bytes of a thread
    passed_over: dict = dataclasses.field(default_factory=lambda: dict.fromkeys(faults.STORES, 0))  # bytes of a thread

    def add(self, path, rounds, cycles, architecture):
        """Adds the path `rounds` times; `cycles` is the total of all rounds."""
        self.cycles += cycles
        self.instructions += len(path) * rounds
        self.loaded += loops.bytes_on(path, GLOBAL_LOADS) * rounds
        for kind in faults.STORES:
            self.passed_over[kind] += faults.bytes_between_pieces(path, kind) * rounds
        for unit, used in unit_cycles(path, architecture).items():
            self.units[unit] = self.units.get(unit, 0) + used * rounds


def work_of(launch, kernel, passes, architecture):
    share = launch.share
    warps = -(-launch.threads // machine.WARP)
    work = Work(machine.BLOCK_CYCLES + machine.WARP_CYCLES * warps, {})
    ends = ends_of(kernel, passes)
    work.add(ends, 1, timeline.cycles(ends, architecture)[0], architecture)
    for each in passes:
        rounds = share / each.elements
        once, _ = timeline.cycles(each.path, architecture)
        _, steady = timeline.cycles(each.path, architecture, 4)
        work.add(each.path, rounds, once + max(0, rounds - 1) * steady if each.loop else once, architecture)
    for loop, rounds_of_element in other_loops(launch, kernel, passes):
        rounds = rounds_of_element * share
        work.add(loop.path, rounds, timeline.cycles(loop.path, architecture, 4)[1] * rounds, architecture)
    # From the costs that the analysis counted for each element.
    passed_over = {kind: bytes_of_lane * machine.WARP / machine.SHARED_BYTES for kind, bytes_of_lane in work.passed_over.items()}
    work.units["load-store"] += launch.scattered * share * machine.WARP + passed_over["STG"]
    work.units["shared memory"] = launch.shared_cycles * share * machine.WARP + passed_over["STS"]
    return work


def estimate(gpu, kernel, launch):
    """The time of a launch of `kernel` (disassemble.Kernel) on `gpu`; None if a block needs more than a multiprocessor has."""
    architecture = gpu.architecture
    held = occupancy.occupancy(architecture, launch.threads, kernel.registers, kernel.shared + launch.shared_bytes)
    if held.blocks == 0:
        return None
    passes = choose_passes(launch, kernel)
    work = work_of(launch, kernel, passes, architecture)
    threads = launch.threads * launch.blocks
    on_busiest = -(-launch.blocks // gpu.multiprocessors)  # blocks
    resident = min(held.blocks, on_busiest)
    seconds_of_cycle = -(-launch.threads // machine.WARP) * on_busiest / gpu.clock  # of a warp's instruction
    terms = {"bytes": (launch.read + launch.written) * launch.elements / gpu.copy_rate,
             "cache": 0 if launch.products == 1 else (launch.moved * launch.elements + work.passed_over["STG"] * threads) / gpu.cache_rate,
             "latency": -(-on_busiest // resident) * work.cycles / gpu.clock,
             **{unit: cycles * seconds_of_cycle for unit, cycles in work.units.items()}}
    inside = norm([value for name, value in terms.items() if name not in ("bytes", "cache")], machine.UNITS_OVERLAP)
    seconds = max(norm([terms["bytes"], inside], machine.MEMORY_OVERLAP), terms["cache"])
    return Estimate(seconds, terms, max(terms, key=terms.get), held, work.instructions * threads / launch.elements,
                    resident * launch.threads * work.loaded * architecture.latency["LDG"] / work.cycles, passes)
