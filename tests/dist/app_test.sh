# shellcheck shell=bash
# Functions for tests of programs on several ranks; to be sourced. Changes to a new folder, which is removed at the end, and
# counts passes and failures.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

passed=0
failed=0

# expect WHAT COMMAND...: the command must succeed.
expect() {
  local what=$1
  shift
  if "$@" >"$work/shown" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED: %s: %s\n' "$what" "$(head -c 600 "$work/shown" "$work/out" "$work/err")"
  fi
}
