"""Numbers as they are written in a text, and the equations among them: 4 x 25 = 100, (2,064 + 16) / 4 KiB = 520 KiB. For numbers_test.py."""
import math
import re

UNITS = {"%": 0.01, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "million": 1e6,
         "billion": 1e9, "Mbit": 1e6, "Gbit": 1e9, "ns": 1e-9, "us": 1e-6, "microseconds": 1e-6, "ms": 1e-3, "s": 1, "MHz": 1e6,
         "GHz": 1e9, "MFLOP": 1e6, "GFLOP": 1e9, "TFLOP": 1e12, "points": 0.01, "times": 1}
SHARES = {"%", "million", "billion"}  # without one of these the number is a different one
FUNCTIONS = {"sqrt": math.sqrt, "log2": math.log2, "exp": math.exp, "ceil": math.ceil, "floor": math.floor}
DIGITS = r"0x[0-9a-f]+|\d+(?:,\d{3}(?!\d))*(?:\.\d+)?(?:e[+-]?\d+)?(?:\^-?\d+)?"
UNIT = "|".join(UNITS)
# Not within a name, such as f32, x_4 or GPT-2. In "3 to 5%" the first number is in percent as well.
NUMBER = re.compile(rf"(?<![\w.^])(?<![A-Za-z]-)({DIGITS})(?![\d^])"
                    rf"(?: ?({UNIT})(?:/s)?(?!\w)|(?= to [\d.,]+ ?({UNIT})(?!\w)))?")
# In a command or an output a number may touch its neighbours: 24GB, --ranks=8.
LOOSE_NUMBER = re.compile(rf"(?<![\w.])({DIGITS})(?:\s?({UNIT})(?!\w))?()")
TOKEN = re.compile(rf"{NUMBER.pattern}|[A-Za-z]{{2,}}(?:-[A-Za-z]+)+|[A-Za-z_]\w*|\S")
WORD = re.compile(rf"(?!(?:and|or|to|of|by|{'|'.join(FUNCTIONS)})$)[A-Za-z-]{{2,}}|a|s")
# Tokens before or after a side that show that it is only a part: a sign, a variable, a function.
MORE = re.compile(rf"[-+*/^(|]|[b-rt-zA-Z]|{'|'.join(FUNCTIONS)}")


class Number:
    """A number as it is written: its value, its unit, half a unit of its last digit."""

    def __init__(self, match):
        self.text, self.start, self.unit = match[0], match.start(), match[2] or match[3] or ""
        base, _, power = match[1].replace(",", "").partition("^")
        self.value = float(int(base, 16)) if base.startswith("0x") else float(base) ** int(power or 1)
        mantissa, _, exponent = base.partition("e")
        self.half = 0 if power else 0.5 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2])) * (1 + 1e-6)
        self.small = match[1].isdigit() and self.value <= 12 and not self.unit
        self.power = bool(power) and base in ("2", "10")
        # One digit, or a whole number of two, is easily the rounding of something else.
        self.exact = len(re.sub(r"\D", "", mantissa).strip("0")) < 2 or not self.unit and len(match[1]) < 3
        self.short = len(match[1]) < 3

    def is_rounded(self, exact, unit="", half=None):
        """Whether it is `exact`, in that unit, rounded. One side may lack the unit: 95.80 for 95.80%, but not 95.80% for 95.80."""
        factors = {UNITS.get(self.unit, 1) / UNITS.get(unit, 1)}
        if not unit and self.unit not in SHARES or not self.unit and (unit not in SHARES or unit == "%" and not self.short):
            factors.add(1)
        half = max(self.half if half is None else half, 1e-9 * self.value)
        return any(abs(exact / factor - self.value) <= half for factor in factors)

    def is_among(self, known):
        """Whether it is one of the known numbers. With a unit, it is not a known number of one or two digits without unit."""
        return any(self.is_rounded(other.value, other.unit, 0 if self.exact else None) for other in known
                   if other.unit or not self.unit or not (self.short and other.short))


class Expression:
    """Numbers, + - * x /, brackets and FUNCTIONS, from tokens[place]. Words between a number and a sign name what is counted."""

    def __init__(self, tokens, place, with_units):
        self.tokens, self.place, self.with_units, self.numbers = tokens, place, with_units, []
        self.value = self.sum()

    def peek(self):
        return self.tokens[self.place][0] if self.place < len(self.tokens) else ""

    def take(self, *texts):
        found = self.peek() if self.peek() in texts else None
        self.place += found is not None
        return found

    def sum(self):
        value = self.product()
        while sign := self.take("+", "-"):
            value += self.product() * (1 if sign == "+" else -1)
        return value

    def product(self):
        value = self.factor()
        while (sign := self.take("x", "*", "/")) or self.peek() in ("(", *FUNCTIONS) and not self.tokens[self.place - 1][2]:
            value = value / self.factor() if sign == "/" else value * self.factor()
        return value

    def factor(self):
        function = self.take(*FUNCTIONS)
        if self.take("("):
            value = self.sum()
            if not self.take(")"):
                raise ValueError("a bracket is open")
            value, unit = FUNCTIONS[function](value) if function else value, self.take(*UNITS)
        elif self.place < len(self.tokens) and self.tokens[self.place][1]:
            self.numbers.append(Number(self.tokens[self.place]))
            self.place += 1
            value, unit = self.numbers[-1].value, self.numbers[-1].unit
        else:
            raise ValueError("no number")
        end = self.place
        while end < len(self.tokens) and WORD.fullmatch(self.tokens[end][0]):
            end += 1
        if end < len(self.tokens) and self.tokens[end][0] in "+-x*/=)":
            self.place = end
        return value * UNITS.get(unit, 1) if self.with_units else value


class Side:
    """A side of an equation, from tokens[first]: its values with and without units, and its numbers."""

    def __init__(self, tokens, first):
        with_units, plain = Expression(tokens, first, True), Expression(tokens, first, False)
        self.values, self.numbers, self.end = (with_units.value, plain.value), plain.numbers, plain.place
        self.text = " ".join(tokens[first].string[tokens[first].start():tokens[self.end - 1].end()].split())
        self.single = self.numbers[0] if len(self.numbers) == 1 and self.numbers[0].value == plain.value else None

    def makes(self, other):
        return any(math.isclose(one, two, rel_tol=1e-9) for one in self.values for two in other.values)

    def equals(self, other):
        """Exactly, or after the rounding of one of them."""
        return self.makes(other) or any(one.single and any(map(one.single.is_rounded, two.values))
                                        for one, two in ((self, other), (other, self)))


def side(tokens, first):
    try:
        return Side(tokens, first)
    except (ValueError, ZeroDivisionError):
        return None


def equations(text):
    """(left, right) of each equation of the text whose sides are nothing but numbers."""
    tokens = list(TOKEN.finditer(text))
    for equal in (place for place, token in enumerate(tokens) if token[0] == "="):
        lefts = ((first, side(tokens, first)) for first in range(max(0, equal - 60), equal))
        first, left = next(((first, left) for first, left in lefts if left and left.end == equal), (0, None))
        right = side(tokens, equal + 1)
        if not left or not right:
            continue
        before, after = tokens[first - 1] if first else None, tokens[right.end] if right.end < len(tokens) else None
        called = before and before.end() == tokens[first].start() and before[0][-1].isalnum()  # relu(1 - 2) = 0
        if called or before and MORE.fullmatch(before[0]):
            continue
        if not after or tokens[right.end - 1][2] or not MORE.fullmatch(after[0]):
            yield left, right
