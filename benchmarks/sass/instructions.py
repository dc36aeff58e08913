"""SASS as text: instructions, the kind of work of each, and the registers that it reads and writes.

The names are from the table "Instruction Set Reference" in NVIDIA's CUDA Binary Utilities, for compute capabilities 8.x and
9.0.
"""
import dataclasses
import functools
import re

LINE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@(!?)(U?P[0-9T]) )?\s*([A-Z][A-Z0-9_.]*)\s*(.*?)\s*;")
REGISTER = re.compile(r"(?<![A-Za-z0-9_.])(U?)(R|P)([0-9]+)(\.64)?")
TARGET = re.compile(r"(0x[0-9a-f]+)\s*$")

# Bytes of a lane's access, by the last of these parts in the opcode; 4 without one.
WIDTHS = {"U8": 1, "S8": 1, "8": 1, "U16": 2, "S16": 2, "16": 2, "64": 8, "128": 16}


@dataclasses.dataclass(frozen=True)
class Instruction:
    address: int
    predicate: str  # "P0", or "" for none
    negated: bool  # whether it runs if the predicate is false
    opcode: str  # with its modifiers: "LDG.E.128"
    operands: tuple  # texts

    @functools.cached_property
    def name(self):
        return self.opcode.split(".")[0]

    @functools.cached_property
    def kind(self):
        return kind_of(self)

    @functools.cached_property
    def bytes(self):
        """The bytes of global, shared or local memory that a lane accesses; 0 if it is no access."""
        if self.kind not in MEMORY_KINDS:
            return 0
        if self.name == "LDSM":  # four 8 x 8 matrices of 16-bit values are 16 bytes of each lane
            return 4 * int(self.opcode.split(".")[-1]) if self.opcode.split(".")[-1] in "124" else 4
        width = 4
        for part in self.opcode.split(".")[1:]:
            width = WIDTHS.get(part, width)
        return width

    @functools.cached_property
    def target(self):
        """The address that a branch or call goes to; None if the text does not name it."""
        found = TARGET.search(self.operands[-1]) if self.operands else None
        return int(found[1], 16) if found else None

    @functools.cached_property
    def is_conditional(self):
        """Whether it is a branch that may fall through: one with a predicate, before it or as its first operand, or with
        .DIV."""
        return bool(self.predicate) or self.name == "BRA" and (
            ".DIV" in self.opcode or bool(self.operands) and bool(re.match(r"!?U?P[0-9]", self.operands[0])))

    @functools.cached_property
    def written(self):
        return destinations(self)

    @functools.cached_property
    def read(self):
        return sources(self)


def parse_line(line):
    """The instruction in a line of `cuobjdump -sass`; None for other lines."""
    match = LINE.match(line)
    if not match:
        return None
    address, negated, predicate, opcode, rest = match.groups()
    if predicate in ("PT", "UPT") and not negated:
        predicate = None
    return Instruction(int(address, 16), predicate or "", bool(negated), opcode,
                       tuple(part.strip() for part in rest.split(",")) if rest else ())


# ---- kinds ---------------------------------------------------------------------------------------------------

MEMORY_KINDS = ("LDG", "STG", "LDGSTS", "LDS", "STS", "LDSM", "LDL", "STL", "ATOM", "RED")
KINDS = {
    "FFMA": "FFMA", "FADD": "FADD", "FMUL": "FMUL", "FADD32I": "FADD", "FMUL32I": "FMUL", "FFMA32I": "FFMA",
    "DFMA": "F64", "DADD": "F64", "DMUL": "F64", "DSETP": "F64", "DMNMX": "F64",
    "HFMA2": "HFMA2", "HADD2": "HFMA2", "HMUL2": "HFMA2", "HSETP2": "HFMA2", "HMNMX2": "HFMA2", "HSET2": "HFMA2",
    "HMMA": "HMMA", "IMMA": "HMMA", "DMMA": "HMMA", "HGMMA": "HGMMA",
    "MUFU": "MUFU",
    "F2F": "convert", "F2I": "convert", "I2F": "convert", "FRND": "convert", "F2FP": "pack", "I2FP": "pack",
    "LDG": "LDG", "LD": "LDG", "STG": "STG", "ST": "STG", "LDGSTS": "LDGSTS", "LDS": "LDS", "STS": "STS", "LDSM": "LDSM",
    "LDL": "LDL", "STL": "STL", "ATOMG": "ATOM", "ATOM": "ATOM", "ATOMS": "ATOM", "RED": "RED",
    "LDC": "constant", "LDCU": "constant", "ULDC": "constant",
    "SHFL": "shuffle", "VOTE": "shuffle", "VOTEU": "shuffle", "MATCH": "shuffle", "REDUX": "shuffle", "CREDUX": "shuffle",
    "BAR": "barrier", "WARPSYNC": "barrier", "DEPBAR": "barrier", "LDGDEPBAR": "barrier", "MEMBAR": "barrier",
    "ERRBAR": "barrier", "CGAERRBAR": "barrier", "CCTL": "barrier", "ENDCOLLECTIVE": "barrier", "ARRIVES": "barrier",
    "SYNCS": "barrier", "FENCE": "barrier", "WARPGROUP": "barrier", "UTMALDG": "LDGSTS",
    "BRA": "branch", "BRX": "branch", "JMP": "branch", "CALL": "branch", "RET": "branch", "EXIT": "branch",
    "BSSY": "branch", "BSYNC": "branch", "BREAK": "branch", "YIELD": "branch", "NANOSLEEP": "branch", "KILL": "branch",
    "BMOV": "branch", "JMX": "branch", "BPT": "branch", "NOP": "branch",
    "FSEL": "compare", "FSETP": "compare", "FSET": "compare", "FMNMX": "compare", "FCHK": "compare",
}


def kind_of(instruction):
    name = instruction.name
    if name == "IMAD":  # IMAD.MOV moves a register, on the multiplier instead of the adder
        return "move" if ".MOV" in instruction.opcode else "integer"
    if name in ("MOV", "CS2R", "S2R", "S2UR", "R2UR", "UMOV", "P2R", "R2P", "MOV32I", "PRMT", "UPRMT"):
        return "move"
    return KINDS.get(name, "integer")


ALL_KINDS = sorted(set(KINDS.values()) | {"move", "integer"})


# ---- registers -----------------------------------------------------------------------------------------------

NO_DESTINATION = ("STG", "ST", "STS", "STL", "RED", "BRA", "BRX", "CALL", "RET", "EXIT", "BSSY", "BSYNC", "BREAK", "BAR",
                  "WARPSYNC", "DEPBAR", "LDGDEPBAR", "MEMBAR", "ERRBAR", "CCTL", "NOP", "YIELD", "LDGSTS", "CGAERRBAR",
                  "ENDCOLLECTIVE", "NANOSLEEP", "WARPGROUP", "SYNCS", "ARRIVES", "UTMALDG")


def registers_in(text, width=1):
    """The names of the registers in an operand, which is a register or a memory address; `width` consecutive ones for each."""
    names = []
    for uniform, kind, number, pair in REGISTER.findall(text):
        count = 1 if kind == "P" else max(width, 2 if pair else 1)
        names += [f"{uniform}{kind}{int(number) + i}" for i in range(count)]
    return names


def result_width(instruction):
    """The number of registers in the result."""
    name, opcode = instruction.name, instruction.opcode
    if instruction.bytes and name != "LDSM":
        return max(1, instruction.bytes // 4)
    if name == "LDSM":
        return instruction.bytes // 4
    if name in ("HMMA", "IMMA"):
        return 2 if ".F16" in opcode and ".F32" not in opcode else 4
    wide = name in ("DFMA", "DADD", "DMUL") or opcode.startswith(("F2F.F64", "I2F.F64")) or opcode.endswith(".64")
    return 2 if wide or ".WIDE" in opcode or (name == "CS2R" and ".32" not in opcode) else 1


def destinations(instruction):
    if instruction.name in NO_DESTINATION or not instruction.operands:
        return ()
    first = instruction.operands[0]
    names = registers_in(first, result_width(instruction))
    # Predicates before the sources are results too: the carry of IADD3, the second result of ISETP, the result of FCHK.
    for text in instruction.operands[1:3]:
        if re.fullmatch(r"U?P[0-9]", text):
            names.append(text)
        else:
            break
    return tuple(names)


def sources(instruction):
    name = instruction.name
    names = [] if not instruction.predicate else [instruction.predicate]
    operands = instruction.operands if name in NO_DESTINATION else instruction.operands[1:]
    wide = 2 if name in ("HMMA", "IMMA", "DFMA", "DADD", "DMUL", "DSETP") else 1
    for i, text in enumerate(operands):
        stored = instruction.kind in ("STG", "STS", "STL") and i == len(operands) - 1
        names += registers_in(text, max(1, instruction.bytes // 4) if stored else
                              4 if name == "HMMA" and i == 2 else wide)
    return tuple(names)
