#!/usr/bin/env python3
"""Tests the numbers in the text of the lessons, in their folded answers and in questions.json.

  tests/lessons/numbers_test.py              all lessons
  tests/lessons/numbers_test.py FOLDER...    prints what is wrong in these

A number of the text is accounted for if the page has it, at the precision of the text, in a command, a quoted output, a
table between markers or an excerpt; or if it is worked out:

  4 x 25 = 100                              in the text: both sides are computed, and the numbers of one side must be accounted for;
  <!-- number: 22.8 = 0.082 / 0.0036 -->    in a comment, where the working would be in the way;
  <!-- number: 640, 40 in scripts/x.py -->  in a file of the repository, which must have these numbers;
  <!-- cited: a data sheet: 3.35, 989 -->   in an external source, or a time of one machine, as the text says;
  <!-- supposed: 90 MB, 1000 -->            an assumption of an example.

Not checked, as they are no claims: whole numbers to 12 without "times", "%" or another unit; powers of 2 and 10; numbers of a name (f32,
x_4, `--lr 0.1`, lesson 20, 16 bits, a paper's year); links; the whole numbers that a question assumes ("Predict", a summary,
"ask"), and its wrong choices. Answers may use what a question assumes. An equation that does not hold fails in any case.
"""
import math
import pathlib
import re
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
from equations import LOOSE_NUMBER, NUMBER, Number, equations  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
STRING = r'"(?:[^"\\]|\\.)*"'
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
TABLE = re.compile(r"<!-- figures: .*?<!-- end of figures -->|<!-- sass: [^\n]*\n(?:\|[^\n]*\n)*|^    \S[^\n]*", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"<!-- (\w+): (.*?) -->", re.DOTALL)
SUPPOSED = re.compile(rf'\*\*Predict\.\*\*.*?\n\n|<summary>.*?</summary>|"ask": {STRING}', re.DOTALL)
NO_CLAIM = re.compile(rf'"find": {STRING}|"text": {STRING},\s*"right": false')
NAME = re.compile(r"\]\([^)]*\)|https?://\S+|[a-z]\w*/[\w./-]*|^#+ \d+\.|^\d+\. |[Ll]essons? \d+(?:(?:, | and | to )\d+)*|"
                  r"\b(?:8|16|32|64)(?:\s|-)bits?\b|(?:\bal\.|\b[A-Z]\w+|\x22,),?\s\(?(?:19|20)\d\d\b", re.MULTILINE)


def blank(match):
    """Blanks in place of the match, so that everything else keeps its line."""
    return re.sub(r"[^\n]", " ", match[0])


class Lesson:
    """A lesson's folder: the numbers that its page has, and the problems with the numbers that its text claims."""

    def __init__(self, folder):
        self.known, self.problems, self.claims = [], [], []
        page = (folder / "README.md").read_text()
        texts = {folder / "README.md": COMMENT.sub(blank, self.without_sources(page))}
        if (folder / "questions.json").exists():
            texts[folder / "questions.json"] = NO_CLAIM.sub(blank, (folder / "questions.json").read_text())
        worked_out = [pair for match in COMMENT.finditer(page)
                      for pair in self.comment(match[1], " ".join(match[2].split()), self.line(folder / "README.md", page, match.start()))]
        in_comments = list(worked_out)
        for path, text in texts.items():
            worked_out += self.read(path, text)
        self.work_out(worked_out)
        claimed = {number.value for number, _, _ in self.claims}
        self.problems += [f"{place}: {left.text} is nowhere in the text" for left, _, place in in_comments if left.values[1] not in claimed]
        for number, place, supposed in self.claims:
            if not (supposed or number.small or number.power or number.worked_out or number.is_among(self.known)):
                self.problems.append(f"{place}: {number.text} is not on the page; nearest: {self.nearest(number)}")

    @staticmethod
    def line(path, text, position):
        return f"{path.parent.name}/{path.name}:" + str(text.count("\n", 0, position) + 1)

    def learn(self, text, command=False):
        """In a command a comma separates numbers: --ranks 8,512."""
        self.known += map(Number, LOOSE_NUMBER.finditer(text.replace(",", " ") if command else text))

    def without_sources(self, text):
        for pattern in (FENCE, TABLE):
            for match in pattern.finditer(text):
                self.learn(match[0], command=match[0].startswith("```sh"))
            text = pattern.sub(blank, text)
        return text

    def code(self, match):
        """Code within the text is a name or a command, unless it is only numbers and signs."""
        if "--" in match[0]:
            self.learn(match[0], command=True)
        return blank(match) if re.search(r"[A-Za-z]{2}|_", match[0]) else match[0].replace("`", " ")

    def comment(self, kind, text, place):
        """The equations of a comment. The numbers of any other comment are known from then on."""
        listed, _, file = text.rpartition(" in ")
        if kind in ("cited", "supposed"):
            self.learn(text.rpartition(": ")[2])
        elif kind == "number" and "=" in text:
            found = [(left, right, place) for left, right in equations(text)]
            self.problems += [] if len(found) == text.count("=") else [f"{place}: {text}: cannot be computed"]
            return found
        elif kind == "number":
            source = (ROOT / file).read_text() if (ROOT / file).is_file() else ""
            there = {Number(match).value for match in LOOSE_NUMBER.finditer(source.replace("'", ""))}
            self.problems += [f"{place}: {match[0]} is not in {file}" for match in NUMBER.finditer(listed)
                              if Number(match).value not in there]
            self.learn(listed)
        return []

    def read(self, path, text):
        """The claims of a text and its equations."""
        supposed = [match.span() for match in SUPPOSED.finditer(text)]
        text = NAME.sub(blank, re.sub(r"`[^`]*`", self.code, text))
        text = re.sub(r"^\|.*", lambda row: row[0].replace("|", ";"), text, flags=re.MULTILINE)
        numbers = {}
        for number in map(Number, NUMBER.finditer(text)):
            numbers[number.start], number.worked_out = number, False
            given = number.value == int(number.value) and number.unit not in ("%", "times") and \
                any(first <= number.start < end for first, end in supposed)
            self.known += [number] if given else []
            self.claims.append((number, self.line(path, text, number.start), given))
        for left, right in equations(text):
            for part in (left, right):
                part.numbers = [numbers[number.start] for number in part.numbers]
            yield left, right, self.line(path, text, left.numbers[0].start)

    def work_out(self, worked_out):
        """Marks the numbers of equations that hold and follow from known numbers, until there are no more such equations."""
        self.problems += [f"{place}: {left.text} = {right.text} does not hold: {left.values[1]:.8g} is not {right.values[1]:.8g}"
                          for left, right, place in worked_out if not left.equals(right)]
        rest = [equation for equation in worked_out if equation[0].equals(equation[1])]
        while solved := [equation for equation in rest if self.follows(*equation[:2])]:
            rest = [equation for equation in rest if equation not in solved]
            for number in (number for left, right, _ in solved for number in left.numbers + right.numbers):
                number.worked_out = True
                self.known.append(number)
        self.problems += [f"{place}: {left.text} = {right.text}: neither side is on the page" for left, right, place in rest]

    def follows(self, left, right):
        """If one side is known, so is the other: one number may be rounded; several must give exactly the value, or could be any."""
        return any(self.has(one) and (two.single or one.makes(two)) for one, two in ((left, right), (right, left)))

    def has(self, part):
        """A small number by itself says nothing."""
        return not (part.single and part.single.small) and \
            all(number.small or number.power or number.is_among(self.known) for number in part.numbers)

    def nearest(self, number):
        apart = sorted((abs(math.log(known.value / number.value)), known.text) for known in self.known if known.value * number.value > 0)
        return ", ".join(dict.fromkeys(text for _, text in apart[:8])) or "none"


class Numbers(unittest.TestCase):
    def test_every_number_is_accounted_for(self):
        for folder in sorted((ROOT / "lessons").glob("[0-9][0-9]-*")):
            with self.subTest(folder.name):
                lesson = Lesson(folder)
                self.assertEqual("", "\n".join(lesson.problems))
                self.assertGreater(len(lesson.claims), 1)

    def problems(self, text, answer="Nothing."):
        """The problems of a page whose output has 23.37, 1,203,456, 40% and 8."""
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "99-page"
            page.mkdir()
            (page / "README.md").write_text("# 99. A page\n\n```sh\nrun --ranks 4,512\n```\n\n```\n23.37 in 1,203,456, 40% of 8\n```\n\n" + text)
            (page / "questions.json").write_text('{"quiz": [{"ask": "Of 77?", "choices": [\n{"text": "99",\n "right": false, '
                                                 f'"why": "{answer}"}}]}}]}}')
            return Lesson(page).problems

    def test_what_is_accounted_for(self):
        for text in ["23.4, 1.2 million, 40%, 512 and 23.37", "12 layers of 16 bits (lesson 31, Smith et al., 2018), f32 on an H100",
                     "4 x 512 = 2,048, and 2,048 / 23.37 = 87.6", "35 <!-- number: 35 = ceil(0.9 + 8 x 4.2) --><!-- supposed: 0.9, 4.2 -->",
                     "1e-05 <!-- number: 1e-5 in autograd/ops.h -->", "3.35 TB/s <!-- cited: a data sheet: 3.35 TB/s -->",
                     "**Predict.** How many of 300?\n\nOf 300, 300 / 8 = 37.5.", "2^10 = 1024, 0x1f = 8 x 4 - 1 = 31, `--lr 0.7`: 0.7"]:
            self.assertEqual([], self.problems(text, answer="77 x 8 = 616"), text)

    def test_what_is_not(self):
        for text, problem in [
                ("One.\nIt is 23.47.", "99-page/README.md:12: 23.47 is not on the page; nearest: 23.37, 40%, 8, "),
                ("It is 23.38", "23.38 is"), ("1.3 million", "1.3 million is"), ("41%", "41% is"), ("24", "24 is"), ("8 times", "8 times is"),
                ("8 x 512 = 4,097", "8 x 512 = 4,097 does not hold: 4096 is not 4097"), ("7 x 8 = 54 KiB", "does not hold"),
                ("33 x 2 = 66", "neither side"), ("1204 / 51.5 = 23.4", "neither side"), ("5 <!-- number: 5 = x + 1 -->", "computed"),
                ("<!-- number: 46.74 = 2 x 23.37 -->", "46.74 is nowhere"),
                ("<!-- number: 4321.5 in autograd/ops.h -->", "4321.5 is not in autograd/ops.h"), ("**Predict.** 88% of 300?\n\n", "88% is")]:
            found = self.problems(text)
            self.assertTrue(found and problem in found[0], (text, found))
        self.assertIn("99-page/questions.json:3: 78 is not", self.problems("", answer="It is 78.")[0])


if __name__ == "__main__":
    if len(sys.argv) == 1:
        unittest.main()
    wrong = [problem for folder in sys.argv[1:] for problem in Lesson(pathlib.Path(folder).resolve()).problems]
    sys.exit("\n".join(wrong) or 0)
