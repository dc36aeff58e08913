#!/usr/bin/env python3
"""Tests the numbers in the text of the lessons, in their folded answers and in questions.json.

  tests/lessons/numbers_test.py [FOLDER OF A LESSON...]

A number of the text is accounted for if the page has it, at the precision at which the text writes it, in a command, a quoted
output, a table between markers or an excerpt; or if it is worked out:

  4 x 25 = 100                              in the text: both sides are computed, and one must be of numbers accounted for;
  <!-- number: 22.75 = 0.0819 / 0.0036 -->  in a comment, where the working would be in the way;
  <!-- number: 640, 40 in scripts/x.py -->  in a file of the repository, which must have these numbers;
  <!-- cited: a data sheet: 3.35, 989 -->   in a source outside of it, which the text names.

No claims, and not looked at: whole numbers to 12 without "times", "%" or another unit of UNITS; numbers of a name (f32, H100, x_4,
`--lr 0.1`, lesson 20, 16 bits, a paper's year); links; the whole numbers that a question supposes ("Predict", a summary, "ask"),
and its wrong choices. What a question supposes, and flags in the text, answers may use. A wrong equation fails in any case.
"""
import json
import math
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNITS = {"%": 0.01, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "million": 1e6,
         "billion": 1e9, "Mbit": 1e6, "Gbit": 1e9, "ns": 1e-9, "us": 1e-6, "microseconds": 1e-6, "ms": 1e-3, "s": 1, "MHz": 1e6,
         "GHz": 1e9, "MFLOP": 1e6, "GFLOP": 1e9, "TFLOP": 1e12, "points": 0.01, "times": 1}
SHARES = ("%", "million", "billion")  # of these a number without a unit is another number
POWER = re.compile(r"(?:2|10)\^-?\d+")
FUNCTIONS = {"sqrt": math.sqrt, "log2": math.log2, "ln": math.log, "exp": math.exp, "ceil": math.ceil, "floor": math.floor}
DIGITS = r"0x[0-9a-f]+|\d+(?:,\d{3}(?!\d))*(?:\.\d+)?(?:e[+-]?\d+)?(?:\^-?\d+)?"
NUMBER = re.compile(rf"(?<![\w.^])(?<![A-Za-z]-)({DIGITS})(?![\d^])(?: ?(%|{'|'.join(list(UNITS)[1:])})(?:/s)?(?!\w)|(?= to [\d.,]+ ?(%|{'|'.join(list(UNITS)[1:])})(?!\w)))?")
NAMES = re.compile(r"\]\([^)]*\)|https?://\S+|[Ll]essons? \d+(?:(?:, | and | to )\d+)*|\b(?:8|16|32|64)(?:\s|-)bits?\b|"
                   r"\b(?:al\.|[A-Z][a-z]+),?\s\(?(?:19|20)\d\d\b|[a-z]\w*/[\w./-]*|^#+ \d+\.|^\d+\. ", re.MULTILINE)
SOURCE = re.compile(rf"(?<![\w.])({DIGITS})(?:\s?(%|{'|'.join(list(UNITS)[1:])})(?!\w))?")
STRING = r'"(?:[^"\\]|\\.)*"'
NO_CLAIM = re.compile(rf'"find": {STRING}|"text": {STRING},\s*"right": false')
GIVEN = re.compile(rf'\*\*Predict\.\*\*.*?\n\n|<summary>.*?</summary>|"ask": {STRING}', re.DOTALL)
FENCE = re.compile(r"^```(\S*).*?^```$", re.DOTALL | re.MULTILINE)
TABLE = re.compile(r"<!-- figures: .*?<!-- end of figures -->|<!-- sass: .*?-->\n(?:\|.*\n)*|^    \S.*", re.DOTALL | re.MULTILINE)
LESSONS = sorted((ROOT / "lessons").glob("[0-9][0-9]-*"))
COMMENT = re.compile(r"<!-- (\w+): (.*?) -->", re.DOTALL)


def value_of(digits):
    base, _, power = digits.replace(",", "").partition("^")
    return float(int(base, 16)) if base.startswith("0x") else float(base) ** int(power or 1)


class Number:
    """A number as it is written: its value, half of its last digit, its unit."""

    def __init__(self, match, before=""):
        self.text, self.unit, self.start, self.end = match[0], match[2] or match[3] or "", match.start(), match.end()
        self.value = value_of(match[1])
        base, _, exponent = match[1].replace(",", "").partition("e")
        digits = len(base.partition(".")[2])
        if re.search(r"\b([Aa]bout|some|nearly|almost|million|billion)\s$", before) and "." not in base:
            digits = len(base.rstrip("0")) - len(base)  # "about 30,000"
        self.half = 0.5 * 10.0 ** (int(exponent or 0) - digits) * (1 + 1e-6)
        self.small = self.value <= 12 and match[1].isdigit() and not self.unit or bool(POWER.fullmatch(match[1]))

    def is_whole(self):
        return self.value == int(self.value) and self.unit not in ("%", "times")

    def is_rounded(self, exact, unit=""):
        """Whether it is `exact`, with that unit, rounded. The unit may be missing on one side."""
        factors = {UNITS.get(self.unit, 1) / UNITS.get(unit, 1)} | ({1} if "" in (unit, self.unit) and self.unit not in SHARES and unit not in SHARES else set())
        return any(abs(exact / factor - self.value) <= self.half for factor in factors)


def numbers_in(text):
    return [Number(match, text[max(0, match.start() - 10):match.start()]) for match in NUMBER.finditer(text)]


def blank(match):
    """Blanks in place of what matches, so that all else stays in its line."""
    return re.sub(r"[^\n]", " ", match[0])


TOKEN = re.compile(rf"{NUMBER.pattern}|[A-Za-z]{{2,}}(?:-[A-Za-z]+)+|[A-Za-z_]\w*|\S")
WORD = re.compile(rf"(?!(?:and|or|to|of|by|{'|'.join(FUNCTIONS)})$)[A-Za-z-]{{2,}}|a|s")


class Expression:
    """Numbers, + - * x /, brackets and FUNCTIONS, from tokens[place]; words after a number say what it counts."""

    def __init__(self, tokens, place, units):
        self.tokens, self.place, self.units, self.numbers = tokens, place, units, []
        self.value = self.sum()

    def peek(self):
        return self.tokens[self.place][0] if self.place < len(self.tokens) else ""

    def take(self, *texts):
        if self.peek() not in texts:
            return None
        self.place += 1
        return self.tokens[self.place - 1][0]

    def sum(self):
        value = self.product()
        while sign := self.take("+", "-"):
            value += self.product() * (1 if sign == "+" else -1)
        return value

    def product(self):
        value = self.atom()
        while (sign := self.take("x", "*", "/")) or self.peek() in ("(", *FUNCTIONS) and not self.tokens[self.place - 1][2]:
            value = value / self.atom() if sign == "/" else value * self.atom()
        return value

    def atom(self):
        function = self.take(*FUNCTIONS)
        if self.take("("):
            value = self.sum()
            if not self.take(")"):
                raise ValueError("a bracket is open")
            unit = self.take(*UNITS)
            self.skip_words()
            return FUNCTIONS[function](value) if function else value * UNITS[unit] if unit and self.units else value
        match = self.tokens[self.place] if self.place < len(self.tokens) else None
        if not match or not match[1]:
            raise ValueError("no number")
        number = Number(match)
        self.numbers.append(number)
        self.place += 1
        self.skip_words()
        return number.value * (UNITS.get(number.unit, 1) if self.units else 1)

    def skip_words(self):
        """Words before a sign say what is counted: 157 updates an epoch x 90."""
        end = self.place
        while end < len(self.tokens) and WORD.fullmatch(self.tokens[end][0]):
            end += 1
        if end < len(self.tokens) and self.tokens[end][0] in "+-x*/=)":
            self.place = end


class Side:
    """A side of an equation, from tokens[first]: what it is worth with its units and without them, and its numbers."""

    def __init__(self, tokens, first):
        with_units, plain = Expression(tokens, first, True), Expression(tokens, first, False)
        self.tokens, self.first = tokens, first
        self.values, self.numbers, self.end = (with_units.value, plain.value), plain.numbers, plain.place
        self.single = len(self.numbers) == 1 and self.numbers[0].value == plain.value

    def text(self):
        return self.tokens[self.first].string[self.tokens[self.first].start():self.tokens[self.end - 1].end()]

    def equals(self, other):
        pairs = [(one, two) for one, two in ((self, other), (other, self)) if one.single]
        return math.isclose(self.values[0], other.values[0], rel_tol=1e-9) or \
            any(one.numbers[0].is_rounded(value) for one, two in pairs for value in two.values)


def side(tokens, first):
    try:
        return Side(tokens, first)
    except (ValueError, ZeroDivisionError):
        return None


def equations(text):
    """(left, right) of each equation of the text whose sides are nothing but numbers."""
    tokens = list(TOKEN.finditer(text))
    unknown = re.compile(rf"[-+*/^(|]|x|[b-rt-zA-Z]|{'|'.join(FUNCTIONS)}")  # beside a side, this is a part of it
    for equal in (place for place, token in enumerate(tokens) if token[0] == "="):
        sides = ((first, side(tokens, first)) for first in range(max(0, equal - 60), equal))
        first, left = next(((first, left) for first, left in sides if left and left.end == equal), (0, None))
        right = side(tokens, equal + 1)
        before = tokens[first - 1] if first else None
        called = before and before.end() == tokens[first].start() and before[0][-1].isalnum()  # relu(1 - 2) = 0
        if left and right and not (before and unknown.fullmatch(before[0])) and not called:
            if right.end == len(tokens) or tokens[right.end - 1][2] or not unknown.fullmatch(tokens[right.end][0]):
                yield left, right


class Lesson:
    """The numbers that a lesson's folder has and those that its text claims; `problems` says which of these are not among the former."""

    def __init__(self, folder):
        self.known, self.problems, derived = [], [], []
        page = (folder / "README.md").read_text()
        for match in COMMENT.finditer(page):
            derived += self.comment(match[1], " ".join(match[2].split()), f"{folder.name}/README.md:{line_of(page, match.start())}")
        texts = {folder / "README.md": self.without_sources(page)}
        if (folder / "questions.json").exists():
            texts[folder / "questions.json"] = NO_CLAIM.sub(blank, (folder / "questions.json").read_text())
        self.claims = claims = []
        for path, text in texts.items():
            given = [match.span() for match in GIVEN.finditer(text)]
            text = NAMES.sub(blank, re.sub(r"`[^`]*`", self.code, text))
            text = re.sub(r"^\|.*", lambda row: row[0].replace("|", ";"), text, flags=re.MULTILINE)
            numbers = {number.start: number for number in numbers_in(text)}
            for number in numbers.values():
                number.place, number.worked_out = f"{folder.name}/{path.name}:{line_of(text, number.start)}", False
                number.given = number.is_whole() and any(first <= number.start < end for first, end in given)
                self.known += [(number.value, number.unit, number.text)] if number.given else []
            claims += numbers.values()
            for left, right in equations(text):
                for part in (left, right):
                    part.numbers = [numbers.get(number.start, number) for number in part.numbers]
                derived.append((left, right, next(number.place for number in left.numbers if hasattr(number, "place"))))
        self.work_out(derived)
        self.problems += [f"{number.place}: {number.text} is not on the page; nearest: {self.nearest(number)}" for number in claims
                          if not (number.small or number.given or number.worked_out or self.has(number))]

    def comment(self, kind, text, place):
        """The equations of a comment; learns the numbers of one that cites."""
        listed, _, file = text.rpartition(" in ")
        if kind in ("cited", "supposed"):
            self.learn(text.rpartition(": ")[2])
        elif kind == "number" and "=" in text:
            found = [(left, right, place) for left, right in equations(text)]
            self.problems += [] if len(found) == text.count("=") else [f"{place}: {text}: cannot be computed"]
            return found
        elif kind == "number":
            there = Lesson.__new__(Lesson)
            there.known = []
            there.learn((ROOT / file).read_text().replace("'", "") if (ROOT / file).is_file() else "")
            self.problems += [f"{place}: {number.text} is not in {file}" for number in numbers_in(listed)
                              if number.value not in [value for value, _, _ in there.known]]
            self.learn(listed)
        return []

    def without_sources(self, text):
        """The page without its commands, outputs, tables and excerpts, whose numbers it learns."""
        for pattern in (FENCE, TABLE):
            for match in pattern.finditer(text):
                self.learn(match[0], command=match[0].startswith("```sh"))
            text = pattern.sub(blank, text)
        return COMMENT.sub(blank, text)

    def code(self, match):
        """Code in the text is a name or a command, unless it is nothing but numbers and signs."""
        if "--" in match[0]:
            self.learn(match[0], command=True)
        return blank(match) if re.search(r"[A-Za-z]{2}|_", match[0]) else match[0].replace("`", " ")

    def learn(self, text, command=False):
        for match in SOURCE.finditer(text.replace(",", " ") if command else text):
            self.known.append((value_of(match[1]), match[2] or "", match[0]))

    def has(self, number):
        """What is likely by chance does not count: one digit that is a rounding, one or two with a unit that the page does not show."""
        digits = len(re.sub(r"e.*|\D", "", number.text).strip("0"))
        written = len(number.text.split()[0])
        return any(number.is_rounded(value, unit) for value, unit, text in self.known
                   if (digits > 1 or math.isclose(value * UNITS.get(unit, 1), number.value * UNITS.get(number.unit, 1)) or value == number.value)
                   and (unit or not number.unit or written > 2 or len(text) > 2))

    def nearest(self, number):
        apart = sorted((abs(math.log(value / number.value)), text) for value, _, text in self.known if value * number.value > 0)
        return ", ".join(dict.fromkeys(text for _, text in apart[:8])) or "none"

    def work_out(self, derived):
        """Marks the numbers of equations that hold and have a side of numbers accounted for, until there are no more of them."""
        self.problems += [f"{place}: {left.text()} = {right.text()}: the left side is {left.values[1]:.8g}"
                          for left, right, place in derived if not left.equals(right)]
        open_ones = [(left, right) for left, right, _ in derived if left.equals(right)]
        while solved := [pair for pair in open_ones if any(self.accounted(part) for part in pair)]:
            open_ones = [pair for pair in open_ones if pair not in solved]
            for number in (number for pair in solved for part in pair for number in part.numbers):
                number.worked_out = True
                self.known.append((number.value, number.unit, number.text))
        self.problems += [f"{place}: {left.text()} = {right.text()}: neither side is on the page" for left, right, place in derived
                          if (left, right) in open_ones]

    def accounted(self, part):
        """Whether all its numbers are on the page. A small number alone says nothing."""
        return all(number.small or self.has(number) for number in part.numbers) and not (part.single and part.numbers[0].text.isdigit() and part.numbers[0].small)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def problems(folder):
    return Lesson(pathlib.Path(folder)).problems


class SelfTest(unittest.TestCase):
    pass


if __name__ == "__main__":
    found = [problem for folder in sys.argv[1:] or LESSONS for problem in problems(folder)]
    print("\n".join(found))
