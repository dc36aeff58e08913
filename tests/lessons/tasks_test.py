#!/usr/bin/env python3
"""Tests the tests of the tasks: every stub fails; every solution passes, and its real run too; each mistake that a task.md lists
(at least three edits of the solution) fails with a message that names it, and so does a mistake that only the real run can find.

  tests/lessons/tasks_test.py BUILD_DIR
"""
import concurrent.futures
import importlib.machinery
import importlib.util
import os
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
loader = importlib.machinery.SourceFileLoader("learn", str(ROOT / "learn"))
learn = importlib.util.module_from_spec(importlib.util.spec_from_loader("learn", loader))
loader.exec_module(learn)


def attempts(task, work):
    """Everything that a task's test is tried on: (name, file, with the real run, whether it has to pass, text that it must print)."""
    yield f"{task.name}: the stub", task.stub, False, False, ""
    yield f"{task.name}: the solution", task.solution, True, True, "The test passes."
    solution = task.solution.read_text()
    of_run = task.mistakes_of_run
    if of_run and task.ranks > 1 and not learn.has_mpirun():
        print(f"skipped: no Open MPI here for the mistakes that only the real run of {task.name} finds")
        of_run = []
    for number, (what, (old, new), says) in enumerate(task.mistakes + of_run):
        file = work / f"{task.name}_{number}{task.solution.suffix}"
        file.write_text(solution.replace(old, new))
        real_run = number >= len(task.mistakes)
        yield f"{task.name}: {what}", file, real_run, False, says if solution.count(old) == 1 else "'for:' is not once in the solution"


def failure(build, task, attempt, work):
    """What is wrong with one attempt's result, or None."""
    what, file, real_run, has_to_pass, says = attempt
    library = work / f"{abs(hash(what))}.so"
    passed, text = build.try_task(task, file, library, real_run)
    if passed != has_to_pass:
        return f"{what}: {'passes' if passed else 'fails'}: {text}"
    if "does not compile" in text or says not in text:
        return f"{what}: expected '{says}', found: {text}"
    if not passed and (not text.strip() or "ended with SIG" in text and "SIG" not in says):
        return f"{what}: no message that names the mistake: {text}"
    return None


def main():
    build = learn.Build(pathlib.Path(sys.argv[1]).resolve())
    tasks = [learn.Task(path.parent) for path in sorted(learn.TASKS.glob("*/task.md"))]
    failures = [] if tasks else [f"no task in {learn.TASKS}"]
    failures += [f"{task.name}: {len(task.hints)} hints, expected 2 or more" for task in tasks if len(task.hints) < 2]
    failures += [f"{task.name}: {len(task.mistakes)} mistakes, expected 3 or more" for task in tasks if len(task.mistakes) < 3]
    failures += [f"{task.name}: no lesson {task.lesson}" for task in tasks if not (learn.LESSONS / task.lesson).is_dir()]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        work = pathlib.Path(folder)
        all_attempts = [(task, attempt) for task in tasks for attempt in attempts(task, work)]
        results = list(pool.map(lambda pair: failure(build, *pair, work), all_attempts))
    failures += [result for result in results if result is not None]
    for text in failures:
        print(f"FAILED: {text}")
    print(f"{len(all_attempts) + 3 * len(tasks) - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
