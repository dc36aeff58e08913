#!/usr/bin/env bash
# Installs a finished build to a temporary folder, then builds and runs a program that finds it there.
#   tests/apps/install_test.sh BUILD_DIR
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
build_dir=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build_dir" --prefix "$work/prefix" >"$work/install.log"
cmake -G Ninja -S "$source_dir/tests/apps/consumer" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release
cmake --build "$work/build"
"$work/build/consumer"
# Its threads spin no longer than those of the programs (tests/simt/openmp_start_test.sh).
spins() { env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY OMP_DISPLAY_ENV=verbose "$@" 2>&1 | grep GOMP_SPINCOUNT || true; }
expected=$(spins "$work/prefix/bin/mnist" --help)
found=$(spins "$work/build/consumer")
if [ "$found" != "$expected" ]; then
  echo "failed: mnist says '$expected', and a program that links the library '$found'" >&2
  exit 1
fi
"$work/prefix/bin/mnist" --help >/dev/null
# Nothing of the source tree may be needed by the installed files.
if grep -rlF "$source_dir" "$work/prefix/lib"*/cmake "$work/prefix/include"; then
  echo "failed: the files above name the source tree" >&2
  exit 1
fi
