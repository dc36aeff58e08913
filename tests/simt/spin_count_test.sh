#!/usr/bin/env bash
# What libgomp takes for its spin count in a program that launches kernels, as it tells itself (OMP_DISPLAY_ENV), and that
# the variable whose place was lent is there again.
#   tests/simt/spin_count_test.sh PROGRAM PROGRAM_WITH_SHOW_LAUNCH SPIN_COUNT
set -uo pipefail
program=$1
show_launch=$2
count=$3

passed=0
failed=0
# expect WHAT FOUND EXPECTED
expect() {
  if [ "$2" = "$3" ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED: %s: found "%s", expected "%s"\n' "$1" "$2" "$3"
  fi
}
# spins ASSIGNMENTS...: the count in a program started with these variables alone.
spins() { env -i OMP_DISPLAY_ENV=verbose LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}" "$@" "$program" --help 2>&1 | sed -nE "s/^.*GOMP_SPINCOUNT = '(.*)'$/\1/p"; }

if [ -z "$(spins A=1)" ]; then
  echo "skipped: the OpenMP library here tells no GOMP_SPINCOUNT"
  exit 77
fi
expect "no variable of the user's" "$(spins A=1)" "$count"
expect "GOMP_SPINCOUNT" "$(spins GOMP_SPINCOUNT=77 A=1)" 77
expect "OMP_WAIT_POLICY" "$(spins OMP_WAIT_POLICY=passive A=1)" 0
launch() { env -i LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}" "$@" "$show_launch" --show-launch 2>&1 | grep '^because'; }
expect "the last variable is back" "$(launch PMI_RANK=0 PMI_SIZE=1)" "because   PMI_SIZE=1, PMI_RANK=0"
expect "in another order too" "$(launch PMI_SIZE=1 PMI_RANK=0)" "because   PMI_SIZE=1, PMI_RANK=0"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
