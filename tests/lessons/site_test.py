#!/usr/bin/env python3
"""Tests the pages of ./learn site: links, structure, what a screen reader needs, and that their numbers are those of the lessons.
If Chromium is installed, it opens and uses them too.

  tests/lessons/site_test.py BUILD_DIR

Ends with 77 if the packages that make the pages are missing.
"""
import html.parser
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "lessons"))
from course import lessons, questions_of, tasks_of  # noqa: E402

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
EMPTY = {"meta", "link", "img", "input", "br", "hr"}
SHAPES = {"line", "rect", "circle", "path"}


class Page(html.parser.HTMLParser):
    """A page's elements, and what is wrong with their nesting."""

    def __init__(self, text):
        super().__init__()
        self.elements = []  # (tag, attributes, [texts of it and below])
        self.open, self.wrong = [], []
        self.feed(text)
        self.wrong += [f"{element[0]} is not closed" for element in self.open]

    def handle_starttag(self, tag, attributes):
        element = (tag, dict(attributes), [])
        self.elements.append(element)
        if tag not in EMPTY and not self.get_starttag_text().endswith("/>"):
            self.open.append(element)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes), []))

    def handle_endtag(self, tag):
        if not self.open or self.open[-1][0] != tag:
            self.wrong.append(f"</{tag}> closes {self.open[-1][0] if self.open else 'nothing'} at {self.getpos()}")
        else:
            self.open.pop()

    def handle_data(self, text):
        for element in self.open:
            element[2].append(text)

    def all(self, tag, **attributes):
        return [element for element in self.elements
                if element[0] == tag and all(element[1].get(name) == value for name, value in attributes.items())]


def text_of(element):
    return " ".join("".join(element[2]).split())


def skipped(test, reason):
    """Skips the test with a line that ./run_tests.sh shows."""
    print(f"\nskipped: {reason}", flush=True)  # unittest is within a line of dots
    test.skipTest(reason)


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name).resolve() / "site"
        run = subprocess.run([sys.executable, "-B", ROOT / "learn", "--build", BUILD, "site", cls.folder], capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise AssertionError(run.stdout + run.stderr)
        cls.texts = {path: path.read_text() for path in sorted(cls.folder.rglob("*.html"))}
        cls.pages = {path: Page(text) for path, text in cls.texts.items()}

    def lesson(self, number):
        folder = dict(lessons())[number]
        return self.pages[self.folder / "lessons" / folder.name / "index.html"]

    def views(self, number, figure):
        """The views of a figure with sliders: ([[positions of a slider]], {(i, j, ...): (sentence, HTML)})."""
        text = self.texts[self.folder / "lessons" / dict(lessons())[number].name / "index.html"]
        figure = re.search(f'<figure class="drawn" id="figure-{figure}".*?</figure>', text, re.DOTALL)[0]
        positions = [json.loads(html.unescape(found)) for found in re.findall(r'data-positions="([^"]*)"', figure)]
        table = json.loads(re.search(r'<script type="application/json">(.*?)</script>', figure, re.DOTALL)[1])
        return positions, {tuple(map(int, at.split(","))): view for at, view in table.items()}

    def sentence(self, number, figure, *chosen):
        positions, views = self.views(number, figure)
        return views[tuple(place.index(str(value)) for place, value in zip(positions, chosen))][0]

    def test_nothing_leads_nowhere_and_nothing_is_fetched(self):
        ids = {path: {element[1]["id"] for element in page.elements if "id" in element[1]} for path, page in self.pages.items()}
        for path, page in self.pages.items():
            for tag, attributes, _ in page.elements:
                for name in ("href", "src"):
                    address = attributes.get(name)
                    if address is None or (tag == "link" and address == "data:,"):
                        continue
                    parts = urllib.parse.urlsplit(address)
                    if parts.scheme:
                        self.assertEqual((tag, parts.scheme), ("a", "https"), f"{path}: {address}")
                        continue
                    target = (path.parent / parts.path).resolve() if parts.path else path
                    self.assertTrue(target.is_file(), f"{path}: {address}")
                    if parts.fragment:
                        self.assertIn(parts.fragment, ids[target], f"{path}: {address}")
            style = "".join(text for element in page.all("style") for text in element[2])
            self.assertIsNone(re.search(r"@import|url\(", style), path)
            script = "".join(text for element in page.all("script") if "type" not in element[1] for text in element[2])
            self.assertIsNone(re.search(r"fetch\(|XMLHttpRequest|import |https?:", script), path)

    def test_elements_are_nested_and_named(self):
        for path, page in self.pages.items():
            self.assertEqual(page.wrong, [], path)
            self.assertEqual(len(page.all("h1")), 1, path)
            ids = [element[1]["id"] for element in page.elements if "id" in element[1]]
            self.assertEqual(len(ids), len(set(ids)), path)
            labelled = {element[1].get("for") for element in page.all("label")}
            for number, (tag, attributes, _) in enumerate(page.elements):
                if tag == "svg":
                    self.assertEqual(attributes.get("role"), "img", path)
                    self.assertTrue(attributes.get("aria-label"), path)
                elif tag == "img":
                    self.assertTrue(attributes.get("alt"), path)
                elif tag == "input" and attributes.get("id") not in labelled:
                    before = [other for other in page.elements[:number] if other[0] in ("label", "legend", "input")]
                    self.assertIn("label", [other[0] for other in before[-1:]], f"{path}: an input without a label")
                elif "tabindex" in attributes:
                    self.assertEqual((attributes.get("role"), bool(attributes.get("aria-label"))), ("region", True), path)
            self.assertIsNone(re.search(r"<!-- figure: |@[A-Z]{4,}@", self.texts[path]), path)

    def test_each_lesson_has_its_predictions_quiz_and_tasks(self):
        for number, folder in lessons():
            page, questions = self.lesson(number), questions_of(folder)
            shown = [text_of(element) for element in page.elements]
            self.assertEqual(len([one for one in page.all("input") if one[1].get("id", "").startswith("prediction")]), len(questions["predict"]), folder)
            self.assertNotIn("it prints ?", shown, folder)
            whys = [one[1]["data-why"] for one in page.all("input", type="radio")]
            self.assertEqual(whys, [("Yes. " if choice["right"] else "No. ") + choice["why"]
                                    for question in questions["quiz"] for choice in question["choices"]], folder)
            for question in questions["quiz"]:
                self.assertIn(" ".join(question["ask"].split()), shown)
            headings = " ".join(text_of(element) for element in page.all("h2"))
            for task in tasks_of(folder):
                self.assertIn("Task: " + task.text.split("\n")[0].lstrip("# "), headings)
                hints = [text_of(one) for one in page.all("summary")]
                self.assertGreaterEqual(hints.count("Hint 1"), 1)
            self.assertTrue(all("open" not in folded[1] for folded in page.all("details")), folder)

    def test_every_word_of_a_lesson_is_on_its_page(self):
        for number, folder in lessons():
            page = set(re.findall(r"\w+", " ".join(text_of(one) for one in self.lesson(number).all("main"))))
            source = re.sub(r"<!--.*?-->|\]\([^)]*\)|^```.*$|</?\w+>", " ", (folder / "README.md").read_text(), flags=re.DOTALL | re.MULTILINE)
            self.assertEqual(set(re.findall(r"\w+", source)) - page, set(), folder)

    def test_the_index_and_the_glossary(self):
        index = self.pages[self.folder / "index.html"]
        links = [element[1]["href"] for element in index.all("a")]
        for _, folder in lessons():
            self.assertIn(f"lessons/{folder.name}/index.html", links)
        self.assertIn("docs/glossary.html", links)

    # The numbers of the figures compared with those of the lessons, of papers, and of formulas.

    def test_a_figure_begins_with_the_view_of_its_sliders(self):
        names = 0
        for number, _ in lessons():
            for figure in self.lesson(number).all("figure"):
                name = figure[1]["id"].removeprefix("figure-")
                self.assertGreater(len(text_of(figure)), 40, name)
                text = self.texts[self.folder / "lessons" / dict(lessons())[number].name / "index.html"]
                shown = text[text.index(f'id="figure-{name}"'):].split("</figure>")[0]
                if "<script" in shown:
                    _, views = self.views(number, name)
                    start = tuple(map(int, re.findall(r'max="\d+" value="(\d+)"', shown)))
                    self.assertEqual(re.search(r'aria-live="polite">(.*?)</p><div class="view">(.*?)</div><script', shown, re.DOTALL).groups(),
                                     tuple(views[start]), name)
                    names += 1
        self.assertGreaterEqual(names, 15)

    def test_ring(self):
        (ranks, _), views = self.views(14, "ring")
        for i, n in enumerate(map(int, ranks)):
            steps = [view[1] for at, view in sorted(views.items()) if at[0] == i]
            self.assertEqual(len(steps), 2 * (n - 1) + 1)
            for number, step in enumerate(steps):
                whole = step.count('class="whole')
                # After n - 1 steps each rank has one whole chunk, after each further step one more.
                self.assertEqual(whole, 0 if number < n - 1 else n * (number - n + 2), f"{n} ranks, after step {number}")
                self.assertEqual(len(re.findall(r"from \d", step)), 0 if number == 0 else n)

    def test_zero_has_the_figures_of_its_paper(self):
        # Rajbhandari et al., 2020, figure 1: GB of 7.5 billion parameters on 64 GPUs. From stage 2 on, buckets are added.
        for stage, expected in ((0, 120), (1, 31.4), (2, 16.6), (3, 1.9)):
            _, views = self.views(19, "zero")
            found = float(self.sentence(19, "zero", 64, stage).split()[0])
            self.assertGreaterEqual(found, expected - 0.06)
            self.assertLess(found, expected + (0.06 if stage < 2 else 1), stage)

    def test_memory_is_what_lesson_9_shows(self):
        _, views = self.views(9, "memory")
        # 8 samples in one micro-batch, nothing sharded: the page's rows.
        page = (dict(lessons())[9] / "README.md").read_text()
        for row in re.findall(r"^(\w[\w ]*?)  +[\d,]+ +([\d.]+) ([MG]iB) ", page.split("tail -n +3")[1].split("...")[0], re.MULTILINE):
            self.assertIn(f"{row[0]} <b>{float(row[1]):.4g} {row[2]}</b>", views[0, 0, 0, 0][1])
        # Accumulation: two micro-batches of 8 hold what one of 8 does.
        self.assertEqual(views[1, 1, 0, 0][1], views[0, 0, 0, 0][1])
        self.assertIn("activations of layers <b>144 MiB", views[0, 0, 0, 1][1])

    def test_schedule_and_scale_are_those_of_the_lessons(self):
        self.assertEqual(self.sentence(10, "schedule", "linear", 782)[:35], "14,130 updates, 782 of warm-up; the")
        limits = (dict(lessons())[20] / "README.md").read_text()
        for ranks, bucket, row in ((64, 25, r"^ +64 .*? ([\d.]+)%"), (512, 25, r"^ +512 .*? ([\d.]+)%"), (4096, 25, r"^ +4,096 .*? ([\d.]+)%"),
                                   (256, 400, r"  256 .* (97\.5)%"), (1024, 400, r"  1,024 .* (89\.5)%")):
            efficiency = float(re.search(row, limits, re.MULTILINE)[1])
            found = float(re.search(r"([\d.]+)%", self.sentence(20, "scale", f"{ranks:,}", f"{bucket} MiB", "ring"))[1])
            self.assertAlmostEqual(found, efficiency, delta=0.2, msg=f"{ranks} ranks, {bucket} MiB")

    def test_overlap(self):
        _, views = self.views(18, "overlap")
        times = {at: float(re.search(r"([\d,.]+) (m?)s", view[0])[1].replace(",", "")) * (1 if " ms" in view[0] else 1000) for at, view in views.items()}
        for i, j in times:
            if (i + 1, j) in times:
                self.assertGreaterEqual(times[i, j], times[i + 1, j], "a faster link is not slower")
        # One bucket of everything cannot be hidden: 2 (8 - 1) steps of 3.4 us and of 1/8 of 2.6 GB at 5 GB/s, after 159.744 ms of
        # computing (4 digits shown).
        alone = 1000 * (2 * 7 * 3.4e-6 + 2 * 7 / 8 * 2.6 / 5) + 159.744
        self.assertAlmostEqual(times[0, 4], alone, delta=0.005 * alone)

    def test_searches_are_those_of_lesson_11(self):
        for optimizer, best in zip(("sgd", "adam", "lamb", "lars"), self.table_row(11, "the same, then times 0.7 and 1.4")):
            self.assertIn(f"{optimizer}: {best} at", self.sentence(11, "searched", optimizer))

    def table_row(self, number, head):
        """The cells of a page's table row that begins with this text."""
        page = (dict(lessons())[number] / "README.md").read_text()
        return re.search(rf"^\| {re.escape(head)} \| (.*) \|$", page, re.MULTILINE)[1].split(" | ")

    def test_searches_are_those_of_lessons_32_and_38(self):
        (ways,), _ = self.views(32, "ways")
        self.assertEqual(len(ways), 4)
        for way in ways:
            self.assertRegex(self.sentence(32, "ways", way), rf"at a rate of {re.escape(self.table_row(32, way)[0])}, the best of ")
        for chosen, head in (("the full rate", "LARS"), ("a trust ratio", "LARS, biases with a trust ratio"),
                             ("a thousandth of the rate", "LARS, biases at a thousandth of the rate")):
            self.assertRegex(self.sentence(38, "biases", chosen), rf"at a rate of {re.escape(self.table_row(38, head)[0])}, the best of ")

    def test_shuffles_add_up_what_they_say(self):
        (instructions, _), views = self.views(22, "shuffles")
        for i, instruction in enumerate(instructions):
            held = []
            for j in range(4):
                cells = re.findall(r"<td[^>]*>(\d+)<small>(.*?)</small>", views[i, j][1])
                held.append([int(value) for value, _ in cells])
                for lane, (value, added) in enumerate(cells):
                    numbers = [int(number) for number in re.findall(r"\d+", added)]
                    if len(numbers) == 3:  # a + b of lane s
                        self.assertEqual(held[j - 1][numbers[2]], numbers[1])
                        self.assertEqual(int(value), held[j - 1][lane] + numbers[1])
                    else:  # twice its own, or as it was
                        self.assertEqual(int(value), held[j - 1][lane] * (2 if numbers else 1) if j else lane + 1)
            ends = {"__shfl_down_sync": [8 * 9 // 2], "__shfl_xor_sync": [8 * 9 // 2] * 8,
                    "__shfl_up_sync": [n * (n + 1) // 2 for n in range(1, 9)]}[instruction]
            self.assertEqual(held[3][:len(ends)], ends)

    def test_banks_serve_each_lane_once(self):
        (strides,), views = self.views(23, "banks")
        for (i,), (sentence, shown) in views.items():
            stride = int(strides[i])
            served = re.findall(r"<p class=\"lanes\"><b>cycle \d+</b>(.*?)</p>", shown)
            self.assertEqual(len(served), math.gcd(stride, 32), sentence)
            lanes = {}
            for row in served:
                for bank, lane in enumerate(re.findall(r"<i[^>]*>(\d*)</i>", row)):
                    if lane:
                        self.assertNotIn(int(lane), lanes)
                        lanes[int(lane)] = bank
            self.assertEqual(lanes, {lane: lane * stride % 32 for lane in range(32)})

    def test_errors_of_compression_are_those_of_lesson_33(self):
        if "Not drawn" in self.texts[self.folder / "lessons" / dict(lessons())[33].name / "index.html"]:
            return skipped(self, "no Open MPI: the errors of compression were not drawn")
        page = (dict(lessons())[33] / "README.md").read_text()
        rows = [list(map(float, row)) for row in re.findall(r"^10 .*\n100 +(\S+) +(\S+) +(\S+) +(\S+)$", page, re.MULTILINE)]
        self.assertEqual(len(rows), 2)  # the tables of two ranks and of one; other seeds have no row of 10
        for ranks, row in zip((2, 1), rows):
            for kind, (without, having) in (("the same each time", row[:2]), ("of new samples each time", row[2:])):
                found = re.findall(r"0\.\d+", self.sentence(33, "feedback", ranks, kind))
                for number, expected in zip(found, (without, having), strict=True):
                    self.assertAlmostEqual(float(number), expected, delta=0.02 * expected, msg=f"{ranks} ranks, {kind}")
        _, views = self.views(33, "feedback")
        for sentence, chart in views.values():
            self.assertEqual(chart.count("<path"), 2, sentence)

    def test_waits_for_data_are_those_of_lesson_34(self):
        (fast, slow), views = self.views(34, "loader")
        page = (dict(lessons())[34] / "README.md").read_text()
        pages = {(1, 22): page.split("--read 5")[0], (5, 22): page.split("--read 5")[1]}
        for (i, j), (sentence, table) in views.items():
            reading = 56 * int(fast[i]) + 8 * int(slow[j])
            self.assertIn(f"= {reading} to read", sentence)
            rows = [list(map(int, re.findall(r"</span>(\d+)</td>", row))) for row in re.findall(r'<tr><th scope="row">.*?</tr>', table)]
            self.assertEqual(rows[0], [64, reading, 256 + reading])  # no thread
            for waits, waited, whole in rows:
                self.assertEqual(whole, 256 + waited)
                self.assertGreaterEqual(whole, max(256, reading))  # neither the model nor the reader is faster than that
            self.assertEqual(sorted(rows, key=lambda row: -row[1]), rows)  # more batches ahead wait no longer
            text = pages.get((int(fast[i]), int(slow[j])))
            if text is not None:
                shown = [list(map(int, row)) for row in re.findall(r"^  (?:no thread|a thread, \d+ ahead) +(\d+) +(\d+) +(\d+)$", text, re.MULTILINE)]
                self.assertEqual(rows, shown)

    def test_recomputation_keeps_what_lesson_6_says(self):
        # 16 results of 256 KiB, or 16 / 4 + 4 - 1 of them; a mnist network has its 10 logits on top (20 KiB of 512 samples).
        for segment, kib in (("none", 16 * 256), ("in segments of 4 layers", 7 * 256)):
            found = re.search(r"peak ([\d.]+) (\w+) of activations", self.sentence(6, "recomputation", "1 of 512", segment))
            size = float(found[1]) * {"KiB": 1, "MiB": 1024}[found[2]]
            self.assertAlmostEqual(size, kib, delta=32, msg=segment)

    def test_pipeline(self):
        (_, stages, micro_batches), views = self.views(37, "pipeline")
        for (order, i, j), (sentence, table) in views.items():
            p, m, v = int(stages[i]), int(micro_batches[j]), 2 if order == 2 else 1
            kept = [int(text) for text in re.findall(r"<td>(\d+)</td>", table)]
            if order < 2:  # stage s of p keeps p - s, or all
                self.assertEqual(kept, [m] * p if order else [min(m, p - s) for s in range(p)])
            self.assertEqual([table.count("<i>"), table.count('class="back"')], [p * v * m] * 2)
            if order < 2 or m >= p:
                self.assertEqual(table.count('class="idle"'), p * 3 * (p - 1))  # units of a chunk, where a backward takes 2
                self.assertIn(f"wait {100 * (p - 1) / (v * m + p - 1):.1f}% of", sentence)

    def test_tiles(self):
        # Two reads for a multiply-add, and 2 / 32 with tiles of 32 x 32.
        for rung, step, reads in ((1, "all", "2"), (3, "all", "0.0625"), (3, "the first", "0.0625")):
            self.assertRegex(self.sentence(24, "tiles", rung, step), rf"^Rung {rung} .*A multiply-add reads {reads} elements")
        _, views = self.views(24, "tiles")
        self.assertNotIn((0, 2), views)  # rung 1 has one step

    def test_fragments(self):
        _, views = self.views(26, "fragments")
        # PTX ISA, mma.m16n8k16: lane 5 is in group 1, the second row, and its thread 1 has columns 2, 3, 10 and 11 of A.
        self.assertEqual(views[5,][0], "Lane 5 holds 8 elements of A, 4 of B and 4 of C.")
        row = views[5,][1].split('<p class="lanes">')[2]
        self.assertEqual([i for i, cell in enumerate(re.findall(r"<i[^>]*>", row)) if "on" in cell], [2, 3, 10, 11])
        for lane in range(32):
            self.assertEqual(views[lane,][1].count('class="on"'), 16)

    def test_ladder_is_what_lens_counts(self):
        text = self.texts[self.folder / "lessons" / dict(lessons())[26].name / "index.html"]
        # Naive: 128^2 / 32 warps, 2 reads each in 128 steps and one write.
        self.assertIn(f"{128 * 128 // 32 * (2 * 128 + 1):,}", text)

    def test_in_a_browser(self):
        run = subprocess.run([ROOT / "scripts/check_site.sh", self.folder], capture_output=True, text=True, check=False)
        if run.returncode == 77:
            return skipped(self, "no Chromium: sliders, quizzes, contrast and widths of the pages were not tested")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


class WrongUse(unittest.TestCase):
    def learn(self, *arguments, **environment):
        return subprocess.run([sys.executable, "-B", ROOT / "learn", *arguments], capture_output=True, text=True, check=False,
                              env={"PATH": "/usr/bin:/bin", **environment})

    def test_a_missing_package_is_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "markdown.py").write_text("raise ImportError('gone', name='markdown')\n")
            run = self.learn("--build", BUILD, "site", f"{folder}/out", PYTHONPATH=folder)
            self.assertEqual((run.returncode, run.stderr), (1, "there is no Python package markdown: apt-get install python3-markdown "
                                                            "python3-pygments, or pip install markdown pygments, installs both\n"))
            self.assertFalse((pathlib.Path(folder) / "out").exists())

    def test_other_mistakes(self):
        run = self.learn("--build", "x", "site")
        self.assertEqual((run.returncode, run.stderr.count("\n")), (1, 1))
        self.assertIn("x/bin is missing", run.stderr)
        run = self.learn("site", "a", "b")
        self.assertEqual(run.returncode, 2)
        self.assertIn("found a b, expected one folder for the pages", run.stderr)


if __name__ == "__main__":
    try:
        import markdown  # noqa: F401
        import pygments  # noqa: F401
    except ImportError as error:
        tools = ROOT / "build/site-tools/bin/python"
        if pathlib.Path(sys.executable) == tools or not tools.exists():
            print(f"skipped: no Python package {error.name}: the lessons' pages were not tested")
            sys.exit(77)
        sys.exit(subprocess.run([tools, "-B", __file__, BUILD, *sys.argv[1:]], check=False).returncode)
    unittest.main()
