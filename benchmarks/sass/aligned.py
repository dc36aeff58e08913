"""What is known about predicates when all arrays are aligned, as cudaMalloc aligns them.

A kernel that moves 16 bytes at a time tests the low bits of addresses and has a second path, element by element, for arrays
that are not aligned. The compiler makes branches or predicates of these tests. Here they have the results of aligned arrays:
`x & mask` is 0 for a mask of 1, 3, 7 or 15. All consequences within the kernel are derived; all other predicates are unknown.
"""
import re

MASKS = (0x1, 0x3, 0x7, 0xf)
ZERO = {"RZ", "URZ"}


def strip(text):
    return text.replace(".reuse", "").strip()


def truth(text, known):
    """The value of an operand such as "P0" or "!PT": True, False, or None if it is unknown."""
    text = strip(text)
    negated = text.startswith("!")
    name = text.lstrip("!")
    value = True if name in ("PT", "UPT") else known.get(name)
    return value if value is None else value != negated


def is_zero(text, known):
    text = strip(text)
    return text in ZERO or text == "0" or text == "0x0" or known.get(text) == "zero"


def is_low_bits(instruction, known):
    """Whether it is a LOP3 that computes `x & mask` with a mask of low bits."""
    operands = [strip(text) for text in instruction.operands]
    if instruction.name not in ("LOP3", "ULOP3") or "0xc0" not in operands:
        return False
    return any(re.fullmatch(r"0x[0-9a-f]+", text) and int(text, 16) in MASKS for text in operands[1:-2])


def compare(instruction, known):
    """The result of an ISETP of two values known to be 0, before it is combined with the last operand; None for others."""
    operands = instruction.operands
    if instruction.name not in ("ISETP", "UISETP") or len(operands) < 5:
        return None
    if not (is_zero(operands[2], known) and is_zero(operands[3], known)):
        return None
    return instruction.opcode.split(".")[1] in ("EQ", "GE", "LE")


def combined(opcode, value, other):
    if ".OR" in opcode:
        return True if True in (value, other) else False if (value, other) == (False, False) else None
    if ".AND" in opcode:
        return False if False in (value, other) else True if (value, other) == (True, True) else None
    return None


def look_up(operands, known):
    """The result of a PLOP3, a truth table of three predicates of which some are known; None if it is unknown."""
    inputs = [truth(text, known) for text in operands[2:5]]
    try:
        table = int(strip(operands[5]), 16)
    except (IndexError, ValueError):
        return None
    results = set()
    for case in range(8):
        bits = [bool(case & 4), bool(case & 2), bool(case & 1)]
        if all(value is None or value == bit for value, bit in zip(inputs, bits)):
            results.add(bool(table >> case & 1))
    return results.pop() if len(results) == 1 else None


def step(instruction, known):
    """Updates `known` by the instruction: a register that is known maps to "zero", a predicate to True or False."""
    if not instruction.written:
        return
    values = {}
    operands = instruction.operands
    if is_low_bits(instruction, known):
        for text in operands[:2]:
            name = strip(text)
            if re.fullmatch(r"U?P[0-9]", name):
                values[name] = False
            elif re.fullmatch(r"U?R[0-9]+", name):
                values[name] = "zero"
    elif instruction.name in ("ISETP", "UISETP") and len(operands) >= 5:
        last = operands[-2] if ".EX" in instruction.opcode and len(operands) > 5 else operands[-1]
        values[strip(operands[0])] = combined(instruction.opcode, compare(instruction, known), truth(last, known))
    elif instruction.name in ("PLOP3", "UPLOP3"):
        values[strip(operands[0])] = look_up(operands, known)
    for name in instruction.written:
        known.pop(name, None)
        if instruction.predicate and truth(instruction.predicate, known) is None:
            continue  # may not have run
        if values.get(name) is not None:
            known[name] = values[name]


def runs(instruction, known):
    """Whether its predicate lets the instruction run; None if that is unknown."""
    if not instruction.predicate:
        return True
    value = truth(instruction.predicate, known)
    return None if value is None else value != instruction.negated
