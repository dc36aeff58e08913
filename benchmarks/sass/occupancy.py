"""The number of blocks of a kernel that a multiprocessor holds, by "Hardware Multithreading" and the table of technical
specifications in the CUDA C++ Programming Guide, with the allocation units of the CUDA occupancy calculator."""
import dataclasses

import machine


def up(value, unit):
    return -(-value // unit) * unit


@dataclasses.dataclass(frozen=True)
class Occupancy:
    blocks: int  # on a multiprocessor at once
    warps: int
    limit: str  # what limits the blocks: "registers", "shared memory", "threads" or "blocks"
    share: float  # of the warps that a multiprocessor can hold


def occupancy(architecture, threads, registers, shared):
    """For blocks of `threads` threads with `registers` registers each and `shared` bytes of static and dynamic shared memory. 0
    blocks if a block does not fit."""
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
