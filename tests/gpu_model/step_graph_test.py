#!/usr/bin/env python3
"""The launches that --print-graph lists on the GPU model: step_graph_test.py BIN [--write]. The update is that of mnist's
defaults, 784-256-10 with a batch of 64. docs/profiling.md shows the list, and step_graph.json, which benchmarks/sass graph
reads for docs/sass.md, is the file; --write rewrites both."""
import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE, FILE = ROOT / "docs" / "profiling.md", Path(__file__).with_name("step_graph.json")
SHOWN = re.compile(r"(?<=```\n)CUDA graph of an update: .*?(?=```)", re.DOTALL)
BIN = Path()


def run(words, folder):
    return subprocess.run([BIN / "mnist", *words.split()], capture_output=True, text=True, cwd=folder, check=False)


def list_launches(flags=""):
    """What --print-graph prints of an update with these flags, and what --save-graph writes."""
    with tempfile.TemporaryDirectory() as folder:
        done = run(f"--device cuda --graph --max-steps 2 --print-graph --save-graph graph.json {flags}", folder)
        if done.returncode != 0:
            sys.exit(f"mnist: {done.stderr}")
        text = done.stdout[done.stdout.index("CUDA graph of an update"):]
        return text[:text.index("graph written to")], Path(folder, "graph.json").read_text()


def kernels_of(launches):
    return [launch["kernel"].split("<")[0] for launch in launches]


class StepGraph(unittest.TestCase):
    def test_the_update_of_784_256_10(self):
        launches = json.loads(list_launches()[1])["launches"]
        self.assertEqual(kernels_of(launches), [
            "normalize_pixels", "product 64 x 256 x 784", "relu_forward", "product 64 x 10 x 256",  # forward
            "cross_entropy_thread_per_row",
            "product 64 x 256 x 10", "product 10 x 256 x 64", "relu_backward", "product 256 x 784 x 64",  # backward
            "adam_coefficients", "adam_update"])
        # All of it is queued in one stream: a chain.
        self.assertEqual([launch["after"] for launch in launches], [[], *([i] for i in range(len(launches) - 1))])
        # 64 rows of 784 pixels, four floats for each thread; 256 outputs of 64 rows
        self.assertEqual(launches[0]["grid"][0] * launches[0]["block"][0], 64 * 784 // 4)
        self.assertEqual(launches[7]["grid"][0] * launches[7]["block"][0], 64 * 256 // 4)
        self.assertEqual(launches[1]["grid"], [0, 0, 0])  # unknown for a library's launch
        # The work of the product of 64 x 784 with 784 x 256.
        self.assertEqual((launches[1]["dtype"], launches[1]["flops"]), ("f32", 2 * 64 * 256 * 784))
        self.assertEqual(launches[1]["bytes"], 4 * (64 * 784 + 784 * 256 + 64 * 256))

    def test_our_own_products_take_launches_for_bias_and_relu(self):
        kernels = kernels_of(json.loads(list_launches("--gemm own")[1])["launches"])
        self.assertEqual(sum(kernel.startswith("gemm") for kernel in kernels), 5)
        self.assertEqual(kernels.count("relu_forward"), 1)
        self.assertEqual(kernels.count("sum_columns"), 2)

    def test_clipping_adds_launches_before_the_step(self):
        plain, clipped = (kernels_of(json.loads(list_launches(flags)[1])["launches"]) for flags in ("", "--clip-norm 1"))
        added = [kernel for kernel in clipped if kernel not in plain]
        self.assertIn("gradient_norm", added)
        self.assertLess(clipped.index("gradient_norm"), clipped.index("adam_update"))

    def test_the_page_and_the_file_show_it(self):
        text, file = list_launches()
        self.assertEqual(SHOWN.search(PAGE.read_text())[0], text)
        self.assertEqual(FILE.read_text(), file)

    def test_a_run_without_a_captured_update_is_refused(self):
        for flags, reason in (("--device cuda --graph", "no update was captured"),
                              ("--device cuda", "--print-graph has no effect: expected --graph with it"),
                              ("--device cpu --graph", "cpu has no CUDA graphs, expected a GPU")):
            with tempfile.TemporaryDirectory() as folder:
                done = run(f"{flags} --max-steps 1 --print-graph", folder)
                self.assertIn(done.returncode, (1, 2), flags)
                self.assertIn(reason, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


if __name__ == "__main__":
    BIN = Path(sys.argv[1]).resolve()
    if "--write" in sys.argv:
        shown, saved = list_launches()
        PAGE.write_text(SHOWN.sub(lambda _: shown, PAGE.read_text()))
        FILE.write_text(saved)
    else:
        unittest.main(argv=sys.argv[:1])
