"""Tests of scripts/compare_results.py, run as a program."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "compare_results.py"
MACHINE = {"device": "cpu", "cpu": "A", "cores": "2", "threads": "2", "compiler": "g++ 12"}


def result(seconds, machine=None, **more):
    rows = [{"name": name, "size": "8", "seconds": value} for name, value in seconds.items()]
    return {"program": "bench", "machine": machine or MACHINE, "settings": {}, "rows": rows} | more


class CompareResults(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def write(self, name, content):
        file = self.path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(file)

    def run_script(self, *arguments):
        return subprocess.run([sys.executable, "-B", SCRIPT, *arguments], capture_output=True, text=True, check=False)

    def compare(self, old, new, *flags):
        return self.run_script(self.write("old.json", old), self.write("new.json", new), *flags)

    def refused(self, run, text):
        self.assertEqual(run.returncode, 2, run.stdout + run.stderr)
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
        self.assertTrue(run.stderr.startswith("error: "), run.stderr)
        self.assertIn(text, run.stderr)

    def test_ratios_and_the_threshold(self):
        old, new = result({"a": 1e-3, "b": 2e-3}), result({"a": 1.09e-3, "b": 1e-3})
        run = self.compare(old, new)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(" 1.090", run.stdout)
        self.assertIn(" 0.500", run.stdout)
        self.assertIn("2 rows compared, 0 slower by more than 10%", run.stdout)
        run = self.compare(old, new, "--threshold", "8")
        self.assertEqual(run.returncode, 1)
        self.assertIn("bench: a, 8: 1.09 times as long", run.stdout)
        self.assertNotIn("bench: b", run.stdout)

    def test_a_row_is_matched_by_its_size_too(self):
        old, new = result({"a": 1.0}), result({"a": 5.0})
        new["rows"][0]["size"] = "16"
        self.refused(self.compare(old, new), "have no row in common")
        new["rows"].append({"name": "a", "size": "8", "seconds": 1.0})
        run = self.compare(old, new)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("only in the new file: a, 16", run.stdout)

    def test_rows_without_a_time_are_left_alone(self):
        old, new = result({"a": 1.0}), result({"a": 1.0})
        for file, peak in ((old, 10), (new, 99)):
            file["rows"].append({"name": "memory", "size": "8", "peak_bytes": peak})
        run = self.compare(old, new)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("1 rows compared", run.stdout)

    def test_other_machines(self):
        for name, value in (("cpu", "B"), ("threads", "1"), ("gpu", "G"), ("device", "cuda:0")):
            other = result({"a": 1.0}, dict(MACHINE, **{name: value}))
            self.refused(self.compare(result({"a": 1.0}), other), f"different machines ({name}: ")
            self.assertEqual(self.compare(result({"a": 1.0}), other, "--other-machine").returncode, 0)
        run = self.compare(result({"a": 1.0}), result({"a": 1.0}, dict(MACHINE, compiler="g++ 13")))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("note: compiler: g++ 12 and g++ 13", run.stdout)

    def test_other_settings(self):
        old, new = (result({"a": 1.0}, settings={"dtype": dtype, "limit_gflop_per_s": 1.0}) for dtype in ("f32", "bf16"))
        self.refused(self.compare(old, new), "the files of bench have different settings (dtype: f32 and bf16)")
        self.refused(self.compare(old, new, "--other-machine"), "different settings")
        self.refused(self.compare(result({"a": 1.0}), result({"a": 1.0}, settings={"rounds": 3})), "rounds: unknown and 3")
        new = dict(old, settings={"dtype": "f32", "limit_gflop_per_s": 2.0, "vendor": "oneDNN 3"})
        run = self.compare(old, new)  # measured, and a library's version
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("note: setting vendor: unknown and oneDNN 3", run.stdout)

    def test_a_busy_machine_is_named(self):
        run = self.compare(result({"a": 1.0}, waited_for_core=0.05), result({"a": 1.0}, waited_for_core=0.41))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
        self.assertIn("new.json: the machine was too busy: a thread waited for a core for 41% of the time", run.stderr)
        self.refused(self.compare(result({"a": 1.0}), result({"a": 1.0}, waited_for_core="1")), "has '1' waited_for_core")

    def test_folders(self):
        self.write("old/x.json", result({"a": 1.0}))
        self.write("old/y.json", result({"b": 1.0}))
        self.write("new/x.json", result({"a": 2.0}))
        run = self.run_script(str(self.path / "old"), str(self.path / "new"))
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("1 rows compared, 1 slower", run.stdout)
        self.assertIn("1 missing in", run.stdout)
        self.assertIn("  y.json\n", run.stdout)
        self.write("new/x.json", result({"a": 1.0}))
        run = self.run_script(str(self.path / "old"), str(self.path / "new"))  # nothing is slower, but y is missing
        self.assertEqual(run.returncode, 1, run.stdout)
        self.write("new/y.json", result({"b": 1.0}))
        self.write("new/z.json", result({"c": 1.0}))
        run = self.run_script(str(self.path / "old"), str(self.path / "new"))
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertIn("only in the new folder: z.json", run.stdout)
        self.refused(self.run_script(str(self.path / "old"), str(self.path / "old/x.json")), "two files or two folders")

    def test_a_row_that_has_vanished_counts(self):
        run = self.compare(result({"a": 1.0, "b": 1.0}), result({"a": 1.0, "c": 1.0}))
        self.assertEqual(run.returncode, 1, run.stdout)
        self.assertIn("1 missing in", run.stdout)
        self.assertIn("bench: b, 8", run.stdout)
        self.assertIn("only in the new file: c, 8", run.stdout)

    def test_bad_files(self):
        good = result({"a": 1.0})
        self.refused(self.run_script(self.write("a.json", good), str(self.path / "none.json")), "cannot be read")
        for content, text in (("{", "is no JSON"), ("[1]", "is no result file"), ({"program": "bench"}, "expected 'machine'"),
                              (dict(good, rows={}), "expected 'rows'"), (dict(good, rows=[{}]), "row 0 has no 'name'"),
                              (result({"a": 0}), "has 0 seconds"), (result({"a": "1"}), "has '1' seconds"),
                              (result({"a": float("nan")}), "has nan seconds"),
                              (json.dumps(good).replace("1.0", "1" + "0" * 400), "a number above 0"),
                              ("[" * 100000, "nested too deeply"), (dict(good, rows=[]), "one at least"),
                              (dict(good, rows=good["rows"] * 2), "row 1 is the second of name 'a'"),
                              (dict(good, program="other"), "expected one program")):
            self.refused(self.compare(good, content), text)
        self.refused(self.compare(good, good, "--threshold", "nan"), "--threshold is nan")


if __name__ == "__main__":
    unittest.main()
