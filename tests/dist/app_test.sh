# shellcheck shell=bash
# Functions for tests of programs on several ranks; to be sourced. Changes to a new folder, which is removed at the end, and
# counts checks (tests/support/checks.sh).
support=$(cd "$(dirname "${BASH_SOURCE[0]}")/../support" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
# Open MPI's programs share one folder per user, which a program that ends may remove while another starts: use a separate one.
export OMPI_MCA_orte_tmpdir_base=$work

# shellcheck source-path=SCRIPTDIR source=../support/checks.sh
. "$support/checks.sh"

# run_ranks STATUS NUMBER PROGRAM ARGUMENTS...: runs a program of "$bin" on NUMBER ranks with "${mpirun[@]}", output to out and
# err; it must end with STATUS.
# shellcheck disable=SC2154  # the test sets bin and mpirun
run_ranks() {
  local status=$1 number=$2
  shift 2
  timeout 120 "${mpirun[@]}" -n "$number" "$bin/$1" "${@:2}" >out 2>err </dev/null
  expect "$number ranks: $*: ends with $status" [ $? -eq "$status" ]
}

# same TOLERANCE FILE OTHER: whether two metrics files have the same steps, and losses, norms and accuracies that differ by at
# most TOLERANCE times their value in OTHER. What is not a number, as null, equals only itself.
same() {
  paste -d '|' <(tr -d '{}"' <"$2") <(tr -d '{}"' <"$3") | awk -F '|' -v tolerance="$1" '
    function far(a, b) { return (a > b ? a - b : b - a) > tolerance * (b > 0 ? b : -b) }
    function number(x) { return x ~ /^-?[0-9.]+([eE][-+]?[0-9]+)?$/ }
    function differ(k) {
      if ((k in found) != (k in expected)) return 1
      if (!(k in expected)) return 0
      if (!number(found[k]) || !number(expected[k])) return found[k] != expected[k]
      return far(found[k] + 0, expected[k] + 0)
    }
    {
      split("", found); split("", expected)
      n = split($1, items, ","); for (i = 1; i <= n; ++i) { split(items[i], pair, ":"); found[pair[1]] = pair[2] }
      n = split($2, items, ","); for (i = 1; i <= n; ++i) { split(items[i], pair, ":"); expected[pair[1]] = pair[2] }
      if (found["step"] != expected["step"]) bad = 1
      if (differ("loss") || differ("test_loss") || differ("grad_norm") || differ("test_accuracy")) bad = 1
    }
    END { exit bad || NR < 3 }'
}
