#!/usr/bin/env bash
# Runs the test suite repeatedly, to find tests that depend on time, load or chance.
#
#   scripts/repeat_tests.sh [N] [--busy] [ARGUMENTS OF CTEST...]      BUILD=FOLDER: a build folder instead of build/release
#
# N: the number of runs [10]. --busy: with a busy loop for each core beside them. Prints a line for each run; the whole output of
# a failed run stays in FOLDER/repeated. The exit status is 1 if a test has failed, and 2 for wrong arguments.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { printf 'error: %s\n' "$*" >&2; exit 2; }

if [ "${1:-}" = -h ] || [ "${1:-}" = --help ]; then
  sed -n '2,/^set /s/^# \{0,1\}//p' "$0"
  exit
fi
runs=10
if [[ "${1:-}" =~ ^[0-9]+$ ]]; then
  runs=$((10#$1))
  shift
fi
busy=no
if [ "${1:-}" = --busy ]; then
  busy=yes
  shift
fi
# The other arguments go to ctest, which ignores a word that is no flag.
if [ $# -gt 0 ] && [[ "$1" != -* ]]; then die "found '$1', expected [N] [--busy] [ARGUMENTS OF CTEST...]"; fi
build=${BUILD:-build/release}
[ -f "$build/CTestTestfile.cmake" ] || die "no tests in $build: build them first (./run_tests.sh does)"
[ "$runs" -ge 1 ] || die "$runs runs: expected at least 1"

cores=$(nproc)
started=() # the busy loops, and the process group of ctest and its tests, as a negative number
stop_all() { if [ ${#started[@]} -gt 0 ]; then kill -- "${started[@]}" 2>/dev/null || true; fi; }
trap stop_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
if [ $busy = yes ]; then
  for ((i = 0; i < cores; ++i)); do
    # A loop also ends if this script is killed by SIGKILL, which cannot be trapped.
    (trap - EXIT; while kill -0 $$ 2>/dev/null; do for ((k = 0; k < 100000; ++k)); do :; done; done) &
    started+=($!)
  done
fi

mkdir -p "$build/repeated"
failures=0
for ((run = 1; run <= runs; ++run)); do
  log=$build/repeated/$run.log
  start=$SECONDS
  set -m # ctest gets a process group of its own
  ctest --test-dir "$build" --no-tests=error --output-on-failure --parallel $((2 * cores)) "$@" >"$log" 2>&1 &
  set +m
  started[cores]=-$!
  status=0
  wait $! || status=$?
  unset "started[cores]"
  result=$(grep -E ' tests passed,' "$log") || result=""
  printf 'run %d of %d: %d s, %s\n' "$run" "$runs" $((SECONDS - start)) "${result:-no tests passed, ctest ended with $status}"
  if [ $status -eq 0 ] && [ -n "$result" ]; then
    rm "$log"
  else
    failed=$(sed -nE '/\((Skipped|Disabled)\)$/d; s/^\t *[0-9]+ - (.*)$/  \1/p' "$log")
    printf '%s\n' "$failed" | sed '/^$/d'
    failures=$((failures + $(printf '%s' "$failed" | grep -c . || true)))
    if [ -z "$failed" ]; then failures=$((failures + 1)); fi
  fi
done
beside=""
if [ $busy = yes ]; then beside=" beside $cores busy loops"; fi
echo "$runs runs$beside: $failures failures"
[ $failures -eq 0 ]
