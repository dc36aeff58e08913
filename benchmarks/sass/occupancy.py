"""How many blocks of a kernel a multiprocessor holds: "Hardware Multithreading" and the table of technical specifications
of the CUDA C++ Programming Guide, with the units of allocation of the CUDA occupancy calculator."""
import dataclasses

import machine


def up(value, unit):
    return -(-value // unit) * unit


@dataclasses.dataclass(frozen=True)
class Occupancy:
    blocks: int  # on a multiprocessor at once
    warps: int
    limit: str  # what allows no further block: "registers", "shared memory", "threads" or "blocks"
    share: float  # of the warps that a multiprocessor can hold


def occupancy(architecture, threads, registers, shared):
    """For blocks of `threads` threads with `registers` each and `shared` bytes, static and dynamic. 0 blocks where one does
    not fit."""
    warps = up(threads, machine.WARP) // machine.WARP
    of_warp = up(max(registers, 1) * machine.WARP, machine.REGISTERS_AT_ONCE)
    # Registers are held by the four schedulers, each for its own warps.
    by_registers = architecture.registers // machine.SCHEDULERS // of_warp * machine.SCHEDULERS // warps
    of_block = up(shared + machine.SHARED_OF_SYSTEM, machine.SHARED_AT_ONCE)
    limits = {"threads": architecture.threads // machine.WARP // warps, "registers": by_registers,
              "shared memory": architecture.shared // of_block, "blocks": architecture.blocks}
    limit = min(limits, key=limits.get)
    blocks = limits[limit]
    return Occupancy(blocks, blocks * warps, limit, blocks * warps * machine.WARP / architecture.threads)
