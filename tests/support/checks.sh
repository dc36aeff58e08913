# shellcheck shell=bash
# Counts the checks of a shell test; to be sourced. The test makes the folder "$work" before its first check, may leave a
# program's output in "$work/out" and "$work/err", and ends with summary.
passed=0
failed=0

pass() { passed=$((passed + 1)); }

# failure TEXT...: counts a failed check, and prints TEXT.
failure() {
  failed=$((failed + 1))
  printf 'FAILED: %s\n' "$*"
}

# expect WHAT COMMAND...: the command must succeed.
expect() {
  local what=$1
  shift
  # shellcheck disable=SC2154  # the test sets work
  if "$@" >"$work/shown" 2>&1; then
    pass
  else
    failure "$what: $(head -c 600 "$work"/shown "$work"/out "$work"/err 2>/dev/null)"
  fi
}

# summary: prints the counts; fails if a check has failed, or nothing was checked.
summary() {
  if [ $((passed + failed)) -eq 0 ]; then failure "nothing was checked"; fi
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
}
