"""What a kernel's SASS should not have: local memory, and vector stores in pieces."""
import re

import loops

BASE = re.compile(r"\[(U?R\d+)(?:\.64)?(?:\+(-?0x[0-9a-f]+))?\]")
VECTOR_BYTES = 16


def uses_local_memory(kernel):
    """Registers were spilled, or an array is in memory because its index is not known to the compiler."""
    return kernel.stack > 0 or kernel.local > 0 or any(each.kind in ("LDL", "STL") for each in kernel.code)


def spills(kernel):
    """The number of loads and stores of local memory in the code."""
    return sum(each.kind in ("LDL", "STL") for each in kernel.code)


def stores_of(path):
    """The stores that run on the path, by address register and its version: lists of (offset, bytes)."""
    found, versions = {}, {}
    for each in path:
        instruction = each.instruction
        if instruction.kind == "STG" and each.acts:
            addresses = BASE.findall(instruction.operands[0])  # the last: sm_90 names a descriptor before it
            if addresses:
                register, offset = addresses[-1]
                key = (register, versions.get(register, 0), instruction.predicate, instruction.negated)
                found.setdefault(key, []).append((int(offset or "0", 16), instruction.bytes))
        for name in instruction.written:
            versions[name] = versions.get(name, 0) + 1
    return found


def pieces(path):
    """The 16-byte vectors that the path stores in pieces, by neighbouring narrower stores of one address register: for each
    the widths of its stores."""
    found = []
    for places in stores_of(path).values():
        run, end = [], None
        for offset, size in sorted({place for place in places if place[1] < VECTOR_BYTES}):
            run = run + [size] if offset == end else [size]
            end = offset + size
            if sum(run) == VECTOR_BYTES:
                found.append(run)
                run, end = [], None
    return found


def split_stores(path):
    """How many 16-byte vectors the path stores in pieces."""
    return len(pieces(path))


def bytes_between_pieces(path):
    """Bytes of a lane that the stores of pieces pass over: they touch the sectors of all lanes' whole vectors each time."""
    return sum(VECTOR_BYTES - size for run in pieces(path) for size in run)


def paths_of(kernel):
    """The ways through the kernel on which its work is: once around each loop, and once through everything."""
    return [loop.path for loop in kernel.loops] + [loops.straight_path(kernel.blocks, True)]


def split_vectors(kernel):
    """The most vectors that one way through the kernel stores in pieces."""
    return max((split_stores(path) for path in paths_of(kernel)), default=0)
