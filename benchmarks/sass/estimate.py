"""Estimates the time of a launch on a GPU from its SASS and its shape: docs/sass.md describes the model."""
import dataclasses
import itertools
import math

import faults
import loops
import machine
import occupancy
import timeline

GLOBAL_LOADS, GLOBAL = ("LDG", "LDGSTS"), ("LDG", "LDGSTS", "STG")


@dataclasses.dataclass(frozen=True)
class Pass:
    """A walk over the elements: a loop, or a kernel without loops (`loop` is None)."""
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
    requested: float = 0  # bytes for each element of all accesses, each byte of a warp's request once
    moved: float = 0  # bytes of sectors for each element
    scattered: float = 0  # sectors beyond the fewest, for each element
    shared: float = 0  # bytes of shared memory for each element
    shared_cycles: float = 0  # of the banks, for each element
    math: bool = False  # an element is a multiply-add

    @property
    def threads(self):
        return math.prod(self.block)

    @property
    def blocks(self):
        return math.prod(self.grid)


@dataclasses.dataclass(frozen=True)
class Estimate:
    seconds: float
    terms: dict  # seconds: bytes, cache, issue, units, load-store, latency
    limit: str  # the name of the largest term
    occupancy: occupancy.Occupancy
    instructions: float  # of a thread for each element
    bytes_in_flight: float  # of loads, on a multiprocessor
    passes: list


def multiply_adds(path):
    """Of one lane."""
    return sum({"FFMA": 1, "HMMA": 128 if ".16816" in each.instruction.opcode else 64}.get(each.instruction.kind, 0)
               for each in path)


def loop_elements(launch, path):
    """Elements of a thread in one pass along `path`; 0 where the path reads or writes none."""
    if launch.math:
        return multiply_adds(path)
    loaded, stored = loops.bytes_on(path, GLOBAL_LOADS), loops.bytes_on(path, ("STG",))
    if loaded and launch.read > 0.01:
        return loaded / launch.read
    return stored / launch.written if stored and launch.written > 0.01 else 0


def candidates(launch, kernel):
    """The loops that may be walks over the elements: for each, the ways around it."""
    found = []
    innermost, outer = kernel.all_loops
    if launch.math and not any(multiply_adds(loop.path) for loop in innermost):
        innermost = outer  # a product whose inner loops only copy
    for loop in innermost:
        ways = [Pass(loop, path, loop_elements(launch, path)) for path in (loop.path, loop.lean)]
        ways = [way for way in ways if way.elements >= 0.2]
        if ways:
            found.append(ways[:1] if len(ways) == 2 and ways[0].path == ways[1].path else ways)
    return found


def accesses(path):
    return sum(each.instruction.kind in GLOBAL and each.acts for each in path)


def shared_bytes(path):
    return loops.bytes_on(path, ("LDS", "STS"))


def of_elements(passes, count):
    """`count` of each pass for an element, added up."""
    return sum(count(each.path) / each.elements for each in passes)


def choose_passes(launch, kernel):
    """The loops that the launch goes through: of all sets of loops, one after another in the code, that whose bytes for
    each element are nearest to those that the analysis counted, in global memory and then in shared memory. Of equally near
    ones the fewest loops, then the most elements in an iteration, then the fewest accesses."""
    found = candidates(launch, kernel)
    if launch.math and found:
        return [max((ways[0] for ways in found), key=lambda each: each.elements)]
    wanted = launch.requested or launch.read + launch.written
    best = None
    for count in range(1, 4):
        for chosen in itertools.combinations(found[:10], count):
            for passes in itertools.product(*chosen):
                moved = of_elements(passes, lambda path: loops.bytes_on(path, GLOBAL))
                distance = abs(moved - wanted) / wanted if wanted else 0
                in_shared = abs(of_elements(passes, shared_bytes) - launch.shared) / launch.shared if launch.shared else 0
                value = (round(distance, 1), round(in_shared, 1) if launch.shared > 0.5 else 0, count,
                         -sum(each.elements for each in passes), of_elements(passes, accesses))
                if best is None or value < best[0]:
                    best = (value, list(passes))
    if best and best[0][0] <= 0.3:
        return best[1]
    elements = launch.elements / (launch.threads * launch.blocks)
    path = min(loops.straight_paths(kernel.blocks), key=lambda path: abs(loops.bytes_on(path, GLOBAL) - wanted * elements))
    return [Pass(None, path, elements)]


def unit_cycles(path, architecture):
    """For each unit of a multiprocessor: the cycles that a warp's instructions on the path take of it."""
    result = dict.fromkeys(("issue", "FMA", "ALU", "special functions", "f64", "tensor", "load-store"), 0)
    lanes = {"FFMA": ("FMA", architecture.fp32), "FADD": ("FMA", architecture.fp32), "FMUL": ("FMA", architecture.fp32),
             "HFMA2": ("FMA", architecture.half2), "F64": ("f64", architecture.fp64), "integer": ("ALU", architecture.alu),
             "compare": ("ALU", architecture.alu), "pack": ("ALU", architecture.alu),
             "MUFU": ("special functions", machine.SPECIAL), "convert": ("special functions", machine.SPECIAL)}
    for each in path:
        instruction = each.instruction
        result["issue"] += 1 / machine.SCHEDULERS
        if not each.acts:
            continue
        if instruction.kind == "integer" and instruction.name == "IMAD":
            result["FMA"] += machine.WARP / 64
        elif instruction.kind in lanes:
            unit, rate = lanes[instruction.kind]
            result[unit] += machine.WARP / rate
        elif instruction.kind == "HMMA":
            result["tensor"] += 128 * machine.WARP / architecture.tensor * (1 if ".16816" in instruction.opcode else 0.5)
        elif instruction.bytes:
            result["load-store"] += max(machine.WARP / architecture.load_store,
                                        machine.WARP * instruction.bytes / machine.SHARED_BYTES)
        elif instruction.kind == "shuffle":
            result["load-store"] += machine.WARP / machine.SHUFFLES
    return result


def loops_in_shared_memory(launch, kernel, passes):
    """Loops that work in shared memory alone, and how often a thread goes through each for an element. How often is not in
    the code: those that move the most bytes (remainders move fewer) are taken equally often, as often as explains the bytes
    that the analysis counted."""
    missing = launch.shared - of_elements(passes, shared_bytes)
    if launch.math or missing < 0.1 * launch.shared:
        return [], 0
    found = [loop for loop in kernel.loops if shared_bytes(loop.path) and not loop.bytes_of(*GLOBAL)]
    most = max((shared_bytes(loop.path) for loop in found), default=0)
    found = [loop for loop in found if shared_bytes(loop.path) > most / 2]
    return found, missing / sum(shared_bytes(loop.path) for loop in found) if found else 0


def norm(terms, p):
    """The time of terms that hide each other only in part: their sum for p = 1, the largest for an infinite p."""
    return sum(term ** p for term in terms) ** (1 / p)


def ends_of(kernel, passes):
    """What a thread executes before and after its passes."""
    if passes[0].loop is None:
        return []
    return loops.way_in(kernel.blocks, passes[0].loop) + loops.way_out(kernel.blocks, passes[-1].loop)


def estimate(gpu, kernel, launch):
    """The time of a launch of `kernel` (disassemble.Kernel) on `gpu`."""
    architecture = gpu.architecture
    passes = choose_passes(launch, kernel)
    held = occupancy.occupancy(architecture, launch.threads, kernel.registers, kernel.shared + launch.shared_bytes)
    warps_of_block = -(-launch.threads // machine.WARP)
    warps = warps_of_block * launch.blocks
    per_multiprocessor = max(1, -(-launch.blocks // gpu.multiprocessors))  # blocks, on the busiest
    resident = max(1, min(held.blocks, per_multiprocessor))
    share = launch.elements / (launch.threads * launch.blocks)  # elements of a thread

    ends = ends_of(kernel, passes)
    units = unit_cycles(ends, architecture)
    lifetime = machine.BLOCK_CYCLES + machine.WARP_CYCLES * warps_of_block + timeline.cycles(ends, architecture)[0]
    instructions = len(ends) / share
    loaded = passed_over = 0
    for each in passes:
        rounds = share / each.elements
        first, steady = timeline.cycles(each.path, architecture, 4 if each.loop else 1)
        one = timeline.cycles(each.path, architecture)[0]
        lifetime += one + max(0, rounds - 1) * steady if each.loop else one
        for unit, cycles in unit_cycles(each.path, architecture).items():
            units[unit] += cycles * rounds
        instructions += len(each.path) / each.elements
        loaded += loops.bytes_on(each.path, GLOBAL_LOADS) * rounds
        passed_over += faults.bytes_between_pieces(each.path) / each.elements
    others, rounds = loops_in_shared_memory(launch, kernel, passes)
    for loop in others:
        lifetime += timeline.cycles(loop.path, architecture, 4)[1] * rounds * share
        for unit, cycles in unit_cycles(loop.path, architecture).items():
            units[unit] += cycles * rounds * share
        instructions += len(loop.path) * rounds
    in_flight = resident * launch.threads * loaded * architecture.latency["LDG"] / lifetime
    waves = -(-per_multiprocessor // resident)

    units["load-store"] += launch.scattered * share * machine.WARP
    units["load-store"] += passed_over * share * machine.WARP / machine.SHARED_BYTES
    units["shared memory"] = launch.shared_cycles * share * machine.WARP
    seconds_of_cycle = warps / min(gpu.multiprocessors, launch.blocks) / gpu.clock
    terms = {"bytes": (launch.read + launch.written) * launch.elements / gpu.copy_rate,
             "cache": 0 if launch.math else (launch.moved + passed_over) * launch.elements / gpu.cache_rate,
             "latency": waves * lifetime / gpu.clock}
    terms.update({unit: cycles * seconds_of_cycle for unit, cycles in units.items()})
    inside = norm([value for name, value in terms.items() if name not in ("bytes", "cache")], machine.UNITS_OVERLAP)
    seconds = max(norm([terms["bytes"], inside], machine.MEMORY_OVERLAP), terms["cache"])
    limit = max(terms, key=terms.get)
    return Estimate(seconds, terms, limit, held, instructions, in_flight, passes)
