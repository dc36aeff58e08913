"""Tests of scripts/validate_scale.py with a small model and an mpirun that starts one rank:  validate_scale_test.py BIN_FOLDER"""
import contextlib
import io
import os
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

BIN = pathlib.Path(sys.argv.pop()).resolve()
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import validate_scale  # noqa: E402

# mpirun --oversubscribe --bind-to none [--allow-run-as-root] -n N PROGRAM...
ONE_RANK = '#!/bin/sh\nwhile [ "$1" != -n ]; do shift; done\nshift 2\nexec "$@"\n'


def program(path, text):
    path.write_text(text)
    path.chmod(0o755)


class ValidateScale(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_one_rank_takes_its_parts_one_after_the_other(self):
        args = types.SimpleNamespace(bin=BIN)
        for micro_batches, expected in ((1, 33), (3, 93)):  # (10 + 20) ms each, and 3 ms for the update
            predicted = validate_scale.predict(args, 1, (10, 20, 3), (0, 1000), 4, micro_batches, [])
            self.assertAlmostEqual(predicted, expected)

    def test_every_case_is_measured_and_predicted(self):
        program(self.folder / "mpirun", ONE_RANK)
        small = {"HIDDEN": [4], "PARAMETERS": 785 * 4 + 5 * 10, "SAMPLES": 8}
        printed, ended = io.StringIO(), ""
        with mock.patch.multiple(validate_scale, **small), contextlib.redirect_stdout(printed), \
                mock.patch.dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}"), \
                mock.patch.object(sys, "argv", ["validate_scale.py", "--bin", str(BIN)]):
            try:
                validate_scale.main()
            except SystemExit as error:
                ended = error.code
        lines = printed.getvalue().splitlines()
        self.assertEqual(len(lines), 1 + 2 + len(validate_scale.CASES) + 3, f"{printed.getvalue()}{ended}")
        for line, (what, *_) in zip(lines[3:], validate_scale.CASES):
            self.assertRegex(line, rf"^2 ranks, {what} +\d+\.\d ms +\d+\.\d ms +[+-]\d+\.\d%$")
        if ended:  # the prediction is for two ranks, and one runs
            self.assertRegex(ended, r"^error: predicted by more than 15% wrong: ")

    def test_a_program_that_fails_ends_the_script_with_its_message(self):
        program(self.folder / "mnist", "#!/bin/sh\necho 'error: no data' >&2\nexit 1\n")
        with self.assertRaises(SystemExit) as ended:
            validate_scale.calibrate(types.SimpleNamespace(bin=self.folder), self.folder, 2)
        self.assertRegex(ended.exception.code, r"^error: .*mnist .* ended with 1: error: no data$")


if __name__ == "__main__":
    unittest.main()
