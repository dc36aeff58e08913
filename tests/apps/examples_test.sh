#!/usr/bin/env bash
# Runs the programs of examples/ and checks their accuracy and lengths.
#   tests/apps/examples_test.sh BIN_DIR [MPIRUN...]
set -euo pipefail
examples=$(cd "$1" && pwd)/example
mpirun=("${@:2}")

fail() {
  echo "failed: $1"
  exit 1
}

# accuracies_above LEAST OUTPUT: every "test accuracy X%" in the output must be at least that, and there must be one.
accuracies_above() {
  echo "$2" | awk -v least="$1" '
    match($0, /test accuracy [0-9.]+%/) { found = 1; if (substr($0, RSTART + 14) + 0 < least) low = 1 }
    END { exit !found || low }' || fail "expected a test accuracy of $1% or more: $2"
}

# A reader sees them whole.
for each in xor:70 mnist:70 mnist_ddp:80; do
  lines=$(wc -l <"$(dirname "$0")/../../examples/${each%:*}.cpp")
  [ "$lines" -le "${each#*:}" ] || fail "examples/${each%:*}.cpp has $lines lines, expected at most ${each#*:}"
done

# The four outputs for 0 0, 0 1, 1 0 and 1 1, rounded, are 0 1 1 0.
output=$("${examples}_xor")
rounded=$(echo "$output" | grep -v '^step' | tr -c '0-9.e+\n-' ' ' | awk '
  { for (i = 1; i <= NF; ++i) if ($i ~ /^-?[0-9]+\.[0-9]/) printf "%d ", $i + 0.5 }')
[ "$rounded" = "0 1 1 0 " ] || fail "xor learnt '$rounded', expected '0 1 1 0 ': $output"

output=$("${examples}_mnist")
accuracies_above 97 "$(tail -n 1 <<<"$output")"

# One epoch, twice.
check_ddp() {
  local output
  output=$("$@")
  accuracies_above 95 "$output"
  [ "$(echo "$output" | wc -l)" -eq 3 ] || fail "$*: expected 3 lines, of rank 0 alone: $output"
  echo "$output" | grep -qx 'the weights are the same' || fail "$*: $output"
}
check_ddp "${examples}_mnist_ddp"
if [ ${#mpirun[@]} -gt 0 ]; then check_ddp "${mpirun[@]}" -n 2 "${examples}_mnist_ddp"; fi
echo passed
