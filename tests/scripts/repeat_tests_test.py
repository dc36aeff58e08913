"""Tests of scripts/repeat_tests.sh on folders with small tests."""
import contextlib
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "repeat_tests.sh"


class RepeatTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = pathlib.Path(folder.name)

    def tests(self, **commands):
        lines = [f'add_test({name} "sh" "-c" "{command}")\n' for name, command in commands.items()]
        (self.build / "CTestTestfile.cmake").write_text("".join(lines))

    def run_script(self, *arguments):
        return subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, check=False,
                              env=dict(os.environ, BUILD=str(self.build)))

    def test_runs_and_failures_are_counted(self):
        self.tests(good="true")
        run = self.run_script("3")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("3 runs: 0 failures", run.stdout)
        self.tests(good="true", bad="echo because; false")
        run = self.run_script("2", "--busy", "-R", "good|bad")
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertEqual(run.stdout.count("  bad (Failed)"), 2, run.stdout)
        self.assertRegex(run.stdout, r"2 runs beside \d+ busy loops: 2 failures")
        self.assertIn("because", (self.build / "repeated/1.log").read_text())
        run = self.run_script("1", "-R", "good")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_wrong_calls(self):
        self.assertIn("error: no tests in", self.run_script().stderr)
        self.tests(good="true")
        for arguments in (["0"], ["--busy", "2"], ["ten"]):
            self.assertEqual(self.run_script(*arguments).returncode, 2, arguments)
        self.assertIn("2 runs: 0 failures", self.run_script("02").stdout)
        self.assertIn("1 runs: 1 failures", self.run_script("1", "-N").stdout)  # which runs no test
        self.assertIn("scripts/repeat_tests.sh [N]", self.run_script("--help").stdout)

    def test_busy_loops_end_with_the_script(self):
        self.tests(long=f"touch {self.build}/runs; exec sleep 600")
        for how in (signal.SIGTERM, signal.SIGKILL):
            (self.build / "runs").unlink(missing_ok=True)
            script = subprocess.Popen([SCRIPT, "1", "--busy"], env=dict(os.environ, BUILD=str(self.build)),
                                      stdout=subprocess.DEVNULL, start_new_session=True)
            while not (self.build / "runs").exists():
                time.sleep(0.05)
            loops = [pid for pid in self.session(script.pid) if "repeat_tests.sh" in self.command(pid) and pid != script.pid]
            self.assertGreaterEqual(len(loops), 1)
            script.send_signal(how)
            script.wait()
            deadline = time.monotonic() + 60
            while any("repeat_tests.sh" in self.command(pid) for pid in loops) and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertEqual([pid for pid in loops if "repeat_tests.sh" in self.command(pid)], [])
            if how == signal.SIGTERM:
                while self.running_tests(script.pid) and time.monotonic() < deadline:
                    time.sleep(0.05)
                self.assertEqual(self.running_tests(script.pid), [])
            for pid in self.session(script.pid):  # the test itself, which SIGKILL leaves running
                with contextlib.suppress(ProcessLookupError):  # it may just be ending
                    os.kill(pid, signal.SIGKILL)

    def running_tests(self, leader):
        return [pid for pid in self.session(leader) if "sleep" in self.command(pid)]

    def session(self, leader):
        found = subprocess.run(["ps", "-s", str(leader), "-o", "pid="], capture_output=True, text=True, check=False)
        return [int(pid) for pid in found.stdout.split()]

    def command(self, pid):
        try:
            return pathlib.Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            return ""


if __name__ == "__main__":
    unittest.main()
