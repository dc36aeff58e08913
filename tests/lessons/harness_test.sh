#!/usr/bin/env bash
# Tests the comparison of pages with output, on small pages that the test writes, and that README.md lists all pages in order.
#   tests/lessons/harness_test.sh LESSONS
set -uo pipefail
lessons=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# shellcheck source-path=SCRIPTDIR source=../support/checks.sh
. "$here/../support/checks.sh"

# page STATUS WHAT COMMAND QUOTED [FENCE]: a page with this command and quotation must end the test with STATUS.
page() {
  printf '# Page\n\n```sh\n%s\n```\n\n```%s\n%s\n```\n' "$3" "${5:-}" "$4" >page.md
  "$here/lessons_test.sh" page.md "$work" >out 2>&1
  local status=$?
  expect "$2: ends with $status, expected $1: $(cat out)" [ $status -eq "$1" ]
}

output='printf "one 1\n\ntwo 2.000 of 3,145\nthree 1.5e-07\nfour\n"'
page 0 "the lines of the output" "$output" $'one 1\ntwo 2.000 of 3,145\nthree 1.5e-07'
page 0 "blanks and empty lines do not count" "$output" $'one   1\n\n  two 2.000 of 3,145'
page 0 "a gap" "$output" $'one 1\n...\nfour'
page 0 "0.1%" "$output" $'two 2.001 of 3145'
page 0 "the last digit" "$output" $'three 1.6e-07'
page 0 "more where the fence says so" "$output" $'two 2.03 of 3,145' 'text within 2%'
page 1 "a number that is off" "$output" $'two 2.003 of 3,145'
page 1 "more than the fence allows" "$output" $'two 2.05 of 3,145' 'text within 2%'
page 1 "a whole number is exact" "$output" $'two 2.000 of 3,146'
page 1 "a digit more than the last" "$output" $'three 1.7e-07'
page 1 "another sign" "$output" $'one -1'
page 1 "another word" "$output" $'two 2.000 in 3,145'
page 1 "lines that do not follow each other" "$output" $'one 1\nthree 1.5e-07'
page 1 "lines in another order" "$output" $'four\n...\none 1'
page 1 "a line too many" "$output" $'four\nfive'
page 1 "a command that fails" 'echo one; false' 'one'
page 1 "a command that fails before another" $'echo one\nfalse\necho two' 'one'
page 1 "a command that fails before a pipe" $'false | cat\necho one' 'one'
page 1 "nothing quoted" 'echo one' ''
mkdir "a folder" && printf '#!/bin/sh\necho one\n' >"a folder/program" && chmod +x "a folder/program"
printf '# Page\n\n```sh\nbuild/release/bin/program\n```\n\n```\none\n```\n' >page.md
expect "programs in a path with a space" "$here/lessons_test.sh" page.md "a folder"
page 77 "no GPU model" 'build/model/bin/lessons/none' 'one'
page 77 "no MPI" 'mpirun -n 2 build/release/bin/lessons/none' 'one'

# A bare name is looked up in PATH; it is also the name of the function that pages call.
mkdir launcher
printf '#!/bin/sh\nshift 2\nexec "$@"\n' >launcher/mpirun
chmod +x launcher/mpirun
printf '# Page\n\n```sh\nmpirun -n 2 echo one\n```\n\n```\none\n```\n' >page.md
with_launcher() ( # NAME: the test of that page; a stack limit ends endless recursion
  ulimit -s 8192
  PATH="$work/launcher:$PATH" "$here/lessons_test.sh" page.md "$work" "$1" >out 2>&1
)
expect "mpirun by a bare name" with_launcher mpirun
expect "mpirun by its path" with_launcher "$work/launcher/mpirun"
with_launcher no_such_launcher
expect "a launcher that does not exist" [ "$? $(cat out)" = "1 no program no_such_launcher" ]

printf '# Page\n\nNo command.\n' >page.md
expect "a page without a command" [ "$("$here/lessons_test.sh" page.md "$work" | tail -n 1)" = "0 passed, 1 failed" ]

listed=$(grep -o '](\([0-9][0-9]-[a-z0-9-]*/README[.]md\))' "$lessons/README.md" | tr -d ']()')
expect "README.md lists the pages in reading order: $listed" [ "$listed" = "$(cd "$lessons" && ls [0-9]*/README.md)" ]
for file in "$lessons"/README.md "$lessons"/*/README.md "$lessons"/../docs/glossary.md; do
  for link in $(grep -o '](\([^)#]*\)' "$file" | sed 's/^](//' | grep -v '^http'); do
    expect "$file: no file $link" [ -e "$(dirname "$file")/$link" ]
  done
done
number=1
for file in "$lessons"/[0-9]*/README.md; do
  expect "$file: a title '# $number. ...'" grep -q "^# ${number}[.] " "$file"
  expect "$file: a quiz" grep -q '^<details>' "$file"
  expect "$file: a part 'Now turn this'" grep -q '^[*][*]Now turn this[.][*][*] ' "$file"
  number=$((number + 1))
done

summary
