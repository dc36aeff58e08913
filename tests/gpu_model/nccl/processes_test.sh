#!/usr/bin/env bash
# Ranks of the GPU model's NCCL as processes: sums, and a rank that is killed.
set -u
rank=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# run_ranks RANKS MODE ID: starts the ranks and waits; their output is in $work/RANK.
run_ranks() {
  local i pids=()
  for ((i = 0; i < $1; ++i)); do
    NCCL_COMM_ID=$3 timeout 120 "$rank" "$i" "$1" "$2" >"$work/$i" 2>&1 &
    pids+=($!)
  done
  for ((i = 0; i < $1; ++i)); do
    wait "${pids[i]}" 2>/dev/null
    echo $? >"$work/status$i"
  done
}

for schedule in order late early random:7; do
  export RINGTAPE_MODEL_SCHEDULE=$schedule
  for ranks in 1 2 4; do
    # Five sums of an element that is 1 at first: each multiplies it by the number of ranks.
    run_ranks $ranks sum "127.0.0.1:$((20000 + RANDOM % 20000))"
    for ((i = 0; i < ranks; ++i)); do
      value=$((ranks ** 5))
      [ "$(cat "$work/$i")" = "$value $value" ] || fail "$schedule, rank $i of $ranks: $(cat "$work/$i")"
    done
  done

  run_ranks 3 dies "[::1]:$((20000 + RANDOM % 20000))"
  for i in 0 2; do
    grep -qF 'remote process exited or there was a network error: rank 1 has ended' "$work/$i" || fail "$schedule: $(cat "$work/$i")"
    grep -qF 'stream: no error' "$work/$i" || fail "$schedule, the stream of rank $i: $(cat "$work/$i")"
    [ "$(cat "$work/status$i")" = 0 ] || fail "$schedule: rank $i ended with $(cat "$work/status$i")"
  done
done

if [ $failures -ne 0 ]; then exit 1; fi
echo "ranks as processes: all as expected"
