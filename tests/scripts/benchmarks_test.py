"""Tests of the benchmark programs' command lines and of the files of --json:  benchmarks_test.py BIN_FOLDER"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv.pop()).resolve()
COMPARE = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "compare_results.py"
PROGRAMS = ["bench_accumulation", "bench_attention", "bench_busy", "bench_gemm", "bench_gpt", "bench_kernels",
            "bench_loader", "bench_overlap", "bench_pipeline", "bench_simt", "bench_step", "bench_tokenizer", "ladder"]
if (BIN / "bench_mpi").exists():
    PROGRAMS.append("bench_mpi")


def run(program, *arguments):
    return subprocess.run([BIN / program, *arguments], capture_output=True, text=True, timeout=600, check=False)


class Benchmarks(unittest.TestCase):
    def refused(self, text, *command, status):
        result = run(*command)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("error: "), result.stderr)
        self.assertIn(text, result.stderr)

    def test_every_program_has_help_and_writes_json(self):
        for program in PROGRAMS:
            result = run(program, "--help")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("--json FILE", result.stdout)

    def test_wrong_flags(self):
        for program in PROGRAMS:
            ladder = ["gemm"] if program == "ladder" else []
            self.refused("--wrong", program, *ladder, "--wrong", status=2)
            self.refused("the file name is empty", program, *ladder, "--json", "", status=2)
        self.refused("ladder: found none, expected ", "ladder", status=2)
        self.refused("no ladder is named 'stairs'", "ladder", "stairs", status=1)
        self.refused("has no rung 99", "ladder", "gemm", "--rung", "99", "--size", "128", status=1)
        self.refused("a size of 100, expected a multiple", "ladder", "gemm", "--size", "100", status=1)
        self.refused("device 'tpu' is unknown", "bench_kernels", "--device", "tpu", status=2)
        for program in ("bench_attention", "bench_gemm", "bench_gpt", "bench_step"):
            self.refused("--dtype: expected f32, bf16", program, "--dtype", "f8", status=2)
        self.refused("--context", "bench_gpt", "--context", "1025", status=2)
        self.refused("expected one of them above 0", "bench_gpt", "--steps", "0", "--tokens", "0", status=2)
        for processes in ("0", "1025"):
            self.refused("--processes: expected a number from 1 to 1024", "bench_busy", "--processes", processes, status=2)
        self.refused("--layers: expected a multiple of two, found 3", "bench_pipeline", "--layers", "3", status=2)
        self.refused("--slow-link: expected LATENCY_US,MBYTES_PER_S", "bench_overlap", "--slow-link", "x", status=2)
        if "bench_mpi" in PROGRAMS:
            self.refused("--min-bytes is 5000, expected at most --max-bytes, 1000", "bench_mpi", "--min-bytes", "5000",
                         "--max-bytes", "1000", status=1)
        self.refused("expected a number from 1", "bench_loader", "--step-us", "nan", status=2)
        self.refused("found one rank, expected at least two", "bench_overlap", status=1)
        self.refused("found one rank, expected at least two", "bench_pipeline", status=1)

    def check_format(self, path):
        result = json.loads(path.read_text())
        self.assertEqual(list(result["machine"])[0], "device")
        for fact in ("cpu", "cores", "threads", "memory", "system", "compiler", "build", "kernel flags"):
            self.assertTrue(result["machine"][fact])
        self.assertRegex(result["date"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        for row in result["rows"]:
            if "flops" in row:
                self.assertAlmostEqual(row["gflop_per_s"] * row["seconds"] * 1e9 / row["flops"], 1)
            if "bytes" in row:
                self.assertAlmostEqual(row["gb_per_s"] * row["seconds"] * 1e9 / row["bytes"], 1)
        # The script that compares accepts it.
        compared = subprocess.run([sys.executable, "-B", COMPARE, path, path], capture_output=True, text=True, check=False)
        self.assertEqual(compared.returncode, 0, compared.stderr)
        return result

    def test_result_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "result.json"
            ladder = run("ladder", "gemm", "--size", "128", "--device", "cpu", "--json", path)
            self.assertEqual(ladder.returncode, 0, ladder.stderr)
            result = self.check_format(path)
            self.assertEqual(result["program"], "ladder gemm")
            self.assertEqual(result["settings"]["limit"], "f32 multiply-adds in registers")
            self.assertEqual([row["name"].split()[0] for row in result["rows"]], [str(i) for i in range(1, 10)])
            for row in result["rows"]:
                self.assertEqual((row["size"], row["flops"]), ("128 x 128", 2 * 128**3))
                self.assertNotIn("bytes", row)  # they differ between bf16 and f32
                self.assertGreater(row["limit_seconds"], 0)
            # The limit is measured in turn with each rung, so it differs from rung to rung.
            self.assertGreater(len({row["limit_seconds"] for row in result["rows"]}), 1)
            self.assertEqual([row["inputs"] for row in result["rows"]], ["f32"] * 8 + ["bf16"])
            self.assertIn("medians of 7 rounds, 3 where one takes 250 ms or more", ladder.stdout)
            for text in (" 0.0%", " 0.0 ", " 0.000 "):
                self.assertNotIn(text, ladder.stdout)
            small = run("bench_gpt", "--device", "cpu", "--batch-size", "1", "--context", "2", "--steps", "2", "--tokens", "2",
                        "--json", path)
            self.assertEqual(small.returncode, 0, small.stderr)
            rows = self.check_format(path)["rows"]
            self.assertEqual([(row["name"], row["size"]) for row in rows],
                             [("step of GPT-2 124M", "1 x 2 f32"), ("token of GPT-2 124M", "f32")])
            for row in rows:
                self.assertGreater(row["least_seconds"], 0)
                self.assertLessEqual(row["least_seconds"], row["seconds"])
                self.assertLessEqual(row["seconds"], row["most_seconds"])
            if (BIN / "collectives").exists():
                alone = run("collectives", "--device", "cpu", "--operations", "all_reduce", "--max-bytes", "2048",
                            "--iterations", "1", "--json", path)
                self.assertEqual(alone.returncode, 0, alone.stderr)
                result = self.check_format(path)
                self.assertEqual([row["size"] for row in result["rows"]], ["1024 bytes of f32", "2048 bytes of f32"])
            refused = run("ladder", "transpose", "--size", "64", "--json", str(pathlib.Path(folder) / "no" / "x.json"))
            self.assertEqual(refused.returncode, 1)
            self.assertIn("error: ", refused.stderr)

    def test_a_file_that_cannot_be_written_is_refused_before_measuring(self):
        missing = str(pathlib.Path(__file__).parent / "no folder" / "x.json")
        for program in PROGRAMS:
            if program in ("bench_overlap", "bench_pipeline"):
                continue  # need two ranks
            arguments = ["gemm"] if program == "ladder" else []
            result = run(program, *arguments, "--json", missing)
            self.assertEqual(result.returncode, 1, result.stdout)
            self.assertEqual(result.stdout, "", program)
            self.assertIn(missing, result.stderr)


if __name__ == "__main__":
    unittest.main()
