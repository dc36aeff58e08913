#!/usr/bin/env python3
"""Tests ./learn as a learner uses it, on the questions of all lessons.

  tests/lessons/learn_test.py BUILD_DIR
"""
import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/lessons"))
from tasks_test import learn  # noqa: E402

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
NUMBER = re.compile(r"\d[\d,]*\.?\d*")


class Questions(unittest.TestCase):
    def test_each_prediction_is_found_in_what_the_command_prints(self):
        build = learn.Build(BUILD)
        for number, folder in learn.lessons():
            predictions = learn.questions_of(folder)["predict"]
            self.assertTrue(predictions, folder)
            command = learn.FENCE.search((folder / "README.md").read_text().split("**Run.**", 1)[1])[1].strip()
            if "mpirun" in command and not learn.has_mpirun():
                print(f"\nskipped: no Open MPI here for the predictions of lesson {number}", flush=True)
                continue
            status, output = build.shell(command)
            self.assertEqual(status, 0, output)
            for prediction, result in zip(predictions, learn.results_in(output, predictions)):
                self.assertNotEqual(result, "?", f"lesson {number}: {prediction}\n{output}")

    def test_each_choice_is_explained_and_one_is_right(self):
        for number, folder in learn.lessons():
            for question in learn.questions_of(folder)["quiz"]:
                self.assertEqual(sum(choice["right"] for choice in question["choices"]), 1, question)
                for choice in question["choices"]:
                    self.assertGreater(len(choice["why"]), 10, question)

    def test_each_page_has_the_parts_that_learn_shows(self):
        for number, folder in learn.lessons():
            page = (folder / "README.md").read_text()
            parts = ["**Predict.**", "**Run.**", "**Now turn this.**", "**In the code.**", "## Quiz"]
            places = [page.find(part) for part in parts]
            self.assertNotIn(-1, places, folder)
            self.assertEqual(places, sorted(places), folder)
            self.assertEqual([page.count(part) for part in parts], [1] * len(parts), folder)

    def test_numbers_of_the_right_answers_stand_on_the_page(self):
        for number, folder in learn.lessons():
            page = set(NUMBER.findall((folder / "README.md").read_text()))
            for question in learn.questions_of(folder)["quiz"]:
                for choice in question["choices"]:
                    if choice["right"]:
                        found = {text.rstrip(".,") for text in NUMBER.findall(choice["text"] + " " + choice["why"])}
                        missing = {text for text in found if len(text) > 1} - {text.rstrip(".,") for text in page}
                        self.assertFalse(missing, f"lesson {number}: {question['ask']}: not on the page")

    def test_tables_of_machine_code_are_those_of_the_committed_file(self):
        rows = json.loads((ROOT / "benchmarks/results/sass/kernels.json").read_text())["rows"]
        kernels = {row["name"]: row for row in rows if row["size"] == "sm_90"}
        found = 0
        for _, folder in learn.lessons():
            for keys, table in re.findall(r"^<!-- sass: (.*) -->\n\|.*\n\|[-|]*\n((?:\|.*\n)+)", (folder / "README.md").read_text(),
                                          re.MULTILINE):
                for line in table.splitlines():
                    name, *cells = [cell.strip(" `") for cell in line.strip("|").split("|")]
                    self.assertEqual(cells, [str(kernels[name].get(key, "")) for key in keys.split(", ")], name)
                    found += 1
        self.assertGreater(found, 0)


class Learn(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.my = pathlib.Path(folder.name) / "my"

    def learn(self, *arguments, text=""):
        return subprocess.run([sys.executable, "-B", ROOT / "learn", "--build", BUILD, "--my", self.my, *arguments], input=text,
                              capture_output=True, text=True, check=False, env=dict(os.environ, COLUMNS="100"))

    def says(self, expected, *arguments, text="", status=0):
        run = self.learn(*arguments, text=text)
        self.assertEqual(run.returncode, status, run.stdout + run.stderr)
        self.assertIn(expected, run.stdout + run.stderr)
        if status and run.stderr:
            self.assertEqual(run.stderr.strip().count("\n"), 0, run.stderr)
        return run.stdout

    def test_a_lesson_predictions_before_the_run_and_beside_it(self):
        text = "\n".join(["nine", "18 and 6", "4", "the same", "", "zero", "a", "b", "b"]) + "\n"
        output = self.says("1 of 2 at the first try.", "1", text=text)
        self.assertLess(output.index("The loss?"), output.index("By the tape"))
        self.assertRegex(output, r"The loss\? +nine +9\n")
        self.assertRegex(output, r"nodes on the tape\? +4 +3\n")
        self.assertLess(output.index("the prediction w x + b is 2"), output.index("w x + b = 2, error = 0, loss = 0"))
        self.assertIn("Your prediction was: zero", output)
        self.assertIn("No. Backward needs x", output)
        self.assertLess(output.index("No. Backward needs x"), output.index("Yes. The gradient with respect to w is x"))
        self.assertEqual(json.loads((self.my / "progress.json").read_text()), {"1": ["run", "quiz"]})
        self.says("1  The tape by hand                                     [x] run, [x] quiz, [ ] task backward")

    def test_each_command_of_a_page_is_predicted_and_what_stands_between_is_shown(self):
        page = (learn.lesson(32) / "README.md").read_text()
        commands = len(learn.FENCE.findall(page.split("**Run.**")[1].split("**In the code.**")[0]))
        predicted = len(learn.questions_of(learn.lesson(32))["predict"])
        asked = []
        ours = learn.Build(BUILD)
        ours.shell = lambda command, folder=None: (asked.append(command), (0, "output"))[1]
        answers = iter(["x"] * predicted + [""] + ["x"] * (commands - 1))
        with unittest.mock.patch("builtins.input", lambda prompt: next(answers)), contextlib.redirect_stdout(io.StringIO()) as said:
            with self.assertRaises(StopIteration):  # at the quiz
                learn.show_lesson(32, ours, learn.Progress(self.my / "progress.json"))
        self.assertEqual(len(asked), commands)
        for sentence in ("**Sharp minima.**", "At the same rate the batch does matter."):
            self.assertIn(sentence.replace("**", ""), said.getvalue())

    def test_input_that_ends_keeps_what_is_done(self):
        self.says("no more input", "1", text="1\n2\n3\n4\n", status=1)
        self.assertEqual(json.loads((self.my / "progress.json").read_text()), {"1": ["run"]})

    def test_a_task_from_its_stub_to_its_solution(self):
        self.says("there is no", "4", "test", status=1)
        self.says("Write one step for all elements", "4", "task")
        mine = self.my / "adam.cpp"
        self.assertIn("not yet", self.learn("4", "test").stderr)
        mine.write_text(mine.read_text().replace("static_cast<void>(g);", "w[i + 1000000000] = 0;"))
        self.says("index outside of an array", "4", "test", status=1)
        for call in ("std::exit(0)", "std::_Exit(0)"):  # after the second only ./learn can say so
            mine.write_text("#include <cstdlib>\n" + (learn.TASKS / "adam/stub.cpp").read_text().replace("static_cast<void>(g);", call + ";"))
            self.says("our code ended the program", "4", "test", status=1)
            self.assertEqual(self.score("adam", status=1)["points"], 0)
        for loop, says in (("for (volatile bool on = true; on;) static_cast<void>(g)", "is there a loop that never ends?"),
                           ("for (std::vector<float*> x;;) x.push_back(new float[1 << 26])", "is there a loop that allocates?"),
                           ("for (;;) std::puts(\"\\xff again\")", "is there a loop that prints for ever?"),
                           ("adam_step(w, g, m, v, t, settings)", "a function that calls itself for ever?"),
                           ("if (fork() == 0) pause(); else std::abort()", "is there an exception that nothing catches")):
            mine.write_text("#include <unistd.h>\n#include <cstdio>\n#include <cstdlib>\n#include <vector>\n" + (learn.TASKS / "adam/stub.cpp").read_text().replace("static_cast<void>(g);", loop + ";"))
            self.says(says, "4", "test", status=1)
        mine.write_text("int x = ;\n")
        self.says("It does not compile", "4", "test", status=1)
        mine.write_text(self.says("adam_step", "4", "solution"))
        self.says("Task adam is done.", "4", "test")
        self.says("[x] task adam")
        self.says("adam_step", "4", "solution", "adam")

    def test_a_second_task_comes_after_the_first(self):
        self.says("my/backward.cpp", "1", "task")
        (self.my / "progress.json").write_text('{"1": ["task backward"]}')
        self.says("my/reverse_loop.cpp", "1", "task")

    def test_hints_come_one_by_one(self):
        self.assertNotIn("Hint 2", self.says("Hint 1 of 3", "4", "hint"))
        self.assertNotIn("Hint 3", self.says("Hint 2 of 3", "4", "hint"))
        self.says("Hint 3 of 3", "4", "hint")
        self.says("There are no more.", "4", "hint")

    def score(self, *tasks, status):
        return json.loads(self.says("", "score", *tasks, status=status))

    def test_a_score_of_what_is_done(self):
        nothing = self.score(status=1)
        names = [task.name for _, folder in learn.lessons() for task in learn.tasks_of(folder)]
        self.assertEqual([row["task"] for row in nothing["tasks"]], names)
        self.assertEqual((nothing["passed"], nothing["of_tasks"], nothing["points"], nothing["of"]), (0, len(names), 0, 10 * len(names)))
        self.assertEqual(list(nothing), ["passed", "of_tasks", "points", "of", "tasks"])
        self.says("Hint 1", "4", "hint")
        self.says("Hint 2", "4", "hint")
        (self.my / "adam.cpp").write_text(self.says("adam_step", "4", "solution"))
        self.says("Your file", "3", "task", "divisor")
        whole = self.score(status=1)
        self.assertEqual((whole["passed"], whole["points"]), (1, 10))
        two = self.score("divisor", "adam", status=1)
        self.assertEqual((two["passed"], two["of_tasks"], two["points"], two["of"]), (1, 2, 10, 20))
        divisor, adam = two["tasks"]
        self.assertEqual(adam, {"task": "adam", "lesson": 4, "begun": True, "passed": True, "points": 10, "of": 10, "hints": 2,
                                "solution_shown": True, "message": ""})
        self.assertEqual([divisor[key] for key in ("begun", "passed", "points", "hints", "solution_shown")], [True, False, 0, 0, False])
        self.assertGreater(len(divisor["message"]), 20)
        self.assertEqual(self.score("adam", status=0)["passed"], 1)

    def test_wrong_use_is_one_line(self):
        self.says("there is no task x: expected some of backward, reverse_loop,", "score", "x", status=1)
        self.says(f"there is no lesson 99: expected 1 to {len(learn.lessons())}", "99", status=1)
        self.says("lesson 17 has no task", "17", "task", status=1)
        self.says("lesson 1 has no task x: expected backward, reverse_loop", "1", "task", "x", status=1)
        self.says("x/bin is missing: ./run_tests.sh builds it", "1", "--build", "x", status=1)
        self.my.mkdir()
        (self.my / "progress.json").write_text("{")
        self.says("is not JSON any more", status=1)
        for other in ("[]", "null", '{"3": 5}'):
            (self.my / "progress.json").write_text(other)
            self.says("expected a list of steps for each lesson", status=1)
        (self.my / "progress.json").unlink()
        (self.my / "progress.json").mkdir()
        self.says("Is a directory", status=1)
        (self.my / "progress.json").rmdir()
        self.assertIn("found \u00b2, expected a lesson's number", self.learn("\u00b2").stderr)


if __name__ == "__main__":
    unittest.main()
