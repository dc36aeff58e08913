"""Tests of scripts/readme_figures.py on a copy of the repository's pages and result files. Without matplotlib, stale
pictures are refused instead of drawn."""
import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import gpu_figures  # noqa: E402
import readme_figures  # noqa: E402
RESULTS = pathlib.Path("benchmarks/results/cpu-amd-epyc-2-threads")


class ReadmeFigures(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        shutil.copy(ROOT / "README.md", self.root)
        shutil.copytree(ROOT / "docs", self.root / "docs")
        shutil.copytree(ROOT / RESULTS, self.root / RESULTS)
        shutil.copytree(ROOT / "lessons", self.root / "lessons")
        for shared in ("sass", "training", "gpu-nvidia-h100"):
            shutil.copytree(ROOT / RESULTS.parent / shared, self.root / RESULTS.parent / shared)

    def run_script(self, *flags):
        return subprocess.run([sys.executable, "-B", ROOT / "scripts/readme_figures.py", "--root", self.root, *flags],
                              capture_output=True, text=True, check=False)

    def refused(self, text, *flags):
        run = self.run_script(*flags)
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
        self.assertIn(text, run.stderr)
        return run

    def write(self, picture):
        """Writes what is stale; `picture` is the only stale picture."""
        if importlib.util.find_spec("matplotlib"):
            run = self.run_script()
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(self.run_script("--check").returncode, 0)
            xml.etree.ElementTree.parse(self.root / picture)
            return run
        run = self.refused(f"{picture} is stale, and drawing it needs matplotlib: pip install matplotlib")
        self.assertIn(f"error: {picture}: not what", self.run_script("--check").stderr)
        return run

    def edit(self, name, change):
        path = self.root / RESULTS / name
        result = json.loads(path.read_text())
        change(result)
        path.write_text(json.dumps(result))

    def test_stale_tables_are_named_and_made_anew(self):
        self.assertEqual(self.run_script("--check").returncode, 0)
        self.edit("torch_steps.json", lambda result: result["rows"][0].update(seconds=0.0123, torch_seconds=0.0369))
        before = (self.root / "README.md").read_text()
        run = self.refused("README.md", "--check")
        self.assertIn("docs/pictures/steps.svg", run.stderr)
        self.assertNotIn("docs/ladders.md", run.stderr)
        self.assertEqual((self.root / "README.md").read_text(), before)
        self.write("docs/pictures/steps.svg")
        after = (self.root / "README.md").read_text()
        self.assertRegex(after, r"\| 784-256-10, 64 \| 12\.3 ms \| .* \| 36\.9 ms \| 3\.0 \|")
        changed = [line for line in after.splitlines() if line not in before.splitlines()]
        self.assertEqual(len(changed), 1, changed)

    def test_tables_of_the_gpu_are_made_of_its_files_and_of_estimates(self):
        row = {"name": "add", "size": "8 f32", "seconds": 2.0}
        self.assertEqual(gpu_figures.error_of(row, {("add", "8 f32"): 3.0}), 0.5)
        self.assertIsNone(gpu_figures.error_of(row, {("add", "16 f32"): 3.0}))
        self.edit("../gpu-nvidia-h100/torch_steps.json", lambda result: result["rows"][0].update(
            seconds=0.02, torch_seconds=0.03, torch_modes={"eager": 0.04, "compiled": 0.03}))
        run = self.refused("README.md, docs/figures.md: not what", "--check")
        self.assertNotIn("docs/ladders.md", run.stderr)
        self.assertEqual(self.run_script().returncode, 0)
        self.assertRegex((self.root / "README.md").read_text(), r"\| 784-256-10, 64 \| 20\.0 ms \| .* \| 40\.0 ms \| 30\.0 ms \| 1\.5 \|")

    def test_a_ratio_to_pytorch_that_was_measured_beside_a_copy_is_taken_as_it_is(self):
        self.assertEqual(readme_figures.torch_ratio({"seconds": 2.0, "torch_seconds": 3.0}), 1.5)
        self.assertEqual(readme_figures.torch_ratio({"seconds": 2.0, "torch_seconds": 3.0, "torch_ratio": 1.2}), 1.2)

    def test_the_runs_of_the_files_are_named_by_revision_and_time(self):
        for path in (self.root / RESULTS).glob("*.json"):
            self.edit(path.name, lambda result: result.update(date="2026-11-25T04:00:00Z", revision="a1"))
        page, readme = self.root / "docs/figures.md", self.root / RESULTS / "README.md"
        run = self.refused("docs/figures.md", "--check")
        self.assertIn(str(RESULTS / "README.md"), run.stderr)
        for name, date, revision in (("bench_mpi", "2026-11-25T04:14:59Z", "a1"), ("bench_busy", "2026-11-25T04:30:00Z", "a1"),
                                     ("bench_simt", "2026-11-25T04:31:00Z", "b2-dirty")):
            self.edit(f"{name}.json", lambda result: result.update(date=date, revision=revision))
        self.assertEqual(self.run_script().returncode, 0)
        for path in (page, readme):
            text = path.read_text()
            self.assertIn("- 2026-11-25, 04:00 to 04:14 UTC, revision a1: `bench_accumulation`,", text)
            self.assertIn("- 2026-11-25, 04:30 UTC, revision a1: `bench_busy`\n"
                          "- 2026-11-25, 04:31 UTC, revision b2-dirty: `bench_simt`\n\n`-dirty`: ", text)
        self.assertEqual(self.run_script("--check").returncode, 0)
        self.edit("bench_busy.json", lambda result: result.pop("date"))
        self.refused("'runs' cannot be made of", "--check")

    def test_a_rung_is_compared_with_the_limit_of_the_picture(self):
        def change(result):
            for row, limit in zip(result["rows"], (0.1, 0.2, 0.3, 0.4, 0.9, 0.9)):
                row.update(seconds=1.0, limit_seconds=limit)
        self.edit("ladder_norm.json", change)
        results = readme_figures.Results(self.root / RESULTS)
        shares = [line.split(" | ")[3] for line in readme_figures.ladder(results, "norm")[2:8]]
        self.assertEqual([share.rstrip(" |") for share in shares], ["35%"] * 6)
        _, (_, others, _, _) = readme_figures.ladder_picture(results, "norm")
        self.assertAlmostEqual(dict(others)["limit"], results.rows("ladder_norm")[0]["bytes"] / 0.35 * 1e-9)

    def test_a_picture_that_is_missing_or_of_other_data_is_stale(self):
        (self.root / "docs/pictures/roofline.svg").unlink()
        self.refused("error: docs/pictures/roofline.svg: not what", "--check")
        self.write("docs/pictures/roofline.svg")
        shutil.copy(ROOT / "docs/pictures/ladder_norm.svg", self.root / "docs/pictures/ladder_gemm.svg")
        self.refused("docs/pictures/ladder_gemm.svg: not what", "--check")

    def test_pictures_are_xml_with_every_rung_and_kernel(self):
        for path in (self.root / "docs/pictures").glob("*.svg"):
            xml.etree.ElementTree.parse(path)
        gemm = (self.root / "docs/pictures/ladder_gemm.svg").read_text()
        self.assertEqual(gemm.count('id="bar '), 9 + len(self.vendors_of_gemm()) + 1)  # and the limit
        rows = json.loads((self.root / RESULTS / "bench_kernels.json").read_text())["rows"]
        roofline = (self.root / "docs/pictures/roofline.svg").read_text()
        for name in {row["name"] for row in rows if "flops" in row}:
            self.assertIn(f'id="{name}"', roofline)

    def vendors_of_gemm(self):
        rows = json.loads((self.root / RESULTS / "ladder_gemm.json").read_text())["rows"]
        return {row.get("inputs", "f32") for row in rows}

    def test_a_ladder_names_its_dtypes_and_the_rungs_that_are_not_faster(self):
        def change(result):
            for i, row in enumerate(result["rows"]):
                row.update(seconds=1.0 / (i + 1), inputs="bf16" if i == 8 else "f32")
            result["rows"][4].update(seconds=0.25)  # as rung 4
        self.edit("ladder_gemm.json", change)
        run = self.run_script()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("ladder gemm, not faster than the rung before: 5 tile 2D\n", run.stdout)
        page = (self.root / "docs/ladders.md").read_text()
        self.assertIn("| 5 tile 2D \\* | 250 ms |", page)
        self.assertIn("\\* not faster than the rung before, in this run: 5 tile 2D.", page)
        self.assertIn("| 6 vectorised | 167 ms |", page)
        self.assertIn("| 9 tensor core (bf16) |", page)
        _, (rungs, others, unit, title) = readme_figures.ladder_picture(readme_figures.Results(self.root / RESULTS), "gemm")
        self.assertEqual([name for name, _ in rungs][-2:], ["8 warp tile", "9 tensor core, bf16"])
        self.assertEqual([name for name, _ in others], ["oneDNN 2.6, bf16", "oneDNN 2.6, f32", "limit"])
        self.assertTrue(title.endswith("1024 x 1024, f32 and bf16"), title)
        self.assertEqual(unit, "GFLOP/s")
        self.edit("ladder_gemm.json", lambda result: result["rows"][4].update(seconds=0.2))
        self.assertEqual(self.run_script().returncode, 0)
        self.assertIn("Each rung is faster than the one before.", (self.root / "docs/ladders.md").read_text())

    def test_bad_numbers_are_named_with_their_file(self):
        def bad(name, text, change):
            path = self.root / RESULTS / name
            good = path.read_text()
            self.edit(name, change)
            run = self.refused(name, "--check")
            self.assertIn(text, run.stderr)
            path.write_text(good)
        def first(**values):
            return lambda result: result["rows"][0].update(values)
        bad("ladder_gemm.json", "one at least", lambda result: result["rows"].clear())
        bad("bench_kernels.json", "has '1' seconds", first(seconds="1"))
        bad("ladder_norm.json", "has -3.0 gb_per_s", first(gb_per_s=-3.0))
        bad("bench_simt.json", "has nan seconds", first(seconds=float("nan")))
        bad("bench_simt.json", "'loops'", first(size="many"))
        bad("bench_gemm.json", "of size '8'", first(size="8"))
        bad("torch_gemm.json", "row 0 has no 'name'", lambda result: result["rows"][0].pop("name"))
        bad("torch_steps.json", "as torch_modes, expected times of", first(torch_modes={"lazy": 1.0}))
        bad("torch_steps.json", "has 0 seconds of eager", first(torch_modes={"eager": 0}))
        bad("bench_loader.json", "row 1 is the second", lambda result: result["rows"].insert(0, result["rows"][0]))

    def test_bad_results_and_pages(self):
        self.refused("cannot be read", "--folder", "none")
        path = self.root / RESULTS / "bench_simt.json"
        self.edit("bench_simt.json", lambda result: result["rows"][0].pop("seconds"))
        self.refused("bench_simt.json in", "--check")
        path.write_text("{")
        self.refused("is no JSON", "--check")
        path.write_text("[]")
        self.refused("is no result file", "--check")
        path.unlink()
        self.refused("cannot be read", "--check")
        page = self.root / "README.md"
        text = page.read_text()
        page.write_text(text.replace("figures: steps -->", "figures: stairs -->"))
        self.refused("no table is named 'stairs'", "--check")
        page.write_text(text.replace("<!-- end of figures -->", "", 1))
        self.refused("README.md", "--check")


if __name__ == "__main__":
    unittest.main()
