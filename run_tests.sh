#!/usr/bin/env bash
# Builds everything and runs the tests. Installs what is missing first. Arguments go to ctest: ./run_tests.sh -R gemm
set -euo pipefail
root=$(cd "$(dirname "$0")" && pwd)
"$root/scripts/setup.sh"
exec ctest --test-dir "$root/build" --output-on-failure "$@"
