#!/usr/bin/env bash
# Runs apps/collectives as a user would, on one rank and on several, with valid and invalid input.
#   tests/dist/collectives_app_test.sh COLLECTIVES MPIRUN [ARGUMENTS OF MPIRUN...]
set -uo pipefail
collectives=$(realpath "$1")
shift
mpirun=("$@")
# shellcheck source-path=SCRIPTDIR source=app_test.sh
. "$(dirname "$0")/app_test.sh"

# run STATUS COMMAND...: runs a command, output to out and err; it must end with this status.
run() {
  local status=$1
  shift
  timeout 120 "$@" >out 2>err </dev/null
  expect "$*: ends with $status" [ $? -eq "$status" ]
}

ranks() { # NUMBER ARGUMENTS...
  local number=$1
  shift
  run 0 "${mpirun[@]}" -n "$number" "$collectives" --device cpu "$@"
}

# ---- measuring ----------------------------------------------------------------------------------------------

for number in 1 2 3 4; do
  for dtype in f32 bf16; do
    ranks "$number" --min-bytes 64 --max-bytes 4096 --iterations 2 --dtype $dtype --segment-bytes 100
    expect "$number ranks, $dtype: 9 operations, 7 sizes, nothing wrong" \
      [ "$(grep -cE '^[a-z_]+ +[0-9]+ +[0-9]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +0$' out)" -eq 63 ]
  done
done
# busbw / algbw is 2 (n - 1) / n = 1.5 for all_reduce with 4 ranks; both are rounded to 0.001 GB/s.
ranks 4 --operations all_reduce --min-bytes 1048576 --max-bytes 1048576 --iterations 3
expect "busbw of all_reduce" awk '/^all_reduce/ { found = 1; d = $6 - 1.5 * $5; wrong = d < -0.0013 || d > 0.0013 } END { exit !found || wrong }' out

# The sizes are rounded down to whole elements: 5 and 10 bytes are requested, and an element has 4.
ranks 2 --operations all_reduce --min-bytes 5 --max-bytes 10 --iterations 1 --json odd.json
expect "the bytes of whole elements" [ "$(awk '/^all_reduce/ { print $2, $3 }' out | tr '\n' ';')" = "4 1;8 2;" ]
expect "they are in the file" [ "$(grep -c '"bytes": [48]\b' odd.json)" -eq 2 ]

run 0 "$collectives" --device cpu --max-bytes 4096
expect "a plain start is one rank" grep -q '^1 rank, one rank' out

# ---- the ring, step by step ---------------------------------------------------------------------------------

ranks 4 --trace-ring --svg ring.svg
expect "6 steps" [ "$(grep -c '^step' out)" -eq 6 ]
expect "rank 3 sends chunk 3 to rank 0 first" grep -qE '^step 0  add .*3 -> 0: chunk 3' out
expect "at the end all ranks have all chunks" [ "$(tail -n 6 out | grep -cE 'rank [0-3] +all +all +all +all$')" -eq 4 ]
expect "what rank 0 sent" grep -q 'Rank 0 sent 24 elements: 2 (4 - 1) / 4 of 16' out
expect "4 x 4 cells in 7 panels, a frame for each of 4 x 6 moves, and the background" [ "$(grep -c '<rect' ring.svg)" -eq 137 ]
expect "the picture ends" grep -q '</svg>' ring.svg

# ---- launching ----------------------------------------------------------------------------------------------

ranks 3 --show-launcher
expect "three ranks report" [ "$(grep -c 'launcher  Open MPI' out)" -eq 3 ]
expect "and their numbers" grep -q 'rank      2 of 3, local rank 2' out
run 0 "$collectives" --show-launcher
expect "no launcher" grep -q 'launcher  none' out

run 1 env RANK=0 "$collectives"
expect "RANK alone" grep -q 'error: torchrun: WORLD_SIZE is not set; found RANK=0' err
torchrun=(env RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=localhost MASTER_PORT=29500)
run 1 "${torchrun[@]}" "$collectives" --device cpu
expect "torchrun with CPU ranks" grep -q "error: torchrun started 2 ranks, .*'mpirun -n 2" err
run 1 "${torchrun[@]}" "${mpirun[@]}" -n 2 "$collectives" --device cpu
expect "two launchers" grep -q 'error: two launchers contradict' err
run 1 env OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 "$collectives" --device cpu
expect "Open MPI's variables without mpirun" grep -q 'error: MPI says rank 0 of 1, but Open MPI says rank 1 of 2' err
run 1 "$collectives" --device cpu --trace-ring
expect "a ring of one" grep -q 'error: --trace-ring: found 1 rank, expected 2 to 24' err
for flag in --trace-ring --show-launcher; do
  run 2 "$collectives" $flag --json results.json
  expect "$flag has no times" grep -q "error: $flag cannot be used with --json" err
done
for flag in --segment-bytes --in-flight; do
  run 1 "$collectives" --device cpu --operations all_reduce $flag 4
  expect "$flag without the ring" grep -q "error: $flag has no effect: --operations has no ring_all_reduce" err
done
run 1 "$collectives" --device cpu --segment-bytes 1
expect "a segment below an element" grep -q 'error: --segment-bytes is 1, expected at least an element of f32' err
run 1 "$collectives" --device cpu --min-bytes 8 --max-bytes 4
expect "sizes" grep -q 'error: --min-bytes is 8' err
run 1 "$collectives" --device cpu --max-bytes 68719476736 --dtype bf16
expect "more than the machine's memory" grep -q 'error: --max-bytes is 68719476736: a rank needs 640 GiB, but' err
run 1 "${mpirun[@]}" -n 1 "$collectives" --device cpu : -n 1 "$collectives" --device cpu --dtype f16
expect "ranks with different flags" \
  grep -q "error: the ranks' flags differ: line 0 is --dtype f32 on rank 0, but --dtype f16 on rank 1" err
run 2 "$collectives" --operations all_to_all
expect "an unknown operation" grep -q 'error: --operations' err
run 2 "$collectives" --comm-timeout 0
expect "no time" grep -q 'error: --comm-timeout' err
run 2 "$collectives" --comm-timeout nan
expect "a time that is not a number" grep -q 'error: --comm-timeout' err
# shellcheck disable=SC2016 # the ranks' own variable
run 1 "${mpirun[@]}" -n 2 bash -c 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then exec sleep 60; else exec "$@"; fi' - \
  "$collectives" --device cpu --comm-timeout 2
expect "a peer that never comes" \
  grep -q 'error: rank 0 of 2: connect did not finish within 2 s: not all ranks have come to MPI_Init' err

summary
