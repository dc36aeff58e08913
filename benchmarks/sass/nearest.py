"""The path through a kernel whose accesses are nearest to a given number of bytes, for code that no loop repeats: a row whose
elements are in a thread's registers, or an array that is too short for the unrolled loop.

The path goes once through each loop that it enters. Branches on the same condition, which is the same comparison of registers
with the same contents, go the same way.
"""
import collections

import loops

MOST_STATES = 2000  # of a block; if there are more, those with the fewest bytes are kept


def definitions(blocks):
    """For each block and register: the addresses of the instructions that may have written the register last before the
    block."""
    reached = {number for number, block in enumerate(blocks) if block.before is not None}
    before = {number: {} for number in reached}
    waiting = sorted(reached)
    while waiting:
        number = waiting.pop()
        after = defined_in(blocks[number].code, before[number])
        for following in blocks[number].after:
            known, grown = before[following], False
            for name, addresses in after.items():
                if not addresses <= known.get(name, frozenset()):
                    known[name], grown = known.get(name, frozenset()) | addresses, True
            if grown:
                waiting.append(following)
    return before


def defined_in(code, before):
    result = dict(before)
    for instruction in code:
        for name in instruction.written:
            own = frozenset([instruction.address])
            result[name] = result.get(name, frozenset()) | own if instruction.predicate else own
    return result


def conditions(blocks):
    """For each block that ends with a branch on a predicate: the condition, which is a comparison of registers with known
    contents, and the predicate's value if the condition holds. A condition may be stored in a bit of a register that is tested
    later."""
    before = definitions(blocks)
    made, bits = {}, collections.defaultdict(list)
    for number in before:
        known = dict(before[number])
        for instruction in blocks[number].code:
            if instruction.name in ("ISETP", "UISETP", "FSETP", "PLOP3"):
                contents = tuple(known.get(name) for name in instruction.read)
                made[instruction.address] = (instruction.opcode, instruction.operands[1:], contents), True
            elif is_bit(instruction, "0xfc") and instruction.predicate and instruction.operands[0] == instruction.operands[1]:
                bits[instruction.operands[1:3]].append((known.get(instruction.predicate), not instruction.negated))
            known = defined_in([instruction], known)
    for number in before:
        for instruction in blocks[number].code:
            kept = bits.get(instruction.operands[2:4], ()) if is_bit(instruction, "0xc0") else ()
            if len(kept) == 1 and len(kept[0][0] or ()) == 1 and min(kept[0][0]) in made:
                condition, value = made[min(kept[0][0])]
                made[instruction.address] = condition, value == kept[0][1]
    result = {}
    for number in before:
        last = blocks[number].code[-1]
        if last.name == "BRA" and last.predicate and len(blocks[number].after) == 2:
            addresses = defined_in(blocks[number].code[:-1], before[number]).get(last.predicate, frozenset())
            if len(addresses) == 1 and min(addresses) in made:
                result[number] = made[min(addresses)]
    counts = collections.Counter(condition for condition, _ in result.values())
    return {number: (condition, value) for number, (condition, value) in result.items()
            if counts[condition] > 1 or is_beyond_a_warp(condition)}


def is_beyond_a_warp(condition):
    """Whether it is a comparison with 31, by which only the first warp goes on to combine the results of all warps."""
    return condition[0].startswith("ISETP.GT") and "0x1f" in condition[1]


def is_bit(instruction, operation):
    """Whether it is a LOP3 that sets (0xfc, "or") or tests (0xc0, "and") a single bit of a register, such as
    "R77, R77, 0x1000, RZ, 0xfc" or "P6, RZ, R77, 0x1000, RZ, 0xc0"."""
    mask = instruction.operands[-4] if len(instruction.operands) >= 5 else ""
    return (instruction.name == "LOP3" and instruction.operands[-2] == operation and mask.startswith("0x")
            and int(mask, 16).bit_count() == 1)


def through(blocks, wanted, access_count, has_others=False):
    """From the kernel's beginning to its end: see nearest_path()."""
    # The last round of a loop may leave it by a call of code at its end, which is no edge here: so a back edge counts as an end.
    return nearest_path(blocks, 0, range(len(blocks)), lambda _, forward: not forward, wanted, access_count, has_others)


def around(blocks, loop, wanted, access_count, has_others=False):
    """Once around a loop that has loops inside: see nearest_path()."""
    return nearest_path(blocks, loop.header, loop.blocks, lambda number, _: loop.header in blocks[number].after, wanted,
                        access_count, has_others) or loop.path


def nearest_path(blocks, start, part, is_end, wanted, access_count, has_others):
    """Of the paths through the blocks `part`, from `start` to a block that is an end: the path whose bytes of global memory are
    nearest to `wanted`; of equally near ones, without calls, then with the fewest accesses, then with the most instructions.
    With `has_others`, the path of a warp that is not the first of its thread block. A list of loops.Executed, empty if there is
    none."""
    condition_of = conditions(blocks)
    place = {number: i for i, number in enumerate(in_order(blocks, start, part))}
    states = {start: {(0, frozenset()): ((0, 0, 0), None)}}
    best = None
    for number in place:
        if number not in states:
            continue
        block, path = blocks[number], loops.executed(blocks[number])
        moved = loops.bytes_on(path, ("LDG", "STG", "LDGSTS"))
        cost = (block.has_call, access_count(path), -len(path))
        forward = [following for following in block.after if place.get(following, 0) > place[number]]
        here = sorted(states.pop(number).items(), key=lambda each: each[0][0])
        for (total, facts), (price, way) in here[:MOST_STATES]:
            if total > max(here[0][0][0], 2 * wanted):
                break
            total += moved
            price, way = tuple(a + b for a, b in zip(price, cost)), (number, way)
            if is_end(number, forward):
                value = (round(abs(total - wanted) / (wanted or 1), 1), *price)
                if best is None or value < best[0]:
                    best = (value, way)
            for following in forward:
                condition, value = condition_of.get(number, (None, True))
                is_true = is_taken(following, number) != block.code[-1].negated
                if has_others and condition and is_beyond_a_warp(condition) and is_true != value:
                    continue
                known = with_fact(facts, condition, is_true == value)
                if known is None:
                    continue
                places = states.setdefault(following, {})
                if (total, known) not in places or price < places[total, known][0]:
                    places[total, known] = (price, way)
    order, way = [], best[1] if best else None
    while way:
        order.append(way[0])
        way = way[1]
    return [each for number in reversed(order) for each in loops.executed(blocks[number])]


def in_order(blocks, start, part):
    """The blocks that are reached from `start` within `part`, in topological order except for back edges."""
    order, seen, waiting = [], {start}, [(start, iter(blocks[start].after))]
    while waiting:
        number, rest = waiting[-1]
        following = next((each for each in rest if each in part and each not in seen), None)
        if following is None:
            order.append(number)
            waiting.pop()
        else:
            seen.add(following)
            waiting.append((following, iter(blocks[following].after)))
    return order[::-1]


def with_fact(facts, condition, value):
    """`facts` with the condition's value; None if they contain the opposite."""
    if condition is None:
        return facts
    return None if (condition, not value) in facts else facts | {(condition, value)}


def is_taken(following, number):
    """Whether the branch at the end of block `number` was taken, as `following` is not the next block in the code."""
    return following != number + 1
