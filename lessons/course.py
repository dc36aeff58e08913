"""The course as data: lessons, their questions, tasks. For ./learn, its pages (pages/) and the tests."""
import json
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
LESSONS = ROOT / "lessons"
TASKS = LESSONS / "tasks"
FENCE = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
QUOTE = re.compile(r"^```(?P<tag>\w*)[^\n]*\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)  # with whatever tag


class Problem(Exception):
    """One line for the learner."""


def lessons():
    """(number, folder) of each lesson, in order."""
    return [(int(folder.name[:2]), folder) for folder in sorted(LESSONS.glob("[0-9][0-9]-*"))]


def lesson(number):
    for found, folder in lessons():
        if found == number:
            return folder
    raise Problem(f"there is no lesson {number}: expected 1 to {lessons()[-1][0]}")


def questions_of(folder):
    """The predictions and the quiz of a lesson."""
    path = folder / "questions.json"
    return json.loads(path.read_text()) if path.exists() else {"predict": [], "quiz": []}


def has_mpirun():
    """Whether there is an mpirun that knows Open MPI's flags."""
    if shutil.which("mpirun") is None:
        return False
    version = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False).stdout
    return "Open MPI" in version or "OpenRTE" in version


class Task:
    """A task: lessons/tasks/NAME, with task.md, a stub, a solution and the mistakes that its test has to name."""

    def __init__(self, folder):
        self.name, self.folder = folder.name, folder
        head, *sections = re.split(r"^## ", (folder / "task.md").read_text(), flags=re.MULTILINE)
        self.lesson = re.search(r"^lesson: (\S+)\n", head, re.MULTILINE)[1]
        ranks = re.search(r"^ranks: (\d+)\n", head, re.MULTILINE)
        self.ranks = int(ranks[1]) if ranks else 1
        self.text = re.sub(r"^(lesson|ranks): .*\n", "", head, flags=re.MULTILINE).strip()
        self.hints = [section.split("\n", 1)[1].strip("\n") for section in sections if section.startswith("Hint")]
        self.mistakes = [self.mistake(section) for section in sections if section.startswith("Mistake: ")]
        self.mistakes_of_run = [self.mistake(section) for section in sections if section.startswith("Mistake in the real run: ")]
        self.stub = next(folder.glob("stub.c*"))
        self.solution = next(folder.glob("solution.c*"))

    @staticmethod
    def mistake(section):
        """(what, (old, new), text of the message): an edit of the solution, and what the test must say about it."""
        fields = dict(re.findall(r"^    (for|put|says): ?(.*)$", section, re.MULTILINE))
        return section.split("\n", 1)[0].split(": ", 1)[1], (fields["for"], fields["put"]), fields["says"]


def tasks_of(folder):
    found = [Task(path.parent) for path in sorted(TASKS.glob("*/task.md"))]
    return [task for task in found if task.lesson == folder.name]


def task_of(number, name, progress):
    """The task of that name, or the lesson's first that is not done."""
    tasks = tasks_of(lesson(number))
    if not tasks:
        raise Problem(f"lesson {number} has no task")
    names = [task.name for task in tasks]
    if name is not None and name not in names:
        raise Problem(f"lesson {number} has no task {name}: expected {', '.join(names)}")
    if name is not None:
        return tasks[names.index(name)]
    return next((task for task in tasks if not progress.has(number, f"task {task.name}")), tasks[0])


def results_in(output, predictions):
    """What the output says to each question; a prediction's "find" is a regular expression whose groups are the result."""
    return [" ".join(found.groups()) if (found := re.search(prediction["find"], output, re.MULTILINE)) else "?"
            for prediction in predictions]
