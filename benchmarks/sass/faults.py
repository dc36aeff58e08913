"""What a kernel's SASS should not have: local memory, and vector stores in pieces."""
import re

import instructions
import loops

ADDRESS = re.compile(r"\[([^\[\]]*?)\+?(-?0x[0-9a-f]+)?\]$")  # sm_90 names a descriptor before it
VECTOR_BYTES = 16
STORES = ("STG", "STS")  # of global and of shared memory


def uses_local_memory(kernel):
    """Registers were spilled, or an array is in memory because its index is not known to the compiler."""
    return kernel.stack > 0 or kernel.local > 0 or any(each.kind in ("LDL", "STL") for each in kernel.code)


def spills(kernel):
    """The number of loads and stores of local memory in the code."""
    return sum(each.kind in ("LDL", "STL") for each in kernel.code)


def stores_of(path, kind):
    """The stores of this kind that run on the path, by their guard, which is a predicate that is not known, its version and
    its side (None where they run in any case), and by the registers of their address and the versions of these: lists of
    (offset, bytes)."""
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
    """The 16-byte vectors that the path stores in pieces, by neighbouring narrower stores of one address: for each the widths
    of its stores. Where the other side of their predicate stores a whole vector, they are for arrays that are not aligned. What
    is not a multiple of 16 bytes long, a row of ten floats say, does not begin at one either, and is as wide as it can be."""
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
    """The widths of stores (offset, bytes) that follow each other without a gap: a list for each stretch."""
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
    """How many 16-byte vectors the path stores in pieces."""
    return sum(len(pieces(path, kind)) for kind in STORES)


def bytes_between_pieces(path, kind):
    """Bytes of a lane that the stores of pieces pass over: they touch the sectors, or the banks, of all lanes' whole vectors
    each time."""
    return sum(VECTOR_BYTES - size for run in pieces(path, kind) for size in run)


def paths_of(kernel):
    """The ways through the kernel on which its work is: once around each loop, and once through everything."""
    return [loop.path for loop in kernel.loops] + [loops.straight_path(kernel.blocks, True)]


def split_vectors(kernel):
    """The most vectors that one way through the kernel stores in pieces."""
    return max((split_stores(path) for path in paths_of(kernel)), default=0)
