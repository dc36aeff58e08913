"""Compares a build's kernels with tests/sass/expected.json and with the committed result files."""
import json

import faults
import machine
import occupancy
import results
import rows
import tools

REGISTERS_AT_ONCE = 8  # of a thread: registers are allocated in units of 8
LARGEST_BLOCK = 512  # threads of a block of a kernel without launch bounds: kMaxRowThreads of kernels/common/elements.h
MOST = 1.05  # times the committed instructions
PINNED = "13.0"  # the nvcc version of the committed tables
LISTS = {"local_memory": ("uses local memory", faults.uses_local_memory),
         "split_stores": ("stores 16-byte vectors in pieces", faults.split_vectors)}


def expected_lists(path):
    """The names of the kernels with each fault, as "KERNEL, ARCHITECTURE". A name without an architecture stands for all."""
    try:
        expected = json.loads(path.read_text(encoding="utf-8"))
        names = {key: [name for group in expected[key] for name in group["kernels"]] for key in LISTS}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise tools.SassError(f"{path} cannot be read: {error!r}") from error
    return {key: {full for name in listed for full in with_architectures(name)} for key, listed in names.items()}


def with_architectures(name):
    if name.endswith(tuple(f", {architecture}" for architecture in rows.ARCHITECTURES)):
        return [name]
    return [f"{name}, {architecture}" for architecture in rows.ARCHITECTURES]


def name_of(kernel):
    return f"{kernel.name}, {kernel.architecture}"


def check_lists(kernels, expected):
    """Problems: a kernel with a fault that is not listed, and a listed kernel that no longer has it."""
    problems = []
    for key, (what, has_fault) in LISTS.items():
        found = {name_of(kernel) for kernel in kernels if has_fault(kernel)}
        problems += [f"{name}: {what}, and is not in the list '{key}'" for name in sorted(found - expected[key])]
        problems += [f"{name}: no longer {what.replace('uses', 'use').replace('stores', 'store', 1)}: take it off the list "
                     f"'{key}'" for name in sorted(expected[key] - found)]
    return problems


def check_blocks(kernels):
    """Problems: kernels without launch bounds that have too many registers for the largest block (on each GPU 65,536 in total)."""
    return [f"{name_of(kernel)}: {kernel.registers} registers and no launch bounds, but no multiprocessor holds a block of "
            f"{LARGEST_BLOCK} threads with as many"
            for kernel in kernels if not kernel.bound and
            occupancy.occupancy(machine.SM_80, LARGEST_BLOCK, kernel.registers, 0).blocks == 0]


def bound_of(registers):
    """The most registers at the same cost: they are allocated in units of eight."""
    return occupancy.up(registers, REGISTERS_AT_ONCE)


def check_registers(kernels, committed):
    """Problems: a kernel with more registers than its bound, one that the table lacks, and one that only the table has."""
    built = {(kernel.name, kernel.architecture) for kernel in kernels}
    problems = [f"{name}, {architecture}: is in kernels.json, and the build has no such kernel"
                for name, architecture in sorted(committed.keys() - built)]
    for kernel in kernels:
        row = committed.get((kernel.name, kernel.architecture))
        if row is None:
            problems.append(f"{name_of(kernel)}: is not in kernels.json")
        elif kernel.registers > bound_of(row["registers"]):
            problems.append(f"{name_of(kernel)}: {kernel.registers} registers, "
                            f"expected at most {bound_of(row['registers'])}")
    return problems


def check_widths(found, committed):
    """Problems: kernels whose widest load or store in the main loop is narrower than in the table."""
    problems = []
    for key, row in found.items():
        for what in ("widest_load", "widest_store"):
            expected = committed.get(key, row)[what]
            if row[what] < expected:
                problems.append(f"{', '.join(key)}: the {what.replace('_', ' ')} of the main loop has {row[what]} bytes, "
                                f"expected {expected}")
    return problems


def loop_cost(row):
    """Instructions of the main loop for each 16 bytes of global memory; of the whole loop if it moves fewer bytes."""
    return row["loop"] / max(1, rows.loop_bytes(row) / faults.VECTOR_BYTES)


def check_loops(found, committed):
    """Problems: kernels whose main loop has more instructions than the table allows."""
    return [f"{', '.join(key)}: {loop_cost(row):.4g} instructions of the main loop for each 16 bytes, expected at most 5% more "
            f"than {loop_cost(committed[key]):.4g}"
            for key, row in found.items() if key in committed and loop_cost(row) > MOST * loop_cost(committed[key])]


def check_instructions(found, committed):
    """Problems: a launch with more instructions for each element than the table allows, one that the table lacks, and one that
    only the table has, because a multiprocessor no longer holds a block of it."""
    kept = {(row["name"], row["size"]) for row in found}
    problems = [f"{name} ({size}): has an estimate in estimates.json, and a multiprocessor no longer holds a block of it"
                for name, size in sorted(committed.keys() - kept)]
    for row in found:
        key = row["name"], row["size"]
        count = row["instructions_of_element"]
        if key not in committed:
            problems.append(f"{key[0]} ({key[1]}): is not in estimates.json")
        elif count > MOST * committed[key]["instructions_of_element"]:
            problems.append(f"{key[0]} ({key[1]}): {count:g} instructions for each element, expected at most 5% more than "
                            f"{committed[key]['instructions_of_element']:g}")
    return problems


def shapes(work):
    return {(name, size): [(launch.kernel, launch.grid, launch.block, launch.shared_bytes) for launch in each]
            for name, size, each in work}


def check_launches(found, committed):
    """Problems: work whose launches differ from the committed file."""
    found, committed = shapes(found), shapes(committed)
    return [f"{name} ({size}): launches {found.get((name, size))}, expected {committed.get((name, size))}"
            for name, size in sorted(found.keys() | committed.keys())
            if found.get((name, size)) != committed.get((name, size))]


def check(kernels, work, nvcc, expected, folder):
    """All problems of a build, one line each. Registers and instructions are only compared if the same nvcc made the tables."""
    committed = results.read(folder / "kernels.json")[0]
    found = {(row["name"], row["size"]): row for row in rows.kernel_rows(kernels.values())}
    problems = check_lists(kernels.values(), expected) + check_widths(found, committed) + check_blocks(kernels.values())
    if nvcc != PINNED:
        print(f"nvcc {nvcc}: registers and instructions are compared only for nvcc {PINNED}")
        return problems
    problems += check_registers(kernels.values(), committed) + check_loops(found, committed)
    return problems + check_instructions(rows.estimate_rows(kernels, work), results.read(folder / "estimates.json")[0])
