"""Checks that ringtape.h includes all public headers, and that `cmake --install` installs exactly these.

    tests/docs/public_headers_test.py             every header of the layers that programs use is in ringtape.h or internal
    tests/docs/public_headers_test.py INCLUDE     the same, and INCLUDE (.../include/ringtape) has exactly the public headers
"""
import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = Path(sys.argv.pop()) if len(sys.argv) == 2 and not sys.argv[1].startswith("-") else None
INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.MULTILINE)
# The folders of the public interface. Headers of other folders are public if these include them.
LAYERS = ["autograd", "core", "data", "dist", "io", "nn", "optim", "text", "train"]
# Internal headers. A new header is either here or in ringtape.h.
INTERNAL = {
    "autograd": "arguments attention_heads invalid_index low_precision operation_scope tape_graph",
    "core": "capture ceil_div cuda_check divisors half numbers philox quote target",
    "data": "context_dataset gzip mnist_embedded",
    "dist": "bucket_buffers bucket_reducer element_address gather_text layout_check mesh_traffic model_parts mpi_communicator mpi_reduce_op mpi_thread nccl_check nccl_communicator nccl_event nccl_monitor "
            "naive_reducer optimizer_state parameter_name port self_communicator shard_exchange share_cores short_slices stage_parts traffic unit_values "
            "verify_parameters verify_replicas verify_same watchdog zero1_reducer zero2_reducer zero3_reducer",
    "io": "checksum embed json mapped_file parse",
    "nn": "hugging_face_config hugging_face_names module_scope parameter_units shard_range",
    "optim": "setting",
    "text": "gpt2_pieces unicode_classes unicode_ranges utf8",
    "train": "built_in_loss checkpointing console graph_table json_lines learning_rate make metrics model_input option_list option_types option_value "
             "output_files profile_table progress recorded_steps report/document report/page report/run_curves report/run_report report/step_timeline "
             "run_log timeline training_run training_state update value_record value_row write_report",
}


def public_headers():
    """ringtape.h and the headers of the separate libraries, with everything that they include."""
    left, found = ["ringtape.h", "data/mnist.h", "text/gpt2.h", "text/tinyshakespeare.h"], set()
    while left:
        header = left.pop()
        if header not in found:
            found.add(header)
            left += INCLUDE.findall((ROOT / header).read_text())
    return found


class PublicHeaders(unittest.TestCase):
    def test_each_header_is_public_or_internal(self):
        public = public_headers()
        internal = {f"{folder}/{name}.h" for folder, names in INTERNAL.items() for name in names.split()}
        present = {str(file.relative_to(ROOT)) for folder in LAYERS for file in (ROOT / folder).rglob("*.h")}
        self.assertEqual(present - public - internal, set(), "neither in ringtape.h nor listed as internal here")
        self.assertEqual(internal & public, set(), "ringtape.h reaches what is listed as internal here")
        self.assertEqual(internal - present, set(), "listed as internal here, but not there")

    @unittest.skipIf(INSTALLED is None, "no installed headers were named")
    def test_the_installed_headers_are_the_public_ones(self):
        installed = {str(file.relative_to(INSTALLED)) for file in INSTALLED.rglob("*") if file.is_file()}
        self.assertEqual(installed, public_headers())

    @unittest.skipIf(INSTALLED is None, "no installed headers were named")
    def test_installed_headers_include_each_other_below_ringtape(self):
        for file in INSTALLED.rglob("*.h"):
            source = (ROOT / file.relative_to(INSTALLED)).read_text()
            expected = ["ringtape/" + header for header in INCLUDE.findall(source)]
            self.assertEqual(INCLUDE.findall(file.read_text()), expected, file)


if __name__ == "__main__":
    unittest.main()
