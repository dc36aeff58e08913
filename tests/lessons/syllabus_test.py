#!/usr/bin/env python3
"""Tests docs/syllabus.md: it has all lessons and tasks, its minutes follow its rule (to one step of 5 minutes), its sums are right.

  tests/lessons/syllabus_test.py
"""
import math
import pathlib
import re
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "lessons"))
from course import lessons, questions_of, tasks_of  # noqa: E402

PAGE = (ROOT / "docs/syllabus.md").read_text()
ROWS = [[cell.strip() for cell in row.split("|")[1:-1]] for row in re.findall(r"^\| \d.*$", PAGE, re.MULTILINE)]
TABLE = {int(row[0]): row for row in ROWS if len(row) == 5}
PLANS = [row for row in ROWS if len(row) == 4]
TASK = 40  # minutes


def listed(cell):
    return [] if cell == "-" else cell.split(", ")


def minutes(numbers, tasks):
    return sum(int(TABLE[int(number)][3]) for number in numbers) + TASK * len(tasks)


class Syllabus(unittest.TestCase):
    def test_each_lesson_has_its_row(self):
        self.assertEqual(sorted(TABLE), [number for number, _ in lessons()])
        for number, folder in lessons():
            text = (folder / "README.md").read_text()
            title = re.match(r"# \d+\. (.*)", text)[1]
            _, link, needs, shown, tasks = TABLE[number]
            self.assertEqual(link, f"[{title}](../lessons/{folder.name}/README.md)")
            self.assertEqual(listed(tasks), [task.name for task in tasks_of(folder)])
            self.assertTrue(all(int(other) < number for other in listed(needs)), f"lesson {number} needs a later one")
            prose = re.sub(r"```.*?```|<!--.*?-->", "", text, flags=re.DOTALL)
            questions = questions_of(folder)
            count = len(questions["predict"]) + len(questions["quiz"]) + text.count("<details>")
            worked_out = 5 + len(re.findall(r"\w+", prose)) / 100 + 2 * count
            # A page may grow or shrink by a few words without a new row.
            self.assertLess(abs(int(shown) - 5 * math.ceil(worked_out / 5)), 6, f"lesson {number}: {worked_out:.1f} minutes")

    def test_sums(self):
        every = [task.name for _, folder in lessons() for task in tasks_of(folder)]
        total = sum(int(row[3]) for row in TABLE.values())
        self.assertIn(f"Together {total} minutes of lessons and {len(every)} x {TASK} = {TASK * len(every)} of tasks: "
                      f"{total + TASK * len(every)} minutes.", PAGE)
        self.assertIn(f"{len(TABLE)} [lessons]", PAGE)
        self.assertIn(f"and {len(every)} tasks", PAGE)
        day = re.search(r"\*\*A day\*\* of (\d+) minutes.*?: lessons ([\d, and]+), and the tasks (\w+) and (\w+)\.", PAGE, re.DOTALL)
        self.assertEqual(int(day[1]), minutes(re.findall(r"\d+", day[2]), day.groups()[2:]))
        self.assertLessEqual(set(day.groups()[2:]), set(every))
        for _, numbers, tasks, shown in PLANS:
            self.assertEqual(int(shown), minutes(listed(numbers), listed(tasks)), (numbers, tasks))
        for plan in (PLANS[:5], PLANS[5:]):  # a week, a term: everything once, each after what it needs
            order = [int(number) for row in plan for number in listed(row[1])]
            self.assertEqual(sorted(order), sorted(TABLE))
            self.assertEqual(sorted(task for row in plan for task in listed(row[2])), sorted(every))
            for place, number in enumerate(order):
                self.assertLessEqual({int(other) for other in listed(TABLE[number][2])}, set(order[:place]))

    def test_keys_of_score(self):
        script = (ROOT / "learn").read_text()
        for key in re.findall(r"`(\w+)`", PAGE.split("| key |")[1].split("\n\n")[0]):
            self.assertIn(f'"{key}"', script)


if __name__ == "__main__":
    unittest.main()
