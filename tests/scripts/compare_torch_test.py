"""Tests of benchmarks/compare_torch.py without PyTorch: with programs that only write a file, and with given times."""
import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "compare_torch.py"
sys.path.insert(0, str(SCRIPT.parent))
import compare_torch  # noqa: E402


class TimerOf(compare_torch.Timer):
    """A timer of works that state their seconds, in rounds that may differ in speed."""

    def __init__(self, speeds=(1,)):
        super().__init__(None, "cpu")
        self.speeds, self.taken = speeds, []

    def seconds(self, work, runs):
        self.taken.append(runs)
        return work.seconds * self.speeds[len(self.taken) % len(self.speeds)]


class Work:
    def __init__(self, seconds):
        self.seconds, self.calls = seconds, 0

    def __call__(self):
        self.calls += 1


class Events:
    """A GPU's events: a clock in milliseconds that each call of the work advances."""

    def __init__(self):
        self.now = 0
        outer = self

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                self.at = outer.now

            def synchronize(self):
                pass

            def elapsed_time(self, other):
                return other.at - self.at

        self.torch = types.SimpleNamespace(cuda=types.SimpleNamespace(Event=Event))

    def work(self):
        self.now += 4


class CompareTorch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_round_has_as_many_runs_as_its_time_needs(self):
        timer = TimerOf()
        self.assertEqual(timer.in_turn([Work(0.5e-3), Work(0.1)], 15, 2e-3), [0.5e-3, 0.1])
        self.assertEqual(timer.taken, [1, 1] + [4, 1] * 15)
        timer = TimerOf()
        self.assertEqual(timer.in_turn([Work(0.3)], 15, 2e-3), [0.3])  # a long run
        self.assertEqual(timer.taken, [1] + [1] * 3)
        timer = TimerOf()
        timer.in_turn([Work(1e-9)], 1, 2e-3)
        self.assertEqual(timer.taken, [1, 1000])

    def test_a_gpu_is_timed_by_its_events(self):
        gpu = Events()
        timer = compare_torch.Timer(gpu.torch, "cuda")
        self.assertEqual(timer.in_turn([gpu.work], 3, 8e-3), [4e-3])
        self.assertEqual(gpu.now, 4 * (1 + 1 + 3 * 2))

    def test_kernels_are_compared_by_their_copies_where_memory_bounds_both(self):
        def of(own, own_copy, torch, torch_copy):
            return {"own": own, "own_copy": own_copy, "torch": torch, "torch_copy": torch_copy}
        of_both = [of(4, 2, 8, 5), of(2, 2, 12, 9), of(3, 2, 4, 4)]
        self.assertEqual(compare_torch.time_and_ratio(of_both), (8, 0.8))  # of 8/5 : 2, 12/9 : 1 and 1 : 1.5
        # By the medians PyTorch's kernel takes three copies' time, so memory does not bound it, though in one round it seems so.
        of_one = [of(3, 2, 12, 6), of(4, 2, 6, 2), of(4, 2, 5, 2)]
        self.assertEqual(compare_torch.time_and_ratio(of_one), (6, 1.5))
        self.assertEqual(compare_torch.time_and_ratio([of(9, 2, 4, 4)] * 3), (4, 4 / 9))
        self.assertEqual(compare_torch.time_and_ratio([{"own": 2, "torch": 3}]), (3, 1.5))

    def test_the_copy_has_the_bytes_of_the_row(self):
        torch = types.SimpleNamespace(randn=lambda n, device: n, empty=lambda n, device: Copied())

        class Copied:
            def copy_(self, source):
                copied.append(source)

        class OneCall(compare_torch.Timer):
            def in_turn(self, works, rounds, round_seconds):
                for work in works:
                    work()
                return [0.012, 0.004]

        copied = []
        row = {"bytes": 1 << 30, "seconds": 0.004, "limit_seconds": 0.002}
        times = compare_torch.times_of_round(torch, OneCall(None, "cpu"), row, Work(1), "cpu")
        self.assertEqual(times, {"own": 0.004, "own_copy": 0.002, "torch": 0.012, "torch_copy": 0.008})
        self.assertEqual(copied, [1 << 26])  # at most 512 MiB, which are half of the row's

    def run_of(self, seconds, least, most, settings=None):
        row = {"name": "a", "size": "8", "seconds": seconds, "least_seconds": least, "most_seconds": most, "bytes": 6e9,
               "gb_per_s": 6 / seconds, "limit_seconds": seconds / 2, "model": "m", "batch": 64}
        return {"program": "bench", "settings": settings or {}, "rows": [row]}

    def test_runs_are_merged_by_the_medians_of_their_numbers(self):
        rows = compare_torch.merged([self.run_of(3.0, 2.5, 3.5), self.run_of(2.0, 1.5, 9.0), self.run_of(8.0, 7.0, 8.5)])
        self.assertEqual(rows, [{"name": "a", "size": "8", "seconds": 3.0, "least_seconds": 1.5, "most_seconds": 9.0,
                                 "bytes": 6e9, "gb_per_s": 2.0, "limit_seconds": 1.5, "model": "m", "batch": 64}])
        measured = [self.run_of(1.0, 1.0, 1.0, {"limit_gflop_per_s": rate, "gemm": "g"}) for rate in (1.0, 5.0, 2.0)]
        self.assertEqual(len(compare_torch.merged(measured)), 1)
        self.assertEqual(compare_torch.median_setting(measured, "limit_gflop_per_s"), 2.0)
        with self.assertRaisesRegex(SystemExit, "different settings: gemm: g and h"):
            compare_torch.merged([measured[0], self.run_of(1.0, 1.0, 1.0, {"gemm": "h"})])
        other = self.run_of(1.0, 1.0, 1.0)
        other["rows"][0]["size"] = "9"
        with self.assertRaisesRegex(SystemExit, "different rows"):
            compare_torch.merged([self.run_of(1.0, 1.0, 1.0), other])

    def test_the_parameters_are_those_of_gpt2_on_both_sides(self):
        lengths = compare_torch.gpt2_lengths()
        self.assertEqual((len(lengths), sum(lengths)), (148, 124_439_808))
        row = {"name": "gradient_norm", "size": "148 of GPT-2", "bytes": 4.0 * 124_439_808}
        compare_torch.check_lengths(row)
        with self.assertRaisesRegex(SystemExit, "bench_kernels has 124439807 elements"):
            compare_torch.check_lengths(dict(row, bytes=row["bytes"] - 4))

    def options(self):
        return types.SimpleNamespace(bin=str(self.folder), device="cpu", threads=1, described={}, waited=[])

    def program(self, script):
        path = self.folder / "bench_busy"
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)

    def writes(self, **content):
        result = dict(self.run_of(1.0, 1.0, 1.0), machine={"device": "cpu"}, date="2026", revision="r")
        self.program(f"cat >\"$2\" <<'END'\n{json.dumps(dict(result, **content))}\nEND\n")

    def test_the_largest_wait_and_the_machine_are_kept(self):
        options = self.options()
        for wait in (0.01, 0.04, 0.02):
            self.writes(waited_for_core=wait)
            compare_torch.run_benchmark(options, "bench_busy")
        self.assertEqual(options.waited, [0.01, 0.04, 0.02])
        self.assertEqual(options.described, {"machine": {"device": "cpu"}, "date": "2026", "revision": "r"})
        self.writes(machine={"device": "cuda:0"})
        with self.assertRaisesRegex(SystemExit, "another machine or device"):
            compare_torch.run_benchmark(options, "bench_busy")

    def test_a_program_that_fails_is_one_line(self):
        with self.assertRaisesRegex(SystemExit, "^error: .*bench_busy was not found"):
            compare_torch.run_benchmark(self.options(), "bench_busy")
        self.program("echo note >&2; echo 'error: no memory' >&2; exit 3\n")
        with self.assertRaisesRegex(SystemExit, "^error: .*bench_busy ended with 3: no memory$"):
            compare_torch.run_benchmark(self.options(), "bench_busy")
        self.program("exit 0\n")
        with self.assertRaisesRegex(SystemExit, "^error: .*bench_busy wrote no result file: "):
            compare_torch.run_benchmark(self.options(), "bench_busy")

    def refused(self, text, *arguments, status):
        run = subprocess.run([sys.executable, "-B", SCRIPT, *arguments], capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, status, run.stderr)
        self.assertIn(text, run.stderr.splitlines()[-1])

    def test_wrong_flags_are_refused_before_anything_is_measured(self):
        missing = str(self.folder / "none" / "x.json")
        self.refused(f"error: {missing} cannot be written", "steps", "--json", missing, status=1)
        self.refused("cannot be written", "steps", "--json", str(self.folder), status=1)
        self.refused("busy measures a CPU's threads", "busy", "--device", "cuda", status=2)
        self.refused("loader measures a CPU's threads", "loader", "--device", "cuda", status=2)

    def test_a_file_is_replaced_as_a_whole(self):
        path = self.folder / "x.json"
        path.write_text("old")
        compare_torch.write_whole(str(path), "new")
        self.assertEqual(path.read_text(), "new")
        self.assertEqual([each.name for each in self.folder.iterdir()], ["x.json"])

    def test_a_ratio_stands_in_the_line_and_in_the_row(self):
        row = {"name": "add", "size": "2^24", "seconds": 0.004}
        with contextlib.redirect_stdout(io.StringIO()) as line:
            with_ratio = compare_torch.table_row(row, 0.012, 1.5)
            without = compare_torch.table_row(row, 0.012)
        self.assertEqual([each.split()[-1] for each in line.getvalue().splitlines()], ["1.50", "3.00"])
        self.assertEqual(with_ratio, dict(row, torch_ratio=1.5, torch_seconds=0.012))
        self.assertEqual(without, dict(row, torch_seconds=0.012))


if __name__ == "__main__":
    unittest.main()
