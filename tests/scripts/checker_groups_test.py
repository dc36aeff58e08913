#!/usr/bin/env python3
"""Tests that every test of kernels is in a group that tests/gpu_check.sh runs under compute-sanitizer: those of tests/kernels by
their tags, and kernels without a test file there by the operations of autograd/ that launch them.

  tests/scripts/checker_groups_test.py
"""
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CASE = re.compile(r'(?:GPU_|TEMPLATE_)?TEST_CASE\(\s*(?:"(?:[^"\\]|\\.)*"\s*)+,\s*"((?:\[[^\]]*\])+)"')
TESTS_OF_OPERATIONS = {"[ops]", "[gpu]"}


def groups():
    """The tags of each group."""
    text = re.search(r"^checker\(\) \{(.*?)^\}", (ROOT / "tests/gpu_check.sh").read_text(), re.DOTALL | re.MULTILINE)[1]
    names = "".join(re.findall(r"groups\+?='(.*)'", text)).split(",")
    return [set(re.findall(r"\[\w+\]", name)) for name in names if name.startswith("[")]


class CheckerGroups(unittest.TestCase):
    def test_every_test_of_a_kernel_is_in_a_group(self):
        for path in sorted((ROOT / "tests/kernels").glob("*_test.cpp")):
            text = path.read_text()
            cases = CASE.findall(text)
            self.assertEqual(len(cases), text.count("TEST_CASE("), f"{path.name}: a test case without tags?")
            for tags in cases:
                self.assertTrue(any(group <= set(re.findall(r"\[\w+\]", tags)) for group in groups()), f"{path.name}: {tags}")

    def test_kernels_without_a_test_file_are_seen_through_operations(self):
        tests, operations = (" ".join(path.read_text() for path in (ROOT / folder).glob("*.cpp")) for folder in ("tests/kernels", "autograd"))
        headers = [f'"kernels/{path.stem}.h"' for path in sorted((ROOT / "kernels").glob("*.cu"))]
        by_operations = [header for header in headers if header not in tests and header in operations]
        self.assertIn('"kernels/norm.h"', by_operations)
        self.assertIn(TESTS_OF_OPERATIONS, groups())


if __name__ == "__main__":
    tests = unittest.main(exit=False).result
    failed = len(tests.failures) + len(tests.errors)
    print(f"{tests.testsRun - failed} passed, {failed} failed")
    raise SystemExit(failed > 0)
