"""Tests of benchmarks/measure_all.sh with programs that only write a file, or fail."""
import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "measure_all.sh"
WRITES = '#!/bin/sh\nwhile [ "$1" != --json ]; do shift; done\necho new >"$2"\necho printed\n'


class MeasureAll(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bin, self.out = pathlib.Path(folder.name) / "bin", pathlib.Path(folder.name) / "out"
        self.bin.mkdir()
        self.out.mkdir()
        for name in ("step", "simt", "gemm", "attention", "kernels", "loader", "tokenizer", "accumulation", "busy"):
            self.program(f"bench_{name}", WRITES)
        self.program("ladder", WRITES)

    def program(self, name, text):
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def run_script(self):
        return subprocess.run([SCRIPT, self.out, self.bin], capture_output=True, text=True, check=False,
                              env=dict(os.environ, PYTHON="false"))

    def test_all_results_are_of_one_run(self):
        for name in ("bench_simt.json", "torch_steps.json", "collectives.json", "other.csv", "README.md"):
            (self.out / name).write_text("old")
        run = self.run_script()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual({path.read_text() for path in self.out.glob("*.json")}, {"new\n"})
        self.assertEqual(len(list(self.out.glob("*.json"))), 3 + 8 + 7)
        self.assertEqual((self.out / "ladder_norm.txt").read_text(), "printed\n")
        self.assertEqual((self.out / "other.csv").read_text(), "old")  # of another script
        self.assertEqual((self.out / "README.md").read_text(), "old")

    def test_a_program_that_fails_is_named_and_stops_no_other(self):
        (self.out / "bench_gemm.json").write_text("old")
        self.program("bench_gemm", "#!/bin/sh\nexit 3\n")
        run = self.run_script()
        self.assertEqual(run.returncode, 1)
        self.assertEqual(run.stderr, "error: failed: bench_gemm\n")
        self.assertFalse((self.out / "bench_gemm.json").exists())
        self.assertTrue((self.out / "ladder_transpose.json").exists())


if __name__ == "__main__":
    unittest.main()
