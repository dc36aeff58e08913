#!/usr/bin/env bash
# Builds everything and runs the tests. Installs what is missing first. Arguments go to ctest: ./run_tests.sh -R simt
set -euo pipefail
root=$(cd "$(dirname "$0")" && pwd)
"$root/scripts/setup.sh"
status=0
# Twice as many tests as cores: those of ranks wait more than they compute.
ctest --test-dir "$root/build/release" --no-tests=error --output-on-failure --parallel $((2 * $(nproc))) "$@" || status=$?
# What the test programs say of their own tests; those that need a GPU are counted as skipped where there is none.
grep -hE '^(All tests passed|test cases:|skipped|[0-9]+ passed)' "$root/build/release/Testing/Temporary/LastTest.log" || true
exit $status
