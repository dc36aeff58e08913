#!/usr/bin/env bash
# Runs the commands of a lesson's page and compares their output with the page's quotes.
#   tests/lessons/lessons_test.sh PAGE BIN_DIR [MPIRUN [ARGUMENTS OF MPIRUN...]]
#
# A fence ```sh of the page is a command, and the fences ``` after it quote its output. Quoted lines follow each
# other in the output; "..." stands for any number of lines. Words and whole numbers must be the same. Numbers with
# a point or an exponent may differ by 0.1%, or by one in their last digit; a fence "```text within 2%" allows more.
# Other fences are ignored. Commands with mpirun are skipped without MPIRUN, and those with build/model unless this is
# a build of the GPU model; a lesson's program that mpirun starts must also end with 0 as one rank.
set -uo pipefail
page=$(realpath "$1")
bin=$(realpath "$2")
compare=$(realpath "$(dirname "$0")")/lesson_output.awk
shift 2
mpirun=("$@")
if [ $# -gt 0 ]; then
  # By its path: pages call a function named mpirun, which must not call itself.
  mpirun[0]=$(type -P "$1") || { echo "no program $1"; exit 1; }
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export OMPI_MCA_orte_tmpdir_base=$work # see tests/dist/app_test.sh
# Commands are as a reader types them at the root of the repository.
for name in release model; do mkdir -p "build/$name" && ln -s "$bin" "build/$name/bin"; done

passed=0
failed=0
skipped=0

# failure TEXT FILE...: counts a failure and shows the files.
failure() {
  failed=$((failed + 1))
  printf 'FAILED: %s: %s\n' "$(basename "$page")" "$1"
  shift
  if [ $# -gt 0 ]; then tail -n 25 -- "$@"; fi
}

# Writes the command of each ```sh fence to N.sh, and all fences that quote its output to N.quoted.
awk '
  /^```sh$/ { file = ++count ".sh"; next }
  /^```(text within [0-9.]+%)?$/ && file == "" && count > 0 { file = count ".quoted"; print "```" $3 > file; next }
  /^```/ { file = file == "" ? "none" : ""; next }
  file != "" && file != "none" { print > file }
' "$page"

run() { # COMMAND_FILE OUTPUT_FILE
  # In a separate shell, so that each line has to succeed: -e has no effect inside of an "if".
  {
    declare -p launcher
    declare -f alone
    # shellcheck disable=SC2016  # for that shell
    echo 'mpirun() { "${launcher[@]}" "$@"; }'
    cat "$1"
  } >command.bash
  bash -e -o pipefail command.bash >"$2" 2>&1 </dev/null
}

# alone -n NUMBER PROGRAM...: replaces mpirun, and starts the program as one process.
alone() { "${@:3}"; }

for command in *.sh; do
  [ -f "$command" ] || { failure "no command"; break; }
  number=${command%.sh}
  [ -f "$number.quoted" ] || { failure "the output of a command is not quoted" "$command"; continue; }
  if grep -q 'build/model/' "$command" && ! grep -qs '^RINGTAPE_CUDA:.*=MODEL$' "$bin/../CMakeCache.txt"; then
    skipped=$((skipped + 1))
    printf 'skipped: %s: no GPU model: %s\n' "$(basename "$page")" "$(head -n 1 "$command")"
    continue
  fi
  if grep -q 'mpirun' "$command"; then
    if [ ${#mpirun[@]} -eq 0 ]; then
      skipped=$((skipped + 1))
      printf 'skipped: %s: no MPI: %s\n' "$(basename "$page")" "$(head -n 1 "$command")"
      continue
    fi
    if grep -q 'mpirun -n [0-9]* build/release/bin/lessons/' "$command"; then
      launcher=(alone)
      run "$command" out || failure "fails as one rank: $(cat "$command")" out
    fi
  fi
  launcher=("${mpirun[@]}")
  if ! run "$command" out; then
    failure "fails: $(cat "$command")" out
  elif ! awk -f "$compare" "$number.quoted" out >differences; then
    failure "$(cat "$command")" differences
  else
    passed=$((passed + 1))
  fi
done

echo "$passed passed, $failed failed"
if [ "$failed" -gt 0 ]; then exit 1; fi
if [ "$passed" -eq 0 ]; then exit 77; fi
