"""Shared by the scripts that remove something from a copy of the sources and check that a test fails."""
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED_FOLDERS = {".git", "build", "out"}


def copy_tree(to):
    """Copies the sources to the folder `to`, without build folders. Sources that it has already are removed."""

    def skipped(folder, names):
        if Path(folder) != ROOT:
            return {"__pycache__"}
        return {name for name in names if name in SKIPPED_FOLDERS or name.startswith("build")}

    for entry in to.iterdir() if to.exists() else ():
        if entry.is_file():
            entry.unlink()
        elif not entry.name.startswith("build"):
            shutil.rmtree(entry)
    shutil.copytree(ROOT, to, ignore=skipped, dirs_exist_ok=True)


def first_failure(command, environment, timeout):
    """The name of the first test case that fails in a Catch2 program, or None if all pass.

    A report of the GPU model (on standard error) counts for the test case that is running, so the names of cases must
    not wait in a buffer."""
    try:
        done = subprocess.run(["stdbuf", "-oL", *command, "--abort", "-r", "xml"], env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=timeout)
        output, status = done.stdout, done.returncode
    except subprocess.TimeoutExpired as late:
        output, status = (late.stdout or b"").decode(errors="replace"), None
    if status == 0:
        return None
    running = {}  # by rank, where mpirun's --tag-output names the rank of a line
    name = None
    for line in output.splitlines():
        rank, _, text = line.rpartition("<stdout>:")
        started = re.search(r'<TestCase name="([^"]*)"', text)
        if started:
            running[rank] = started.group(1)
        name = running.get(rank, name)
        if 'success="false"' in text or text.startswith("gpu model: "):
            break
    return (name or "(before the first test)") + (" (does not end)" if status is None else "")
