"""The control-flow graph of a kernel, its loops, and the paths through them that aligned arrays take."""
import dataclasses
import heapq

import aligned

ENDS = ("EXIT", "RET", "BRX", "JMX", "KILL")
NEVER = 1 << 20  # instructions: the cost of a call, which only rare values need, such as subnormal numbers in a division


@dataclasses.dataclass
class Block:
    code: list
    after: list  # numbers of the blocks that may come next, when all arrays are aligned
    before: dict  # what is known at its beginning: see aligned.py; None if it is not reached
    has_call: bool


@dataclasses.dataclass(frozen=True)
class Executed:
    """An instruction on a path. Each takes an issue slot; one whose predicate is false has no effect."""
    instruction: object
    runs: object  # True, False, None: unknown

    @property
    def acts(self):
        return self.runs is not False


@dataclasses.dataclass
class Loop:
    header: int
    blocks: frozenset
    path: list  # of Executed: once around, on the path with the most bytes
    lean: list  # the same on the path with the most stored bytes, and of these the fewest loaded bytes

    def bytes_of(self, *kinds):
        return bytes_on(self.path, kinds)


def split(code):
    """The basic blocks, each a list of instructions, and the number of the block that begins at an address."""
    if not code:
        return [], {}
    addresses = {instruction.address for instruction in code}
    starts = {code[0].address}
    for here, following in zip(code, list(code[1:]) + [None]):
        if here.name in ("BRA", "JMP", "CALL", "EXIT", "RET", "BRX", "BREAK"):
            if here.target in addresses and here.name != "CALL":
                starts.add(here.target)
            if following:
                starts.add(following.address)
    parts, number_at = [], {}
    for instruction in code:
        if instruction.address in starts:
            number_at[instruction.address] = len(parts)
            parts.append([])
        parts[-1].append(instruction)
    return parts, number_at


def blocks_of(code):
    """The blocks of a kernel, with the edges that aligned arrays can take."""
    parts, number_at = split(code)
    blocks = [Block(part, [], None, part[-1].name == "CALL") for part in parts]
    if not blocks:
        return blocks
    blocks[0].before = {}
    waiting = [0]
    while waiting:
        number = waiting.pop()
        block = blocks[number]
        known = dict(block.before)
        for instruction in block.code:
            aligned.step(instruction, known)
        block.after = successors(block, number, known, number_at, len(blocks))
        for following in block.after:
            other = blocks[following]
            merged = dict(known) if other.before is None else {
                name: value for name, value in other.before.items() if known.get(name) == value}
            if merged != other.before:
                other.before = merged
                waiting.append(following)
    return blocks


def successors(block, number, known, number_at, count):
    last = block.code[-1]
    following = [number + 1] if number + 1 < count else []
    runs = aligned.runs(last, known)
    if last.name in ("BRA", "JMP"):
        if ".DIV" in last.opcode:  # only taken if the lanes of a warp have diverged
            return following
        target = [number_at[last.target]] if last.target in number_at else []
        taken = runs
        if last.is_conditional and not last.predicate:
            taken = aligned.truth(last.operands[0], known)
        elif last.is_conditional and len(last.operands) > 1:  # two predicates
            taken = False if runs is False else None
        return target if taken is True else following if taken is False else list(dict.fromkeys(target + following))
    if last.name in ENDS:
        return [] if runs is True else following
    return following


def executed(block):
    """The block's instructions, with what is known about their predicates."""
    known = dict(block.before)
    result = []
    for instruction in block.code:
        result.append(Executed(instruction, aligned.runs(instruction, known)))
        aligned.step(instruction, known)
    return result


def bytes_on(path, kinds):
    """Bytes that a lane moves by accesses of these kinds: see count_on()."""
    return count_on(path, kinds)[0]


def with_sides(path):
    """Pairs of each instruction that may act and its side: None if it acts for certain, or else its predicate, how often that
    was written before, and whether it is negated."""
    versions = {}
    for each in path:
        instruction = each.instruction
        if each.acts:
            yield instruction, None if each.runs is True else (
                instruction.predicate, versions.get(instruction.predicate, 0), instruction.negated)
        for name in instruction.written:
            versions[name] = versions.get(name, 0) + 1


def count_on(path, kinds):
    """The bytes that a lane moves by accesses of these kinds, and the number of these accesses. Of instructions under an
    unknown predicate and under its negation, only one side counts: the side with more bytes or, if these are equal, fewer
    accesses."""
    total, number, sides = 0, 0, {}
    for instruction, side in with_sides(path):
        if instruction.kind not in kinds:
            continue
        if side is None:
            total, number = total + instruction.bytes, number + 1
        else:
            counts = sides.setdefault(side[:2], [[0, 0], [0, 0]])[side[2]]
            counts[0] += instruction.bytes
            counts[1] -= 1
    chosen = [max(side) for side in sides.values()]
    return total + sum(side[0] for side in chosen), number - sum(side[1] for side in chosen)


def acting(path):
    """The instructions on a path that act. Of those under an unknown predicate and under its negation, only one side does: the
    side that moves more bytes or, if these are equal, has fewer instructions; of sides that move none the longer one."""
    found, sides = list(with_sides(path)), {}
    for instruction, side in found:
        if side is not None:
            sides.setdefault(side[:2], ([], []))[side[2]].append(instruction.bytes)

    def value(widths):
        return sum(widths), -len(widths) if any(widths) else len(widths)

    is_negated = {key: value(both[1]) > value(both[0]) for key, both in sides.items()}
    return [instruction for instruction, side in found if side is None or side[2] == is_negated[side[:2]]]


# ---- loops ---------------------------------------------------------------------------------------------------


def components(nodes, after):
    """The strongly connected components with a cycle, by Tarjan's algorithm (SIAM Journal on Computing 1(2), 1972)."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter(after(root)))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for following in rest:
                if following not in nodes:
                    continue
                if following not in index:
                    index[following] = low[following] = len(index)
                    stack.append(following)
                    on_stack.add(following)
                    work.append((following, iter(after(following))))
                    break
                if following in on_stack:
                    low[node] = min(low[node], index[following])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part = set()
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        part.add(member)
                        if member == node:
                            break
                    if len(part) > 1 or node in after(node):
                        found.append(part)
    return found


def find_loops(blocks):
    """The innermost loops, and the loops with a loop inside, both in the order of the code. The path around an outer loop goes
    through an inner loop at most once."""
    reached = {number for number, block in enumerate(blocks) if block.before is not None}
    innermost, outer = [], []

    def search(nodes, closed):
        """Adds the loops among `nodes` without the edges `closed`; returns the edges back to their headers."""
        def after(number):
            return [following for following in blocks[number].after if (number, following) not in closed]

        back = frozenset()
        for part in components(nodes, after):
            outside = {following for number in reached - part for following in blocks[number].after} & part
            header = min(outside or part)
            own = frozenset((number, header) for number in part if header in blocks[number].after)
            inside = search(part, closed | own)
            path = best_path(blocks, header, part, closed | own | inside, own, most_bytes)
            if path:
                lean = best_path(blocks, header, part, closed | own | inside, own, fewest_loads)
                (outer if inside else innermost).append(Loop(header, frozenset(part), path, lean))
            back |= own | inside
        return back

    search(reached, frozenset())
    return sorted(innermost, key=lambda loop: loop.header), sorted(outer, key=lambda loop: loop.header)


def innermost_loops(blocks):
    return find_loops(blocks)[0]


def most_bytes(path):
    """Prefers paths with the most bytes of global memory, then of shared memory, then with the fewest instructions."""
    return (bytes_on(path, ("LDG", "STG", "LDGSTS")),
            bytes_on(path, ("LDS", "STS", "LDSM")) + 16 * sum(each.instruction.kind == "HMMA" for each in path), -len(path))


def fewest_loads(path):
    """Prefers paths with the most stored, then with the fewest loaded bytes: a kernel that writes its result, instead of adding
    to it, takes such a path."""
    return (bytes_on(path, ("STG",)), -bytes_on(path, ("LDG", "LDGSTS")), -len(path))


def best_path(blocks, header, part, closed, back, value_of):
    """Once around a loop: of the paths from its header over one of the edges `back`, without the edges `closed`, the path with
    the largest value, which is a sum over its blocks. A path without a call is preferred."""
    order, seen = [], set()

    def visit(number):
        seen.add(number)
        for following in blocks[number].after:
            if following in part and (number, following) not in closed and following not in seen:
                visit(following)
        order.append(number)

    visit(header)
    best = {}
    for number in order:  # the end of every path comes first
        path = executed(blocks[number])
        value = (-blocks[number].has_call, *value_of(path))
        ways = [best[following] for following in blocks[number].after
                if following in best and (number, following) not in closed]
        if (number, header) in back:
            ways.append(((0, 0, 0, 0), []))
        if ways:
            more, rest = max(ways, key=lambda way: way[0])
            best[number] = (tuple(a + b for a, b in zip(value, more)), path + rest)
    return best[header][1] if header in best else []


def cheapest_path(blocks, start, goals, with_goal=False):
    """The path with the fewest instructions from block `start` to the nearest of the blocks `goals`; calls are avoided. Empty
    if there is none."""
    queue, done = [(0, start, None)], {}
    while queue:
        price, number, earlier = heapq.heappop(queue)
        if number in done:
            continue
        done[number] = earlier
        if number in goals:
            numbers = [number] if with_goal else []
            while earlier is not None:
                numbers.append(earlier)
                earlier = done[earlier]
            return [each for number in reversed(numbers) for each in executed(blocks[number])]
        block = blocks[number]
        more = len(block.code) + (NEVER if block.has_call else 0)
        for following in block.after:
            if following not in done:
                heapq.heappush(queue, (price + more, following, number))
    return []


def way_in(blocks, loop):
    """From the kernel's beginning to the loop."""
    return cheapest_path(blocks, 0, {loop.header})


def way_out(blocks, loop):
    """From the loop to the kernel's end."""
    ends = {number for number, block in enumerate(blocks) if block.before is not None and block.code[-1].name == "EXIT"}
    exits = {following for number in loop.blocks for following in blocks[number].after} - loop.blocks
    ways = [path for path in (cheapest_path(blocks, number, ends, with_goal=True) for number in sorted(exits)) if path]
    return min(ways, key=len) if ways else []


def straight_paths(blocks):
    """Two paths through the whole kernel, once through each loop that they enter: the path that moves the most bytes, and the
    path with the fewest instructions. For kernels whose work is in no loop."""
    return [straight_path(blocks, with_most_bytes) for with_most_bytes in (True, False)]


def straight_path(blocks, with_most_bytes):
    reached = {number for number, block in enumerate(blocks) if block.before is not None}
    forward = {number: [following for following in blocks[number].after if following > number] for number in reached}
    best = {}
    for number in sorted(reached, reverse=True):
        path = executed(blocks[number])
        moved = bytes_on(path, ("LDG", "STG", "LDGSTS")), bytes_on(path, ("LDS", "STS", "LDSM"))
        value = (-blocks[number].has_call, *(moved if with_most_bytes else (0, 0)), -len(path))
        ways = [best[following] for following in forward[number] if following in best]
        last = blocks[number].code[-1]
        if last.name == "EXIT" and (not last.predicate or not ways):
            ways.append(((0, 0, 0, 0), []))
        if ways:
            more, rest = max(ways, key=lambda way: way[0])
            best[number] = (tuple(a + b for a, b in zip(value, more)), path + rest)
    return best[0][1] if 0 in best else []
