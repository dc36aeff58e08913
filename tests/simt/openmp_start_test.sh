#!/usr/bin/env bash
# Checks libgomp's spin count and number of threads in a program that launches kernels, as OMP_DISPLAY_ENV prints them, and
# that the environment variable whose slot was replaced is restored.
#   tests/simt/openmp_start_test.sh PROGRAM PROGRAM_WITH_SHOW_LAUNCH SPIN_COUNT
set -uo pipefail
program=$(realpath "$1")
show_launcher=$(realpath "$2")
count=$3

# shellcheck source-path=SCRIPTDIR source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"
# equal WHAT FOUND EXPECTED
equal() {
  if [ "$2" = "$3" ]; then pass; else failure "$1: found \"$2\", expected \"$3\""; fi
}
# shown NAME ASSIGNMENTS...: that setting of libgomp in a program started with only these variables.
shown() {
  env -i OMP_DISPLAY_ENV=verbose LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}" "${@:2}" "$program" --help 2>err |
    cat - err | sed -nE "s/^ *(\[host\] )?$1 = '(.*)'$/\2/p"
}
spins() { shown GOMP_SPINCOUNT "$@"; }
threads() { shown OMP_NUM_THREADS "$@"; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
if [ -z "$(spins A=1)" ]; then
  echo "skipped: the OpenMP library here tells no GOMP_SPINCOUNT"
  exit 77
fi
equal "no variable of the user's" "$(spins A=1)" "$count"
equal "GOMP_SPINCOUNT" "$(spins GOMP_SPINCOUNT=77 A=1)" 77
equal "OMP_WAIT_POLICY" "$(spins OMP_WAIT_POLICY=passive A=1)" 0
cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc) # nproc would take these variables into account
equal "as many threads as may be" "$(threads OMP_NUM_THREADS=$((4 * cores)) A=1)" $((4 * cores))
equal "nothing is said of it" "$(grep -c warning err)" 0
equal "a thread more" "$(threads OMP_NUM_THREADS=$((4 * cores + 1)) A=1)" "$cores"
equal "far too many" "$(threads OMP_NUM_THREADS=9999 A=1)" "$cores"
equal "and one line says so" "$(grep warning err)" \
  "warning: OMP_NUM_THREADS=9999, but this process may use $cores cores: using $cores threads (at most 4 for each core)"
launch() { env -i LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}" "$@" "$show_launcher" --show-launcher 2>&1 | grep '^because'; }
equal "the last variable is back" "$(launch PMI_RANK=0 PMI_SIZE=1)" "because   PMI_SIZE=1, PMI_RANK=0"
equal "in another order too" "$(launch PMI_SIZE=1 PMI_RANK=0)" "because   PMI_SIZE=1, PMI_RANK=0"

summary
