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
"$work/prefix/bin/mnist" --help >/dev/null
# Nothing of the source tree may be needed by the installed files.
if grep -rlF "$source_dir" "$work/prefix/lib"*/cmake "$work/prefix/include"; then
  echo "failed: the files above name the source tree" >&2
  exit 1
fi
