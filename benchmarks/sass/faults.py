"""Faults of a kernel's SASS: local memory, and vector stores in pieces."""
import re

import instructions
import loops

ADDRESS = re.compile(r"\[([^\[\]]*?)\+?(-?0x[0-9a-f]+)?\]$")  # sm_90 names a descriptor before it
VECTOR_BYTES = 16
STORES = ("STG", "STS")  # of global and of shared memory


def uses_local_memory(kernel):
    """Whether registers were spilled, or an array is in local memory because the compiler does not know its indices."""
    return kernel.stack > 0 or kernel.local > 0 or any(each.kind in ("LDL", "STL") for each in kernel.code)


def spills(kernel):
    """The number of loads and stores of local memory in the code."""
    return sum(each.kind in ("LDL", "STL") for each in kernel.code)


def stores_of(path, kind):
    """The stores of this kind that run on the path, as lists of (offset, bytes). The keys are the guard, which is an unknown
    predicate with its version and its side (None for a store that always runs), and the address registers with their
    versions."""
    found, versions = {}, {}
    for each in path:
        instruction = each.instruction
        if instruction.kind == kind and each.acts:
            base, offset = ADDRESS.search(instruction.operands[0]).groups()
            guard = None if each.runs else (instruction.predicate, versions.get(instruction.predicate, 0), instruction.negated)
            key = (guard, base, tuple(versions.get(name, 0) for name in instructions.registers_in(base)))
            found.setdefault(key, []).append((int(offset or "0", 16), instruction.bytes))
        for name in instruction.written:
            versions[name] = versions.get(name, 0) + 1
    return found


def pieces(path, kind):
    """The 16-byte vectors that the path stores in pieces, by neighbouring narrower stores to one address; for each, the widths
    of its stores. Not counted: stores whose predicate's other side stores a whole vector, as they are for arrays that are not
    aligned, and stretches whose length is not a multiple of 16 bytes, such as a row of ten floats, as they do not begin at a
    multiple either and are stored as wide as possible."""
    found, stores = [], stores_of(path, kind)
    whole = {guard for (guard, *_), places in stores.items() for _, size in places if size == VECTOR_BYTES}
    for (guard, *_), places in stores.items():
        if guard and (*guard[:2], not guard[2]) in whole:
            continue
        for run in neighbours(place for place in places if place[1] < VECTOR_BYTES):
            if sum(run) % VECTOR_BYTES == 0:
                found += vectors_of(run)
    return found


def neighbours(places):
    """The widths of stores (offset, bytes) that follow one another without a gap: a list for each stretch."""
    runs, end = [], None
    for offset, size in sorted(set(places)):
        if offset != end:
            runs.append([])
        runs[-1].append(size)
        end = offset + size
    return runs


def vectors_of(run):
    """A stretch cut into vectors of 16 bytes."""
    found, begin = [], 0
    for i in range(len(run)):
        if sum(run[begin:i + 1]) == VECTOR_BYTES:
            found.append(run[begin:i + 1])
            begin = i + 1
    return found


def split_stores(path):
    """The number of 16-byte vectors that the path stores in pieces."""
    return sum(len(pieces(path, kind)) for kind in STORES)


def bytes_between_pieces(path, kind):
    """The bytes of a lane that stores in pieces skip: each such store touches the sectors, or the banks, of all lanes' whole
    vectors."""
    return sum(VECTOR_BYTES - size for run in pieces(path, kind) for size in run)


def paths_of(kernel):
    """The paths on which a kernel does its work: once around each innermost loop, and once through the whole kernel."""
    return [loop.path for loop in kernel.loops] + [loops.straight_path(kernel.blocks, True)]


def split_vectors(kernel):
    """The largest number of vectors that one of these paths stores in pieces."""
    return max((split_stores(path) for path in paths_of(kernel)), default=0)
