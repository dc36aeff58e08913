#!/usr/bin/env bash
# Installs a finished build to a temporary folder, then builds and runs programs that use it.
#   tests/apps/install_test.sh BUILD_DIR [MPIRUN...]
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
build_dir=$(cd "$1" && pwd)
mpirun=("${@:2}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_MCA_orte_tmpdir_base=$work # see tests/dist/app_test.sh

fail() {
  echo "failed: $*" >&2
  exit 1
}
# shown TEXT FILE: the file must contain the text.
shown() { grep -qF -- "$1" "$2" || fail "expected '$1' in: $(cat "$2")"; }

cmake --install "$build_dir" --prefix "$work/prefix" >"$work/install.log"
# Installed programs look for libraries where those in the build folder do (MPI's, CUDA's), and find them.
run_path() { readelf -d "$1" | sed -nE 's/.*\((RUNPATH|RPATH).*\[(.*[^:]):*\]/\2/p'; }
for program in "$work/prefix/bin"/*; do
  expected=$(run_path "$build_dir/bin/${program##*/}")
  found=$(run_path "$program")
  [ "$found" = "$expected" ] || fail "${program##*/} looks for libraries in '$found', expected '$expected'"
  if env -u LD_LIBRARY_PATH ldd "$program" | grep "not found"; then fail "${program##*/} lacks the libraries above"; fi
done
cmake -G Ninja -S "$source_dir/tests/apps/consumer" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release
cmake --build "$work/build"
"$work/build/consumer"
lines=$(wc -l <"$source_dir/tests/apps/consumer/train.cpp")
[ "$lines" -le 30 ] || fail "the program on the trainer has $lines lines, expected at most 30"
# Its threads spin no longer than those of the programs (tests/simt/openmp_start_test.sh).
spins() { env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY OMP_DISPLAY_ENV=verbose "$@" 2>&1 | grep GOMP_SPINCOUNT || true; }
expected=$(spins "$work/prefix/bin/mnist" --help)
found=$(spins "$work/build/consumer")
if [ -z "$expected" ]; then
  if ldd "$work/prefix/bin/mnist" | grep -q libgomp; then fail "mnist reported no GOMP_SPINCOUNT"; fi
  echo "skipped: the OpenMP library here reports no GOMP_SPINCOUNT"
fi
if [ "$found" != "$expected" ]; then
  echo "failed: mnist says '$expected', and a program that links the library '$found'" >&2
  exit 1
fi
"$work/prefix/bin/mnist" --help >/dev/null
# The installed files must not need the source tree.
if grep -rlF "$source_dir" "$work/prefix/lib"*/cmake "$work/prefix/include"; then fail "the files above name the source tree"; fi
# The only folder on the include path is the one above ringtape/, and headers include each other through it.
[ "$(ls "$work/prefix/include")" = ringtape ] || fail "expected include/ringtape alone, found: $(ls "$work/prefix/include")"
if grep -rnE '#include "' "$work/prefix/include" | grep -v '#include "ringtape/'; then fail "the includes above"; fi
if command -v python3 >/dev/null; then
  python3 -B "$source_dir/tests/docs/public_headers_test.py" "$work/prefix/include/ringtape"
else
  echo "skipped: no Python here to compare the installed headers with ringtape.h"
fi

# The program that trains: accumulation, bf16, checkpoints, metrics and a report.
# run LOG COMMAND...
run() {
  OMP_NUM_THREADS=1 timeout 300 "${@:2}" >"$1" 2>"$1.err" </dev/null || fail "${*:2}: $(tail -n 3 "$1" "$1.err")"
  [ ! -s "$1.err" ] || fail "${*:2}: $(cat "$1.err")"
}
mkdir "$work/alone" && cd "$work/alone"
run out "$work/build/train"
shown "sum of squares: 1600 training and 400 test samples" out
shown "batch 64 in micro-batches of 16, adamw at 0.01" out
shown ", bf16" out
shown "after 250 steps" out
[ "$(grep -c '^{"step":' metrics.jsonl)" -eq 250 ] || fail "metrics.jsonl does not have 250 steps"
shown '"event":"done"' metrics.jsonl
shown "</html>" report.html  # the page's template is in the installed library
shown '"caption": "Loss"' report.html
[ -f checkpoints/step-000000000250.json ] || fail "no checkpoint of step 250: $(ls checkpoints)"
# A run resumed from an earlier checkpoint has the same metrics.
rm checkpoints/step-000000000250.*
grep -v seconds metrics.jsonl | sed 's/,"samples_per_s".*//' >whole
run out "$work/build/train"
shown "resumed after step 200" out
grep -v seconds metrics.jsonl | sed 's/,"samples_per_s".*//' >resumed
cmp whole resumed || fail "a resumed run has other metrics than a whole one"

if [ ${#mpirun[@]} -gt 0 ]; then
  mkdir "$work/ranks" && cd "$work/ranks"
  run out "${mpirun[@]}" -n 2 "$work/build/train"
  shown "2 ranks connected by MPI, 32 samples of a batch each" out
  shown "after 250 steps" out
  [ "$(grep -c '^{"step":' metrics.jsonl)" -eq 250 ] || fail "metrics.jsonl of two ranks does not have 250 steps"
  shown "</html>" report.html
  [ -f checkpoints/step-000000000250.json ] || fail "no checkpoint of two ranks: $(ls checkpoints)"
fi
